//! The watched file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use trueup_control::{ErrorKind, Object, Objects, Provider, Value, WatchedFile, parse_json};
use trueup_reconcile::{Drained, Hints, Subscribed};
use trueup_testkit::Scratch;

#[test]
fn a_file_is_desired_state_only_while_it_can_be_read() {
    let directory = Scratch::make("file").unwrap();
    let path = directory.join("desired.json");
    let mut file = WatchedFile::json(&path);
    assert_eq!(file.desired().unwrap_err().kind(), ErrorKind::Provider);
    let Subscribed::Active(mut watch) = file.subscribe(Hints::new(|| {})) else {
        panic!("no watch")
    };
    assert_eq!(watch.drain().unwrap(), Drained::Nothing);
    fs::write(&path, "{}").unwrap();
    assert_eq!(watch.drain().unwrap(), Drained::Hint);
    assert_eq!(watch.drain().unwrap(), Drained::Nothing);
    assert_eq!(file.desired().unwrap(), Some(Objects::new()));

    let fields = r#"{"memory": "1", "password": {"secret": "x"}}"#;
    let text = format!(r#"{{"vm7": {{"fields": {fields}, "run_state": "running"}}}}"#);
    fs::write(directory.join("new"), text).unwrap();
    fs::rename(directory.join("new"), &path).unwrap();
    assert_eq!(watch.drain().unwrap(), Drained::Hint);
    let Some(found) = file.desired().unwrap() else { panic!("unknown") };
    let object = Object::new().with("memory", "1").with("password", "x");
    assert_eq!(found["vm7"], object.with_run_state("running"));
    assert!(found["vm7"].fields["password"].is_secret());

    fs::write(&path, "").unwrap();
    let error = file.desired().unwrap_err();
    assert!(error.to_string().contains("desired.json"), "{error}");
    fs::remove_dir_all(&directory).unwrap();
    let gone = (0..3).any(|_| watch.drain().is_err());
    assert!(gone);
}

#[test]
fn a_file_that_others_can_change_is_no_desired_state() {
    let directory = Scratch::make("others").unwrap();
    let path = directory.join("desired.json");
    fs::write(&path, "{}").unwrap();
    let mut file = WatchedFile::json(&path);
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for (changed, mode, words) in [
        (&*path, 0o666, "others can write it"),
        (&*directory, 0o777, "move it to a folder"),
        (&*directory, 0o1777, "others can write it"),
    ] {
        set_mode(changed, mode);
        let error = file.desired().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Provider);
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains(words), "{cause}");
    }
    set_mode(&directory, 0o755);
    set_mode(&path, 0o644);
    if std::os::unix::fs::chown(&path, Some(4_242), None).is_ok() {
        let error = file.desired().unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("user 4242 owns it"), "{cause}");
    }
}

#[test]
fn a_doubled_or_unknown_key_is_an_error_and_a_secret_is_not_in_it() {
    for text in [
        "",
        "[]",
        r#"{"vm7": {}, "vm7": {}}"#,
        r#"{"vm7": {"fields": {"a": "1", "a": "2"}}}"#,
        r#"{"vm7": {"field": {}}}"#,
        r#"{"vm7": {"fields": {"a": 1}}}"#,
        r#"{"vm7": {"fields": {"a": {"secret": "hunter2", "b": 1}}}}"#,
        r#"{"vm7": {"fields": {"a": {"secret": "hunter2"}}} "#,
    ] {
        let error = parse_json(text.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    assert_eq!(Value::from("x").to_string(), "x");
}

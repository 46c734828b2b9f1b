//! The requirements on the files of a configuration.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use super::*;

#[test]
fn what_cannot_work_is_refused_with_its_remedy() {
    let http = Config::new(["http://127.0.0.1:2379"]);
    http.check().unwrap();
    let https = Config::new(["https://127.0.0.1:2379"]);
    for (config, remedy) in [
        (Config::new::<String>([]), "endpoints"),
        (Config::new(["127.0.0.1:2379"]), "http://"),
        (Config::new(["http://a", "https://b"]), "for all"),
        (https.clone(), "ca_file"),
        (http.clone().with_ca_file("/x"), "https"),
        (https.clone().with_ca_file("/no/such/file"), "/no/such/file"),
        (
            http.clone().with_user("a", "/no/such/password").with_clear_password(true),
            "/no/such/password",
        ),
        (http.clone().with_user("a", "/no/such/password"), "allow_clear_password"),
        (http.clone().with_timeout(Duration::ZERO), "longer than 0"),
    ] {
        let error = config.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(remedy), "{error}");
    }
    let mut half = https.with_ca_file("/x");
    half.cert_file = Some("/y".into());
    assert!(half.check().unwrap_err().to_string().contains("key_file"));
}

#[test]
fn a_password_is_the_first_line_of_its_file() {
    let file = std::env::temp_dir().join(format!("trueup-password-{}", std::process::id()));
    for (content, expected) in [
        (&b"secret"[..], Some("secret")),
        (b"secret\n", Some("secret")),
        (b" two words \r\nnext\n\xff", Some(" two words ")),
        (b"", None),
        (b"\nsecret\n", None),
        (b"\xff\n", None),
    ] {
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let read = read_password(&file);
        assert_eq!(read.as_deref().ok(), expected, "{read:?}");
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains("in the first line"), "{error}");
        }
    }
    fs::remove_file(&file).unwrap();
}

#[test]
fn a_file_that_others_can_change_is_refused_and_a_secret_that_they_can_read() {
    let folder = std::env::temp_dir().join(format!("trueup-secrets-{}", std::process::id()));
    trueup_testkit::empty_directory(&folder).unwrap();
    let file = folder.join("file");
    fs::write(&file, "x\n").unwrap();
    for (mode, is_secret, is_public) in [
        (0o600, true, true),
        (0o400, true, true),
        (0o640, false, true),
        (0o644, false, true),
        (0o602, false, false),
        (0o666, false, false),
    ] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(read_password(&file).is_ok(), is_secret, "{mode:o}");
        assert_eq!(read(&file, Readers::Everybody).is_ok(), is_public, "{mode:o}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let config = Config::new(["https://127.0.0.1:2379"]).with_ca_file(&file);
    let key = config.with_cert_files(&file, &file).check().unwrap_err();
    assert!(key.to_string().contains("set its mode to 0600"), "{key}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    if chown(&file, Some(4_242), None).is_ok() {
        assert!(read(&file, Readers::Everybody).is_err(), "that user can change it");
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_regular_file_or_has_no_end_is_refused_at_once() {
    let folder = std::env::temp_dir().join(format!("trueup-fifo-{}", std::process::id()));
    trueup_testkit::empty_directory(&folder).unwrap();
    let (fifo, sparse) = (folder.join("fifo"), folder.join("sparse"));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    fs::set_permissions(&sparse, fs::Permissions::from_mode(0o600)).unwrap();
    for (file, what) in [
        (fifo.as_path(), "a FIFO"),
        (Path::new("/dev/zero"), "a device"),
        (folder.as_path(), "a folder"),
        (sparse.as_path(), "larger than"),
    ] {
        for readers in [Readers::Us, Readers::Everybody] {
            let error = read(file, readers).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

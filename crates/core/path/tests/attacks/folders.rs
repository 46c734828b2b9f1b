//! Tests of the users who decide where a path leads.

use std::fs;
use std::path::Path;

use trueup_path::{Control, Error, ErrorKind};

use crate::stage::{Stage, give_to, set_mode};

fn refused<T: std::fmt::Debug>(walked: Result<T, Error>, named: &Path) {
    let error = walked.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.path(), named, "{error}");
}

#[test]
fn the_folders_of_the_system_are_ours_and_tmp_is_everybodys() {
    let users = Stage::new().users.clone();
    let control = |path: &str| users.folder(Path::new(path)).unwrap().control();
    assert_eq!(control("/"), Control::Ours);
    assert_eq!(control("/usr/bin"), Control::Ours);
    assert_eq!(control("/usr/./bin/.."), Control::Ours);
    assert_eq!(control("/tmp"), Control::Sticky);
    let held = users.place(Path::new("/tmp/../etc/passwd")).unwrap();
    assert_eq!(held.path(), Path::new("/etc/passwd"));
    assert!(held.open().unwrap().is_some());
}

#[test]
fn a_folder_of_another_user_is_his_and_leads_nowhere_else() {
    let stage = Stage::new();
    let app = stage.folder("app");
    let users = &stage.users;
    let of_him = Control::User(stage.attacker);
    assert_eq!(users.folder(&app).unwrap().control(), of_him);
    users.place(&app.join("conf")).unwrap();

    // By a link, and by a link in the middle.
    let link = stage.link("to-etc", "/etc");
    refused(users.folder(&link), &link);
    refused(users.place(&link.join("passwd")), &link);
    let file = stage.link("hosts", "/etc/shadow");
    refused(users.followed_place(&file), &file);
    users.place(&file).unwrap();
    refused(users.make_folder(&link.join("new"), 0o755), &link);

    // By another owner's folder that the attacker has put there.
    if stage.has_ours() {
        let roots = stage.folder("of-root");
        give_to(&roots, 0);
        refused(users.place(&roots.join("conf")), &roots);
        let thirds = stage.folder("of-a-third");
        give_to(&thirds, 4_243);
        refused(users.folder(&thirds), &thirds);
    }
    // Users with write permission may exchange it.
    set_mode(&app, 0o777);
    assert_eq!(users.folder(&app).unwrap().control(), Control::Shared);
    let below = stage.folder("app/below");
    refused(users.folder(&below), &below);
}

#[test]
fn nothing_is_made_in_a_folder_of_another_user() {
    let stage = Stage::new();
    let app = stage.folder("app");
    let made = app.join("made");
    refused(stage.users.make_folder(&made, 0o755), &made);
    assert!(!made.exists());
    if stage.has_ours() {
        let deep = stage.ours().join("a/b");
        let folder = stage.users.make_folder(&deep, 0o711).unwrap();
        assert_eq!(folder.control(), Control::Ours);
        assert_eq!(mode(&deep), 0o711);
        // An existing folder keeps its mode.
        stage.users.make_folder(&deep, 0o700).unwrap();
        assert_eq!(mode(&deep), 0o711);
    }
}

#[test]
fn a_folder_that_others_can_write_is_not_ours() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let ours = stage.ours();
    let control = || stage.users.folder(&ours).unwrap().control();
    assert_eq!(control(), Control::Ours);
    for (mode, expected) in [
        (0o755, Control::Ours),
        (0o777, Control::Shared),
        (0o1777, Control::Sticky),
        // The group 0 is root's own.
        (0o775, Control::Ours),
        (0o700, Control::Ours),
    ] {
        set_mode(&ours, mode);
        assert_eq!(control(), expected, "{mode:o}");
    }
    set_mode(&ours, 0o775);
    std::os::unix::fs::chown(&ours, None, Some(4_242)).unwrap();
    assert_eq!(control(), Control::Shared, "a group of others can write it");
    let refused = stage.users.folder(&ours).unwrap().ours().unwrap_err();
    assert!(refused.to_string().contains("0755"), "{refused}");
}

#[test]
fn a_held_folder_stays_the_same_whatever_becomes_of_its_path() {
    let stage = Stage::new();
    let app = stage.folder("app");
    let place = stage.users.place(&app.join("conf")).unwrap();
    fs::rename(&app, stage.home().join("app2")).unwrap();
    let other = stage.folder("other");
    stage.link("app", &other);
    place.create_new(0o600).unwrap();
    assert!(stage.home().join("app2/conf").exists());
    assert!(!other.join("conf").exists());
}

#[test]
fn links_that_lead_in_circles_end() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let ours = stage.ours();
    std::os::unix::fs::symlink("b", ours.join("a")).unwrap();
    std::os::unix::fs::symlink("a", ours.join("b")).unwrap();
    let error = stage.users.folder(&ours.join("a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Os, "{error}");
    // A link of ours in a folder of ours is followed.
    std::os::unix::fs::symlink("../ours/real", ours.join("link")).unwrap();
    fs::create_dir(ours.join("real")).unwrap();
    let folder = stage.users.folder(&ours.join("link")).unwrap();
    assert_eq!(folder.path(), ours.join("real"));
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).unwrap().mode() & 0o7777
}

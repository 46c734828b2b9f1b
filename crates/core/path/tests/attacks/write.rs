//! Attacks on files to write and to remove.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;

use trueup_path::{Error, ErrorKind, Place, Readers};

use crate::stage::Stage;

fn publish(place: &Place, content: &str) -> Result<(), Error> {
    let expected = place.open()?;
    let mut new = place.replacement(0o600)?;
    new.file().write_all(content.as_bytes()).unwrap();
    new.publish(expected.as_ref())
}

fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_replacement_takes_the_place_of_the_expected_file_alone() {
    let stage = Stage::new();
    let home = stage.home();
    let place = stage.users.place(&home.join("conf")).unwrap();
    publish(&place, "one").unwrap();
    publish(&place, "two").unwrap();
    assert_eq!(content(&home.join("conf")), "two");

    // Another writer is faster, with a file, a link or nothing.
    for change in ["file", "link", "nothing"] {
        fs::write(home.join("conf"), "two").unwrap();
        let expected = place.open().unwrap();
        let mut new = place.replacement(0o600).unwrap();
        new.file().write_all(b"three").unwrap();
        fs::remove_file(home.join("conf")).unwrap();
        match change {
            "file" => fs::write(home.join("conf"), "faster").unwrap(),
            "link" => drop(stage.link("conf", "/etc/passwd")),
            _ => {}
        }
        let error = new.publish(expected.as_ref()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed, "{error}");
        match change {
            "file" => assert_eq!(content(&home.join("conf")), "faster"),
            "link" => assert!(home.join("conf").is_symlink()),
            _ => assert_eq!(names(&home), Vec::<String>::new()),
        }
        assert!(names(&home).len() < 2, "{:?}", names(&home));
        let _ = fs::remove_file(home.join("conf"));
    }
    // If no file was expected, a new one is not replaced.
    let new = place.replacement(0o600).unwrap();
    fs::write(home.join("conf"), "faster").unwrap();
    assert_eq!(new.publish(None).unwrap_err().kind(), ErrorKind::Changed);
    assert_eq!(content(&home.join("conf")), "faster");
    // A dropped replacement leaves nothing; one left by a crash does not disturb.
    drop(place.replacement(0o600).unwrap());
    fs::write(home.join(".conf.0bc9fa91195d6ed7.trueup-new"), "left").unwrap();
    publish(&place, "four").unwrap();
    assert_eq!(names(&home), ["conf"]);
}

#[test]
fn a_name_as_long_as_it_may_be_is_written_and_another_ones_file_stays() {
    let stage = Stage::new();
    let home = stage.home();
    for name in ["conf".to_owned(), "ä".repeat(127) + "x"] {
        let conf = home.join(&name);
        let place = stage.users.place(&conf).unwrap();
        let similar = format!(".{}.trueup-new", name.chars().take(50).collect::<String>());
        stage.file(&similar, "of another program");
        for text in ["one", "two"] {
            publish(&place, text).unwrap();
            assert_eq!(content(&conf), text);
        }
        assert!(place.remove(|_| Ok::<_, Error>(true)).unwrap());
        assert_eq!(names(&home), [similar.as_str()]);
        fs::remove_file(home.join(similar)).unwrap();
    }
}

#[test]
fn a_link_in_the_place_of_the_new_file_is_not_written_through() {
    let stage = Stage::new();
    let victim = stage.file("victim", "precious");
    stage.link(".conf.0bc9fa91195d6ed7.trueup-new", &victim);
    let place = stage.users.place(&stage.home().join("conf")).unwrap();
    publish(&place, "new").unwrap();
    assert_eq!(content(&victim), "precious");
    // A link in the place of a lock is not followed, either.
    let lock = stage.link("lock", &victim);
    let place = stage.users.place(&lock).unwrap();
    assert_eq!(place.open_or_create(0o600).unwrap_err().kind(), ErrorKind::NotRegular);
    assert!(place.create_new(0o600).is_err());
    assert_eq!(content(&victim), "precious");
}

#[test]
fn only_the_file_that_is_meant_is_removed() {
    let stage = Stage::new();
    let home = stage.home();
    let conf = stage.file("conf", "made");
    let place = stage.users.place(&conf).unwrap();
    let is_made = |file: &fs::File| {
        let mut text = String::new();
        let mut file = file;
        file.read_to_string(&mut text).unwrap();
        Ok::<_, Error>(text == "made")
    };
    assert!(place.remove(is_made).unwrap());
    assert!(!place.remove(is_made).unwrap());
    stage.file("conf", "another");
    assert!(!place.remove(is_made).unwrap());
    assert_eq!(content(&conf), "another");

    // Another writer replaces it between the look and the rename.
    stage.file("conf", "made");
    let looks = std::cell::Cell::new(0);
    let removed = place.remove(|file| {
        let is = is_made(file);
        if looks.replace(looks.get() + 1) == 0 {
            stage.file("faster", "of another");
            fs::rename(home.join("faster"), &conf).unwrap();
        }
        is
    });
    assert!(!removed.unwrap());
    assert_eq!(content(&conf), "of another");
    assert_eq!(names(&home), ["conf"]);

    // If a crash has left it aside, it is removed, or gets its name back.
    fs::rename(&conf, home.join(".conf.0bc9fa91195d6ed7.trueup-old")).unwrap();
    assert!(!place.remove(is_made).unwrap());
    assert_eq!(content(&conf), "of another");
    stage.file(".conf.0bc9fa91195d6ed7.trueup-old", "made");
    assert!(place.remove(is_made).unwrap());
    assert_eq!(names(&home), ["conf"]);
    // Two files want one name.
    stage.file(".conf.0bc9fa91195d6ed7.trueup-old", "a third");
    let error = place.remove(is_made).unwrap_err();
    assert!(error.to_string().contains(".conf.0bc9fa91195d6ed7.trueup-old"), "{error}");
    assert_eq!(names(&home), [".conf.0bc9fa91195d6ed7.trueup-old", "conf"]);
    // A folder or a link must not be removed.
    fs::remove_file(home.join(".conf.0bc9fa91195d6ed7.trueup-old")).unwrap();
    fs::remove_file(&conf).unwrap();
    stage.link("conf", "/etc/passwd");
    assert!(!place.remove(|_| Ok::<_, Error>(true)).unwrap());
    assert!(conf.is_symlink());
}

#[test]
fn a_socket_that_is_held_is_removed_and_nothing_that_took_its_name() {
    use std::os::unix::net::UnixListener;
    let stage = Stage::new();
    let home = stage.home();
    let place = stage.users.place(&home.join("socket")).unwrap();
    assert!(place.hold().unwrap().is_none());
    let _listener = UnixListener::bind(place.path_by_descriptor()).unwrap();
    let held = place.hold().unwrap().unwrap();
    assert!(place.remove_held(&held).unwrap());
    assert_eq!(names(&home), Vec::<String>::new());
    for other in ["file", "link", "socket"] {
        match other {
            "file" => fs::write(home.join("socket"), "precious").unwrap(),
            "link" => drop(stage.link("socket", "/etc/passwd")),
            _ => drop(UnixListener::bind(home.join("socket")).unwrap()),
        }
        assert!(!place.remove_held(&held).unwrap());
        assert_eq!(names(&home), ["socket"], "{other}");
        fs::remove_file(home.join("socket")).unwrap();
    }
    // The folder at the end of the walk, not the one that has its path now.
    let _listener = UnixListener::bind(place.path_by_descriptor()).unwrap();
    let held = place.hold().unwrap().unwrap();
    let away = stage.home().with_extension("away");
    fs::rename(&home, &away).unwrap();
    fs::create_dir(&home).unwrap();
    fs::write(home.join("socket"), "precious").unwrap();
    assert!(place.remove_held(&held).unwrap());
    assert_eq!((names(&home).len(), names(&away).len()), (1, 0));
}

#[test]
fn a_file_that_is_written_in_place_has_one_name_and_is_ours() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let place = stage.users.place(&stage.ours().join("state")).unwrap();
    let file = place.create_new(0o600).unwrap();
    stage.users.check_sole(&place, &file, Readers::Us).unwrap();
    let other = place.folder().place("other");
    assert!(place.link_to(&other).unwrap());
    assert!(!place.link_to(&other).unwrap());
    let refused = stage.users.check_sole(&place, &file, Readers::Us);
    let refused = refused.unwrap_err();
    assert!(refused.is_refused());
    assert!(refused.message().contains("2 names"), "{refused}");
    other.unlink().unwrap();
    other.unlink().unwrap();
    stage.users.check_sole(&place, &file, Readers::Us).unwrap();
    place.rename_over(&other).unwrap();
    assert!(other.is_of(&file).unwrap());
    assert!(place.metadata().unwrap().is_none());
    stage.give(other.path());
    let refused = stage.users.check_sole(&other, &file, Readers::Everybody);
    assert!(refused.unwrap_err().is_refused());
}

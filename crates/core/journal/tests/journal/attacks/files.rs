//! Links, and other users' files, in a folder of ours.

use std::fs;
use std::os::unix::fs::symlink;

use trueup_journal::{Journal, Repaired, check_not_held};

use super::*;

const LINK: &str = "it is a symbolic link";

#[test]
fn a_link_in_the_place_of_the_lock_truncates_nothing() {
    let directory = Scratch::make("link-lock").unwrap();
    let precious = precious(&directory);
    for target in [precious.as_path(), Path::new("missing")] {
        let path = directory.join("link.journal");
        fs::write(&path, "").unwrap();
        let lock = directory.join("link.journal.lock");
        symlink(target, &lock).unwrap();
        assert_refused(&path, WRITES, &[LINK, "link.journal.lock"]);
        let error = check_not_held(&path).unwrap_err().to_string();
        assert!(error.contains(LINK), "{error}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS);
        assert!(!directory.join("missing").exists());
        fs::remove_file(lock).unwrap();
    }
}

#[test]
fn a_link_in_the_place_of_the_new_file_becomes_no_journal() {
    let directory = Scratch::make("link-new").unwrap();
    let precious = precious(&directory);
    let path = directory.join("journal");
    for target in [precious.as_path(), Path::new("missing")] {
        let new = directory.join("journal.new");
        symlink(target, &new).unwrap();
        assert_refused(&path, [WRITES[0]], &[LINK, "journal.new"]);
        assert!(!path.exists());
        fs::write(&path, "").unwrap();
        assert_refused(&path, [WRITES[1]], &[LINK, "journal.new"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS);
        assert!(!directory.join("missing").exists());
        fs::remove_file(new).unwrap();
        fs::remove_file(&path).unwrap();
    }
    make(&path);
}

#[test]
fn a_link_in_the_place_of_the_journal_is_not_followed() {
    let directory = Scratch::make("link-journal").unwrap();
    let elsewhere = directory.join("elsewhere");
    make(&elsewhere);
    let before = fs::read(&elsewhere).unwrap();
    let path = directory.join("journal");
    for target in [elsewhere.as_path(), Path::new("missing")] {
        symlink(target, &path).unwrap();
        assert_refused(&path, READS.into_iter().chain(WRITES), &[LINK, "journal"]);
        fs::remove_file(&path).unwrap();
    }
    assert!(fs::read(&elsewhere).unwrap() == before);
    assert!(!directory.join("missing").exists());
}

#[test]
fn a_repair_keeps_the_damaged_file_beside_a_link_of_its_name() {
    let directory = Scratch::make("link-damaged").unwrap();
    let precious = precious(&directory);
    let path = directory.join("journal");
    for (at, target) in [precious.as_path(), Path::new("missing")].iter().enumerate() {
        let name = directory.join(match at {
            0 => "journal.damaged".to_owned(),
            at => format!("journal.damaged.{at}"),
        });
        symlink(target, name).unwrap();
    }
    fs::write(&path, "").unwrap();
    let repaired = trueup_journal::repair(&path, true).unwrap();
    let damaged = directory.join("journal.damaged.2");
    assert_eq!(repaired, Repaired::Emptied { damaged });
    assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS);
    assert!(!directory.join("missing").exists());
}

/// Such a file can remain in a folder that was once open to all.
#[test]
fn a_file_with_another_name_is_not_written() {
    let directory = Scratch::make("names").unwrap();
    let precious = precious(&directory);
    set_mode(&precious, 0o600);
    let path = directory.join("journal");
    let names = "2 names (hard links)";

    let lock = directory.join("journal.lock");
    fs::hard_link(&precious, &lock).unwrap();
    assert_refused(&path, [WRITES[0]], &[names, "journal.lock"]);
    let error = check_not_held(&path).unwrap_err().to_string();
    assert!(error.contains(names), "{error}");
    fs::remove_file(lock).unwrap();

    fs::hard_link(&precious, directory.join("journal.new")).unwrap();
    make(&path);
    fs::hard_link(&path, directory.join("other")).unwrap();
    let before = fs::read(&path).unwrap();
    assert_refused(&path, [WRITES[0]], &[names, "journal"]);
    assert!(fs::read(&path).unwrap() == before);
    Journal::open_read_only(&path).unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS);
}

/// A crash between the two steps of a repair leaves such a name.
#[test]
fn a_damaged_journal_with_another_name_is_repaired() {
    let directory = Scratch::make("names-damaged").unwrap();
    let path = directory.join("journal");
    make(&path);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    fs::hard_link(&path, directory.join("journal.damaged")).unwrap();
    assert!(Journal::open(&path).unwrap_err().is_damaged());
    trueup_journal::repair(&path, true).unwrap();
    record(&path).unwrap();
}

#[test]
fn a_lock_that_others_can_take_is_refused() {
    let directory = Scratch::make("lock-mode").unwrap();
    let path = directory.join("journal");
    make(&path);
    let lock = directory.join("journal.lock");
    for (mode, words) in [(0o666, "others can write it"), (0o644, "others can read it")] {
        set_mode(&lock, mode);
        fs::write(&path, "").unwrap();
        assert_refused(&path, WRITES, &[words, "journal.lock"]);
        let error = check_not_held(&path).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    set_mode(&lock, 0o600);
    if give(&lock) {
        assert_refused(&path, WRITES, &["user 4242 owns it", "journal.lock"]);
        let error = check_not_held(&path).unwrap_err().to_string();
        assert!(error.contains("user 4242 owns it"), "{error}");
    }
}

#[test]
fn a_journal_that_others_can_write_is_refused() {
    let directory = Scratch::make("journal-mode").unwrap();
    let path = directory.join("journal");
    make(&path);
    let all = || READS.into_iter().chain(WRITES);
    set_mode(&path, 0o602);
    assert_refused(&path, all(), &["others can write it (mode 0602)"]);
    set_mode(&path, 0o644);
    Journal::open(&path).unwrap();
    if give(&path) {
        assert_refused(&path, all(), &["user 4242 owns it"]);
    }
}

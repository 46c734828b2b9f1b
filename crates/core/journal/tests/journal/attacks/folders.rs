//! Folders in which other users decide which file a name leads to.

use std::fs;
use std::os::unix::fs::symlink;

use trueup_journal::check_not_held;

use super::*;

fn all() -> impl Iterator<Item = Call> {
    let check: Call = ("check_not_held", |path| check_not_held(path));
    READS.into_iter().chain(WRITES).chain([check])
}

/// Creates a folder of this mode in the directory, with a journal.
fn folder(directory: &Scratch, name: &str, mode: u32) -> PathBuf {
    let folder = directory.join(name);
    fs::create_dir(&folder).unwrap();
    make(&folder.join("journal"));
    set_mode(&folder, mode);
    folder
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_folder_that_others_can_write_is_refused_with_the_remedy() {
    let directory = Scratch::make("open-folder").unwrap();
    for (name, mode, words) in [
        ("all", 0o777, "its group or everybody can write it"),
        ("sticky", 0o1777, "everybody can add files to it"),
        ("others", 0o703, "its group or everybody can write it"),
    ] {
        let folder = folder(&directory, name, mode);
        for journal in ["journal", "new"] {
            let words = [words, folder.to_str().unwrap(), "use another folder", "0755"];
            assert_refused(&folder.join(journal), all(), &words);
        }
        assert_eq!(names(&folder), ["journal", "journal.lock"]);
        set_mode(&folder, 0o711);
        record(&folder.join("new")).unwrap();
    }
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let directory = Scratch::make("others-folder").unwrap();
    let folder = folder(&directory, "his", 0o755);
    if !give(&folder) {
        return;
    }
    for journal in ["journal", "new"] {
        let words = ["user 4242 can write it", folder.to_str().unwrap()];
        assert_refused(&folder.join(journal), all(), &words);
    }
    assert_eq!(names(&folder), ["journal", "journal.lock"]);
}

#[test]
fn a_folder_of_ours_that_others_can_replace_is_refused() {
    let directory = Scratch::make("replaced-folder").unwrap();
    let above = directory.join("above");
    fs::create_dir(&above).unwrap();
    let ours = above.join("ours");
    fs::create_dir(&ours).unwrap();
    make(&ours.join("journal"));
    set_mode(&above, 0o777);
    let words = ["another folder can be put in its place", above.to_str().unwrap()];
    assert_refused(&ours.join("journal"), all(), &words);
    set_mode(&above, 0o755);
    if give(&above) {
        assert_refused(&ours.join("journal"), all(), &words);
        // As in `/tmp`, only its owner can rename it there.
        set_mode(&above, 0o755);
    }
    let _ = std::os::unix::fs::chown(&above, Some(rustix::process::geteuid().as_raw()), None);
    set_mode(&above, 0o1777);
    record(&ours.join("other")).unwrap();
}

#[test]
fn a_link_to_a_folder_is_followed_if_it_is_ours() {
    let directory = Scratch::make("linked-folder").unwrap();
    let folder = folder(&directory, "folder", 0o700);
    let link = directory.join("link");
    symlink("folder", &link).unwrap();
    trueup_journal::check(link.join("journal")).unwrap();
    let sticky = directory.join("sticky");
    fs::create_dir(&sticky).unwrap();
    set_mode(&sticky, 0o1777);
    let link = sticky.join("link");
    symlink(&folder, &link).unwrap();
    trueup_journal::check(link.join("journal")).unwrap();
    if give(&link) {
        let words = ["a symbolic link of user 4242", "is not followed"];
        assert_refused(&link.join("journal"), all(), &words);
    }
}

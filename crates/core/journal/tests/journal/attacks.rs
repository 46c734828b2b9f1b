//! Links, files and folders that another user of the host prepares in the place of a journal.

mod files;
mod folders;
mod race;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use trueup_journal::{Error, Journal, Start};
use trueup_testkit::Scratch;

/// The other user's id.
const OTHER: u32 = 4_242;

/// The content of a file that nothing may change.
const PRECIOUS: &str = "precious";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a file or link to the other user. False if the caller is not root, who alone could.
fn give(path: &Path) -> bool {
    lchown(path, Some(OTHER), None).is_ok()
}

fn precious(directory: &Scratch) -> PathBuf {
    let path = directory.join("precious");
    fs::write(&path, PRECIOUS).unwrap();
    path
}

/// Creates a journal with one operation, and closes it.
fn make(path: &Path) {
    record(path).unwrap();
}

/// Opens a journal and begins an operation.
fn record(path: &Path) -> Result<(), Error> {
    let journal = Journal::open(path)?;
    drop(journal.begin(Start::new("one", b""))?);
    Ok(())
}

/// A function that opens a journal by its path, with a name for messages.
type Call = (&'static str, fn(&Path) -> Result<(), Error>);

const READS: [Call; 3] = [
    ("read", |path| Journal::open_read_only(path).map(drop)),
    ("check", |path| trueup_journal::check(path).map(drop)),
    ("export", |path| trueup_journal::export(path, &mut Vec::new())),
];

const WRITES: [Call; 2] =
    [("write", record), ("repair", |path| trueup_journal::repair(path, true).map(drop))];

/// Asserts that each call is refused with these words.
#[track_caller]
fn assert_refused(path: &Path, calls: impl IntoIterator<Item = Call>, words: &[&str]) {
    for (what, call) in calls {
        let error =
            call(path).map_or_else(|error| error.to_string(), |()| format!("{what} is done"));
        for word in words {
            assert!(error.contains(word), "{what}: {word:?} is not in: {error}");
        }
    }
}

//! A file longer than its content costs little, whichever program extended it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use trueup_journal::{
    Error, ErrorKind, Journal, Start, check, check_not_held, export, lock_file, repair,
};
use trueup_testkit::Scratch;

use crate::common::execute;

const PATH: &str = "JOURNAL_TEST_SPARSE";
const CALL: &str = "JOURNAL_TEST_SPARSE_CALL";
/// Printed before the child's result.
const FOUND: &str = "found: ";
/// The limit of a call's memory, in KiB.
const BOUND: u64 = 24 * 1024;

type Call = fn(&Path) -> Result<(), Error>;

/// Every call that reads a journal.
const CALLS: [(&str, Call); 6] = [
    ("open", |path| Journal::open(path).map(drop)),
    ("read", |path| {
        let journal = Journal::open_read_only(path)?;
        journal.in_flight().map(drop)
    }),
    ("check", |path| check(path).map(drop)),
    ("export", |path| export(path, &mut Vec::new())),
    ("repair", |path| repair(path, false).map(drop)),
    ("accept", |path| repair(path, true).map(drop)),
];

/// Not a test of its own: prints a call's result and the memory that it used.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else {
        return;
    };
    let call = std::env::var(CALL).unwrap();
    let (_, call) = CALLS.iter().find(|(name, _)| *name == call).unwrap();
    let before = peak();
    let kind = call(&path).err().map(|error| error.kind());
    println!("{FOUND}{} {kind:?}", peak() - before);
}

/// Returns the most memory that this process has used, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

/// Returns the call's memory in KiB, and its error.
fn run(path: &Path, call: &str) -> (u64, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["sparse::child", "--exact", "--nocapture"]);
    let output = command.env(PATH, path).env(CALL, call).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once(FOUND));
    let found = line.unwrap_or_else(|| panic!("{call}: {output:?}")).1;
    let (cost, error) = found.split_once(' ').unwrap();
    (cost.parse().unwrap(), error.to_owned())
}

fn extend(path: &Path, len: u64) {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false);
    file.open(path).unwrap().set_len(len).unwrap();
}

fn journal(directory: &Scratch) -> PathBuf {
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    drop(execute(&journal, Start::new("a", b"what")));
    path
}

#[test]
fn a_journal_that_someone_made_longer_costs_little() {
    for (len, refused) in [(16 << 30, false), (1 << 40, true)] {
        let directory = Scratch::make("sparse").unwrap();
        let path = journal(&directory);
        extend(&path, len);
        for (call, _) in CALLS {
            let (cost, error) = run(&path, call);
            assert!(cost < BOUND, "{call} of {len} bytes took {cost} KiB");
            assert_eq!(error.contains("Format"), refused, "{call}: {error}");
            assert!(error.contains("Format") || error == "None" || error.contains("Damaged"));
        }
    }
}

#[test]
fn a_damaged_journal_that_someone_made_longer_costs_little() {
    let directory = Scratch::make("sparse-damaged").unwrap();
    let path = journal(&directory);
    let mut bytes = fs::read(&path).unwrap();
    bytes[17] ^= 1;
    fs::write(&path, bytes).unwrap();
    extend(&path, 16 << 30);
    for (call, _) in CALLS {
        let (cost, error) = run(&path, call);
        assert!(cost < BOUND, "{call} took {cost} KiB");
        assert!(["None", "Some(Damaged)"].contains(&&*error), "{call}: {error}");
    }
}

#[test]
fn a_file_that_is_no_journal_costs_little() {
    let directory = Scratch::make("sparse-other").unwrap();
    let path = directory.join("journal");
    extend(&path, 1 << 40);
    for (call, _) in CALLS {
        let (cost, error) = run(&path, call);
        assert!(cost < BOUND, "{call} took {cost} KiB");
        assert_eq!(error, "Some(Format)", "{call}");
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 40, "it stays as it is");
}

#[test]
fn a_lock_file_of_any_length_costs_little() {
    let directory = Scratch::make("sparse-lock").unwrap();
    let path = directory.join("journal");
    extend(&lock_file(&path), 2 << 30);
    fs::set_permissions(lock_file(&path), Permissions::from_mode(0o600)).unwrap();
    let file = File::open(lock_file(&path)).unwrap();
    file.try_lock().unwrap();
    let error = check_not_held(&path).unwrap_err();
    assert_eq!((error.kind(), error.holder()), (ErrorKind::Held, None));
    let error = Journal::open_within(&path, Duration::from_millis(1)).unwrap_err();
    assert_eq!((error.kind(), error.holder()), (ErrorKind::Held, None));
    assert!(peak() < 1 << 20, "{} KiB", peak());
}

//! Several processes with one journal: a key is executed once, whichever of them dies.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use trueup_journal::{Journal, KeyState, Outcome, Start};
use trueup_testkit::Scratch;

use crate::common::at;

const PATH: &str = "JOURNAL_TEST_PROCESS";
const DIES: &str = "JOURNAL_TEST_PROCESS_DIES";
const WAIT: Duration = Duration::from_secs(60);

fn executions(path: &Path) -> PathBuf {
    path.with_extension("executions")
}

/// Not a test of its own: executes the operation, unless it was executed or is in doubt.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else {
        return;
    };
    let journal = Journal::open_within(&path, WAIT).unwrap();
    let name = format!("of process {}", std::process::id());
    let start = Start::new(&name, b"").key(b"key");
    let nonce = start.nonce(b"approval", at(10), at(1));
    let Ok(execution) = journal.begin(nonce).unwrap() else {
        return;
    };
    let mut file = OpenOptions::new().append(true).create(true).open(executions(&path)).unwrap();
    file.write_all(b".").unwrap();
    if std::env::var_os(DIES).is_some() {
        kill_process(getpid(), Signal::KILL).unwrap();
    }
    execution.succeeded(b"done", at(1)).unwrap();
}

fn start(path: &Path, dies: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["processes::child", "--exact", "--nocapture"]);
    command.env(PATH, path).stdout(Stdio::null());
    if dies {
        command.env(DIES, "1");
    }
    command.spawn().unwrap()
}

#[test]
fn of_many_processes_with_one_key_one_executes() {
    for dies in [false, true] {
        let directory = Scratch::make(&format!("processes-{dies}")).unwrap();
        let path = directory.join("journal");
        let mut children: Vec<Child> = (0..8).map(|_| start(&path, dies)).collect();
        let ended = children.iter_mut().map(|child| child.wait().unwrap());
        let killed = ended.filter(|status| !status.success()).count();
        assert_eq!(killed, usize::from(dies));
        assert_eq!(fs::read(executions(&path)).unwrap(), b".", "once");

        let journal = Journal::open(&path).unwrap();
        let in_flight = journal.in_flight().unwrap().0;
        match journal.key(b"key").unwrap().unwrap() {
            KeyState::Ended { outcome, .. } if !dies => {
                assert_eq!(outcome, Outcome::Succeeded(b"done".into()));
                assert!(in_flight.is_empty());
            }
            KeyState::InDoubt { operation } if dies => assert_eq!(in_flight[0].name, operation),
            other => panic!("{other:?}"),
        }
    }
}

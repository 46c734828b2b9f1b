//! SIGKILL before and after every write, every sync and every change of length: the process is
//! gone, the kernel has its writes, and acknowledged changes are durable.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use trueup_journal::{Journal, Repaired, Storage, repair};
use trueup_testkit::Scratch;

use crate::common::{Disk, export, workload};

const PATH: &str = "JOURNAL_TEST_KILL";
const POINT: &str = "JOURNAL_TEST_KILL_AT";

/// A file that kills the process at a given point.
#[derive(Debug)]
struct Deadly {
    file: File,
    left: AtomicU64,
}

impl Deadly {
    fn point(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    }

    fn around<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.point();
        let result = work();
        self.point();
        result
    }
}

impl Storage for Deadly {
    fn len(&self) -> io::Result<u64> {
        Storage::len(&self.file)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(&self.file, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.around(|| Storage::write(&self.file, offset, data))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.around(|| Storage::set_len(&self.file, len))
    }

    fn sync(&self) -> io::Result<()> {
        self.around(|| Storage::sync(&self.file))
    }
}

fn acknowledged(path: &Path) -> PathBuf {
    path.with_extension("acknowledged")
}

/// Not a test of its own: runs the workload, and notes each acknowledged step.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH).map(PathBuf::from) else {
        return;
    };
    let left = std::env::var(POINT).unwrap().parse().unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let left = AtomicU64::new(left);
    let mut notes = File::create(acknowledged(&path)).unwrap();
    let journal = Journal::open_on(Deadly { file, left }).unwrap();
    for step in workload() {
        step(&journal);
        notes.write_all(b".").unwrap();
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_at_every_point() {
    let directory = Scratch::make("kill").unwrap();
    let path = directory.join("journal");
    let formatted = Disk::formatted().bytes();
    let mut states = Vec::new();
    {
        let journal = Journal::open_on(Disk::of(formatted.clone())).unwrap();
        states.push(export(&journal));
        for step in workload() {
            step(&journal);
            states.push(export(&journal));
        }
    }
    let mut points = 0;
    loop {
        fs::write(&path, &formatted).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["kill::child", "--exact", "--nocapture"])
            .env(PATH, &path)
            .env(POINT, points.to_string())
            .output()
            .unwrap();
        let done = fs::metadata(acknowledged(&path)).unwrap().len() as usize;
        assert_eq!(repair(&path, false).unwrap(), Repaired::Whole);
        let journal = Journal::open(&path).unwrap();
        let seen = export(&journal);
        let under_way = states.len().min(done + 2);
        assert!(
            states[done..under_way].contains(&seen),
            "killed at {points}: {done} steps were acknowledged, but there is\n{seen}"
        );
        if output.status.success() {
            assert_eq!(done + 1, states.len());
            break;
        }
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        points += 1;
    }
    println!("killed at {points} points");
    assert!(points > 100, "{points}");
}

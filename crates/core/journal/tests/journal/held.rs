//! Two openers at once: the second is refused, and learns who the first is.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use trueup_journal::{Error, Journal, Repaired, Start, check, check_not_held, repair};
use trueup_testkit::Scratch;

const PATH: &str = "JOURNAL_TEST_HOLD";
const WAIT_ALONE: &str = "JOURNAL_TEST_WAIT_ALONE";

/// Not a test of its own: holds a journal until its standard input ends.
#[test]
fn child() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let journal = Journal::open(PathBuf::from(path)).unwrap();
    let _ = journal.begin(Start::new("held", b""));
    println!("held");
    let _ = std::io::stdin().lines().count();
}

fn hold(path: &PathBuf) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["held::child", "--exact", "--nocapture"])
        .env(PATH, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("held")));
    child
}

fn assert_names(error: &Error, pid: u32) {
    assert!(error.is_held(), "{error}");
    let (held_by, command) = error.holder().unwrap();
    assert_eq!(held_by, pid);
    assert!(command.contains("journal"), "{command}");
    assert!(error.to_string().contains(&pid.to_string()), "{error}");
    assert!(error.remedy().is_some());
}

#[test]
fn a_second_process_learns_who_holds_the_journal() {
    let directory = Scratch::make("held").unwrap();
    let path = directory.join("journal");
    check_not_held(&path).unwrap();
    assert!(!path.with_extension("lock").exists() && !path.exists(), "asking makes nothing");
    let mut child = hold(&path);
    assert_names(&Journal::open(&path).unwrap_err(), child.id());
    assert_names(&check_not_held(&path).unwrap_err(), child.id());
    assert_eq!(check(&path).unwrap().operations, 1, "to look is free");
    assert_names(&repair(&path, true).unwrap_err(), child.id());
    // A killed process no longer holds it.
    child.kill().unwrap();
    child.wait().unwrap();
    check_not_held(&path).unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_names(&check_not_held(&path).unwrap_err(), std::process::id());
    let error = Journal::open(&path).unwrap_err();
    assert_names(&error, std::process::id());
    drop(journal);

    // A process that exits leaves its name, but not its claim.
    let mut child = hold(&path);
    child.stdin.as_mut().unwrap().flush().unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    drop(Journal::open(&path).unwrap());
}

/// If another thread forks a child, the child has all files open until it executes a program.
#[test]
fn a_forked_childs_copy_of_the_lock_holds_nothing() {
    let directory = Scratch::make("forked").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    let lock = path.with_extension("lock");
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let number = open
        .filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|file| file == lock))
        .find_map(|entry| entry.file_name().to_str()?.parse().ok())
        .unwrap();
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let copy = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).unwrap();
    drop(journal);
    drop(Journal::open(&path).unwrap());
    drop(copy);
}

#[test]
fn of_many_that_open_at_once_one_does() {
    let directory = Scratch::make("race").unwrap();
    let path = directory.join("journal");
    let opened = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| Journal::open(&path))).collect();
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        // Keep all of them until all threads have tried.
        results.collect::<Vec<_>>()
    });
    assert_eq!(opened.iter().filter(|result| result.is_ok()).count(), 1);
    for error in opened.iter().filter_map(|result| result.as_ref().err()) {
        assert!(error.is_held(), "{error}");
    }
}

/// Each repair deletes its own lock file, so the next one may have opened a deleted file.
#[test]
fn repairs_that_delete_their_lock_file_still_exclude_each_other() {
    let directory = Scratch::make("lock-file").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    drop(journal.begin(Start::new("first", b"")).unwrap());
    drop(journal);
    let good = fs::read(&path).unwrap();
    fs::remove_file(directory.join("journal.lock")).unwrap();
    for round in 0..40 {
        let mut damaged = good.clone();
        damaged[0] ^= 1;
        fs::write(&path, damaged).unwrap();
        let repairs = std::thread::scope(|scope| {
            let one = || repair(&path, false);
            let running = [(); 4].map(|()| scope.spawn(one));
            running.map(|running| running.join().unwrap())
        });
        let mut restored = 0;
        for repaired in repairs {
            match repaired {
                Ok(Repaired::Restored { .. }) => restored += 1,
                Ok(Repaired::Whole) => {}
                Err(error) if error.is_held() => {}
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(restored, 1, "round {round}");
        assert!(!directory.join("journal.lock").exists(), "round {round}");
        assert!(check(&path).is_ok());
    }
}

/// Many short runs share a journal: each waits for its turn, and all writes stay.
#[test]
fn runs_that_wait_all_get_their_turn() {
    let directory = Scratch::make("turns").unwrap();
    let path = directory.join("journal");
    std::thread::scope(|scope| {
        for run in 0..32 {
            let path = &path;
            scope.spawn(move || {
                let journal = Journal::open_within(path, Duration::from_secs(60)).unwrap();
                let name = format!("run-{run}");
                drop(journal.begin(Start::new(&name, b"")).unwrap());
            });
        }
    });
    let journal = Journal::open(&path).unwrap();
    assert_eq!(journal.in_flight().unwrap().0.len(), 32);
}

#[test]
fn a_wait_in_vain_reports_the_holder_and_leaves_no_lock() {
    let directory = Scratch::make("in-vain").unwrap();
    let path = directory.join("journal");
    let mut child = hold(&path);
    let error = Journal::open_within(&path, Duration::from_millis(50)).unwrap_err();
    assert_names(&error, child.id());
    // A killed process holds nothing, and a caller that waits meanwhile gets the journal.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| Journal::open_within(&path, Duration::from_secs(60)));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(waiting.join().unwrap().unwrap());
    });
    // A caller that has given up holds nothing, either.
    drop(Journal::open_within(&path, Duration::from_secs(60)).unwrap());
}

/// Callers that wait in one process share a place in the queue, and get their turn in order.
#[test]
fn callers_of_one_process_get_their_turn_in_order() {
    let directory = Scratch::make("in-order").unwrap();
    let path = directory.join("journal");
    let held = Journal::open(&path).unwrap();
    thread::scope(|scope| {
        for run in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let journal = Journal::open_within(path, Duration::from_secs(60)).unwrap();
                drop(journal.begin(Start::new(&run.to_string(), b"")).unwrap());
            });
            // Enough time to join the queue.
            thread::sleep(Duration::from_millis(100));
        }
        drop(held);
    });
    let journal = Journal::open(&path).unwrap();
    let (runs, _) = journal.in_flight().unwrap();
    let runs: Vec<&str> = runs.iter().map(|run| &*run.name).collect();
    assert_eq!(runs, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

/// Runs in its own process, and counts that process's threads and descriptors.
#[test]
fn waiting_in_vain_leaves_one_thread_and_one_descriptor_at_most() {
    if std::env::var_os(WAIT_ALONE).is_none() {
        let name = "held::waiting_in_vain_leaves_one_thread_and_one_descriptor_at_most";
        let alone = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(WAIT_ALONE, "")
            .status();
        assert!(alone.unwrap().success());
        return;
    }
    let directory = Scratch::make("leak").unwrap();
    let path = directory.join("journal");
    // Open it once before, so that the first call's leftovers are counted.
    drop(Journal::open(&path).unwrap());
    let count = |of| fs::read_dir(of).unwrap().count();
    let counts = || (count("/proc/self/task"), count("/proc/self/fd"));
    for round in 0..3 {
        let mut child = hold(&path);
        let (threads, descriptors) = counts();
        for _ in 0..50 {
            let error = Journal::open_within(&path, Duration::from_millis(1)).unwrap_err();
            assert_names(&error, child.id());
        }
        assert_names(&Journal::open(&path).unwrap_err(), child.id());
        let (threads_after, descriptors_after) = counts();
        assert!(threads_after <= threads + 1, "{threads_after} threads");
        let shown = format!("{descriptors_after} descriptors");
        assert!(descriptors_after <= descriptors + 1, "{shown}");

        child.kill().unwrap();
        child.wait().unwrap();
        drop(Journal::open(&path).unwrap_or_else(|error| panic!("round {round}: {error}")));
        drop(child);
        let until = Instant::now() + Duration::from_secs(60);
        while count("/proc/self/task") > threads {
            assert!(Instant::now() < until, "the thread waits for a free lock");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The lock file still names a process that continues after it has closed the journal.
#[test]
fn a_wait_in_vain_does_not_keep_the_next_caller_out() {
    let directory = Scratch::make("next").unwrap();
    let path = directory.join("journal");
    for round in 0..100 {
        let held = Journal::open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        Journal::open_within(&path, Duration::from_millis(1)).unwrap_err();
        drop(held);
    }
}

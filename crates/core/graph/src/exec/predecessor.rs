//! Waits for a command's run that an earlier, killed agent left behind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, PidfdFlags, geteuid, getpid, pidfd_open};
use rustix::time::{ClockId, clock_gettime};
use trueup_reconcile::ErrorClass;

use crate::Failure;

/// Waits for the command's remaining runs. Ignores a process that is older than a run may last: for
/// example, a daemon that the command has become.
///
/// # Errors
///
/// A run still goes on at the deadline.
pub(super) fn wait(words: &[&OsStr], timeout: Duration, deadline: Instant) -> Result<(), Failure> {
    for left in all(words, timeout) {
        let Ok(process) = pidfd_open(left.pid, PidfdFlags::empty()) else {
            continue;
        };
        // The number may have passed to another process before the descriptor was opened.
        if Left::of(left.pid, words).as_ref() != Some(&left) {
            continue;
        }
        loop {
            let now = Instant::now();
            let end = deadline.min(now + timeout.saturating_sub(left.age()));
            let time = Timespec::try_from(end.saturating_duration_since(now)).ok();
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], time.as_ref()) {
                Err(Errno::INTR) => {}
                Ok(0) if end == deadline => {
                    let message = format!(
                        "{}: process {}, a run that an earlier agent has left, goes on; it is \
                         waited for",
                        words.first().map_or_else(Default::default, |it| it.to_string_lossy()),
                        left.pid
                    );
                    return Err(Failure::new(ErrorClass::Busy, message));
                }
                _ => break,
            }
        }
    }
    Ok(())
}

/// A process that runs the command for an earlier agent.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    pid: Pid,
    /// Its start, as the time since boot.
    started: Duration,
}

impl Left {
    /// Returns the process if an agent of this user started it with these words, in its own process
    /// group, and it is not a child of this process.
    fn of(pid: Pid, words: &[&OsStr]) -> Option<Left> {
        let folder = PathBuf::from(format!("/proc/{}", pid.as_raw_pid()));
        if fs::metadata(&folder).ok()?.uid() != geteuid().as_raw() {
            return None;
        }
        let content = read(&folder.join("cmdline"))?;
        let line: Vec<&[u8]> = content.strip_suffix(b"\0")?.split(|byte| *byte == 0).collect();
        // For a script, the interpreter comes first.
        if !line.ends_with(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()) {
            return None;
        }
        let stat = String::from_utf8(read(&folder.join("stat"))?).ok()?;
        // The name before it may contain any character.
        let fields: Vec<u64> = stat
            .rsplit_once(')')?
            .1
            .split_whitespace()
            .map(|it| it.parse().unwrap_or_default())
            .collect();
        let (parent, group, ticks) = (*fields.get(1)?, *fields.get(2)?, *fields.get(19)?);
        let is_alone = group == u64::from(pid.as_raw_pid().unsigned_abs());
        let is_ours = parent == u64::from(getpid().as_raw_pid().unsigned_abs());
        let started = ticks.saturating_mul(1_000) / clock_ticks_per_second().max(1);
        (is_alone && !is_ours).then(|| Left { pid, started: Duration::from_millis(started) })
    }

    fn age(&self) -> Duration {
        let now = clock_gettime(ClockId::Boottime);
        Duration::try_from(now).map_or(Duration::ZERO, |now| now.saturating_sub(self.started))
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel's list of processes")]
fn all(words: &[&OsStr], timeout: Duration) -> Vec<Left> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(pid)
    });
    let left = pids.filter_map(|pid| Left::of(pid, words));
    left.filter(|left| left.age() < timeout).collect()
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel about a process")]
fn read(path: &std::path::Path) -> Option<Vec<u8>> {
    fs::read(path).ok()
}

//! The agent's process, and its use of resources.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use trueup_testkit::wait_until;

use crate::log::{Log, Stream};

/// A process of the agent, killed on drop.
pub(crate) struct Process {
    child: Child,
    pub(crate) log: Log,
    /// Its resources when it had first converged.
    first: Option<Usage>,
    /// Its memory in KiB after each convergence.
    memory: Vec<u64>,
}

/// The numbers of a process's open resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    descriptors: usize,
    watches: usize,
    threads: usize,
}

/// The end of a process: its exit code or signal.
#[derive(Debug, PartialEq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Process {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = Log::default();
        log.follow(Stream::Out, child.stdout.take().unwrap());
        log.follow(Stream::Err, child.stderr.take().unwrap());
        Process { child, log, first: None, memory: Vec::new() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // The process may have ended already.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns the way in which it ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().unwrap()?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Code(code),
            (None, signal) => Ended::Signal(signal.unwrap()),
        })
    }

    /// Waits until the agent catches SIGHUP and SIGTERM, or has ended. Before that, these signals
    /// end it like any process.
    pub(crate) fn wait_until_signals_are_caught(&mut self) {
        let status = format!("/proc/{}/status", self.child.id());
        let catches = || {
            let status = fs::read_to_string(&status).ok()?;
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
            let bits = [Signal::HUP, Signal::TERM].map(|signal| 1 << (signal.as_raw() - 1));
            Some(bits.iter().all(|bit| caught & bit != 0))
        };
        wait_until("the agent catches signals", || {
            catches() == Some(true) || self.ended().is_some()
        });
    }

    pub(crate) fn wait(&mut self) -> Ended {
        wait_until("the agent ends", || self.child.try_wait().unwrap().is_some());
        self.ended().unwrap()
    }

    pub(crate) fn has_converged_before(&self) -> bool {
        self.first.is_some()
    }

    fn usage(&self) -> Option<Usage> {
        let proc = format!("/proc/{}", self.child.id());
        let count = |name: &str| Some(fs::read_dir(format!("{proc}/{name}")).ok()?.count());
        let watches = fs::read_dir(format!("{proc}/fdinfo")).ok()?;
        let watches = watches
            .filter_map(|it| fs::read_to_string(it.ok()?.path()).ok())
            .map(|text| text.matches("inotify wd:").count());
        Some(Usage { descriptors: count("fd")?, watches: watches.sum(), threads: count("task")? })
    }

    /// Names a resource of which there is more than after the first convergence.
    pub(crate) fn leaked(&mut self) -> Option<String> {
        let now = self.usage()?;
        let first = *self.first.get_or_insert(now);
        let is_more = now.descriptors > first.descriptors + 6
            || now.watches > first.watches + 16
            || now.threads > first.threads + 4;
        is_more.then(|| format!("it has {now:?}, and had {first:?}"))
    }

    /// Records its private memory in KiB.
    pub(crate) fn note_memory(&mut self) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let mut words = status.split_whitespace();
        words.find(|word| *word == "RssAnon:").unwrap();
        self.memory.push(words.next().unwrap().parse().unwrap());
    }

    /// Returns the medians of its memory in KiB, early and late; `None` if there are too few
    /// values.
    pub(crate) fn memory(&self) -> Option<(u64, u64)> {
        // Skip the first values, before the process has warmed up.
        let noted = self.memory.get(3..)?;
        let third = noted.len() / 3;
        let median = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        (third >= 5).then(|| (median(&noted[..third]), median(&noted[noted.len() - third..])))
    }

    pub(crate) fn newest_memory(&self) -> u64 {
        self.memory.last().copied().unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

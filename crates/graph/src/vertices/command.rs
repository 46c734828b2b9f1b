//! A command: run without a shell, within a time.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, Command as StdCommand, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use trueup_reconcile::ErrorClass;

use crate::Failure;

/// How much of what a command writes to its standard error is kept: the end of it.
const KEPT: usize = 2_048;
/// For how long a killed process is waited for.
const REAP: Duration = Duration::from_secs(5);

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(super) struct Command {
    program: OsString,
    arguments: Vec<OsString>,
}

impl Command {
    pub(super) fn new(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        let arguments = arguments.into_iter();
        Command {
            program: program.as_ref().to_owned(),
            arguments: arguments.map(|it| it.as_ref().to_owned()).collect(),
        }
    }

    pub(super) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Runs the command in a process group of its own, without input, and returns how it ended and
    /// the end of what it wrote to its standard error. At the deadline the group is killed.
    pub(super) fn run(&self, deadline: Instant) -> Result<(ExitStatus, String), Failure> {
        let mut child = StdCommand::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| self.not_started(&error))?;
        let mut kept = Vec::new();
        match self.watch(&mut child, deadline, &mut kept) {
            Ok(Some(status)) => Ok((status, text(&kept))),
            Ok(None) => {
                kill(&mut child);
                let message = format!(
                    "{}: killed, as it did not end in time; raise its timeout{}",
                    self.name(),
                    text(&kept)
                );
                Err(Failure::new(ErrorClass::Unknown, message))
            }
            Err(error) => {
                kill(&mut child);
                let message = format!("{}: killed, as it cannot be watched: {error}", self.name());
                Err(Failure::new(ErrorClass::Unknown, message))
            }
        }
    }

    /// Reads and waits until the process ends, or `None` at the deadline.
    fn watch(
        &self,
        child: &mut Child,
        deadline: Instant,
        kept: &mut Vec<u8>,
    ) -> Result<Option<ExitStatus>, Errno> {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let mut stderr = child.stderr.take();
        if let Some(stderr) = &stderr {
            fcntl_setfl(stderr, fcntl_getfl(stderr)? | OFlags::NONBLOCK)?;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut polled = vec![PollFd::new(&process, PollFlags::IN)];
            polled.extend(stderr.iter().map(|it| PollFd::new(it, PollFlags::IN)));
            match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            let has_ended = !polled[0].revents().is_empty();
            // Of what the process wrote before its end, all is in the pipe by now: 64 KiB.
            let times = if has_ended { 32 } else { 1 };
            if stderr.as_mut().is_some_and(|it| !read(it, kept, times)) {
                stderr = None;
            }
            if has_ended {
                let status = child.wait();
                return status
                    .map(Some)
                    .map_err(|it| Errno::from_io_error(&it).unwrap_or(Errno::IO));
            }
        }
    }

    fn not_started(&self, error: &std::io::Error) -> Failure {
        let (class, remedy) = match error.kind() {
            ErrorKind::NotFound => (ErrorClass::Dependency, "install it, or correct its path"),
            ErrorKind::PermissionDenied => (ErrorClass::Permission, "make it executable"),
            _ => (ErrorClass::Busy, "it is tried again"),
        };
        let message = format!("{}: cannot be started: {error}; {remedy}", self.name());
        Failure::new(class, message)
    }
}

/// Reads what there is, at most so many times, and keeps the end of it. False once there will be no
/// more.
fn read(stderr: &mut ChildStderr, kept: &mut Vec<u8>, times: usize) -> bool {
    let mut buffer = [0; 4_096];
    for _ in 0..times {
        match stderr.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                kept.extend_from_slice(&buffer[..count]);
                kept.drain(..kept.len().saturating_sub(KEPT));
            }
            Err(error) => {
                return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
            }
        }
    }
    true
}

/// Kills the group of a process that was not waited for, so that its number is still its own.
fn kill(child: &mut Child) {
    // It fails only if all of the group have ended.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let end = Instant::now() + REAP;
    // One that the kernel holds stays a zombie until we end.
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the end of what a command wrote, as a part of a message.
fn text(kept: &[u8]) -> String {
    match String::from_utf8_lossy(kept).trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// Says how a process ended.
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

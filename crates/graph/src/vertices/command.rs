//! A command: run without a shell, within a time.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command as StdCommand, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use trueup_path::TrustedUsers;
use trueup_reconcile::ErrorClass;

use super::inherited::Inherited;
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
    #[expect(
        clippy::disallowed_methods,
        reason = "the program is one that `trueup_path` has found"
    )]
    pub(super) fn run(
        &self,
        inherited: &Inherited,
        deadline: Instant,
    ) -> Result<(ExitStatus, String), Failure> {
        let mut command = StdCommand::new(self.find(inherited)?);
        command
            .arg0(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = inherited
            .spawn(&mut command)
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

    /// Fails if the program may not be executed, as another user can change it for example. One
    /// that is not there yet may come.
    pub(super) fn check_program(&self, inherited: &Inherited) -> Result<(), Failure> {
        match self.find(inherited) {
            Err(failure) if failure.class() == ErrorClass::Permission => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the path of the program, which nobody but root and the user of this process can
    /// change. A name without a slash is looked for in the command's `PATH`.
    fn find(&self, inherited: &Inherited) -> Result<PathBuf, Failure> {
        let users = TrustedUsers::current().map_err(|it| self.not_usable(&it))?;
        if self.program.as_bytes().contains(&b'/') {
            let path = std::path::absolute(&self.program);
            let path = path.map_err(|error| self.not_started(&error))?;
            let found = users.program(path.as_os_str());
            return found.map_err(|it| self.not_usable(&it));
        }
        let mut missing = None;
        for folder in env::split_paths(&inherited.search_path()).filter(|it| it.is_absolute()) {
            match users.program(folder.join(&self.program).as_os_str()) {
                // As a shell does: it is not there, or is not executable.
                Err(error) if !error.is_refused() => missing = missing.or(Some(error)),
                found => return found.map_err(|it| self.not_usable(&it)),
            }
        }
        Err(match missing {
            Some(error) => self.not_usable(&error),
            None => self.not_started(&ErrorKind::NotFound.into()),
        })
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

    fn not_usable(&self, error: &trueup_path::Error) -> Failure {
        if error.is_refused() {
            let message = format!(
                "{}: not started: {error}; a command runs only if its program, the folders on the \
                 way to it, and the links among them belong to root or to the user of trueup, and \
                 nobody else can write them: `chown root` and `chmod go-w` what is named",
                self.name()
            );
            return Failure::new(ErrorClass::Permission, message);
        }
        let kind = match error.kind() {
            trueup_path::ErrorKind::NotRegular => ErrorKind::PermissionDenied,
            _ => error.io_kind(),
        };
        self.failed_to_start(kind, error)
    }

    fn not_started(&self, error: &io::Error) -> Failure {
        self.failed_to_start(error.kind(), error)
    }

    fn failed_to_start(&self, kind: ErrorKind, error: &dyn Display) -> Failure {
        let (class, remedy) = match kind {
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

/// Kills the group of a process, unless it was waited for: its number may be another's then. That is
/// so if this program was started with `SIGCHLD` ignored.
fn kill(child: &mut Child) {
    let process = Pid::from_child(child);
    let state = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::Pid(process), state).is_ok() {
        // It fails only if all of the group have ended.
        let _ = kill_process_group(process, Signal::KILL);
    }
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

#[cfg(test)]
mod tests {
    use rustix::process::pidfd_send_signal;

    use super::*;

    #[test]
    fn the_group_of_a_process_that_was_reaped_is_left_alone() {
        let mut child = StdCommand::new("sh")
            .args(["-c", "sleep 600 >&2 & echo $!"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut sleeper = String::new();
        let mut output = child.stdout.take().unwrap();
        output.read_to_string(&mut sleeper).unwrap();
        let sleeper = Pid::from_raw(sleeper.trim().parse().unwrap()).unwrap();
        let held = pidfd_open(sleeper, PidfdFlags::empty()).unwrap();
        // By something else than `Child`, so that it does not know. What is left of the group
        // stands for another one that has its number now.
        waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED).unwrap();
        kill(&mut child);
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let ended = poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&second));
        let _ = pidfd_send_signal(&held, Signal::KILL);
        assert_eq!(ended, Ok(0), "it was killed");
    }
}

//! Runs a command without a shell, with a time limit.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command as StdCommand, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use trueup_path::TrustedUsers;
use trueup_reconcile::ErrorClass;

use super::inherited::Inherited;
use crate::Failure;

/// How much of the end of the standard error is kept, in bytes.
const KEPT: u64 = 2_048;
/// The limit of standard error in memory while the command runs, in bytes. A command can exceed it
/// by its output of one [`LOOK`].
const MAX_WRITTEN: u64 = 1024 * 1024;
/// How often the size of the standard error is checked.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait for a killed process to end.
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
        Command {
            program: program.as_ref().to_owned(),
            arguments: arguments.into_iter().map(|it| it.as_ref().to_owned()).collect(),
        }
    }

    /// Returns the program, followed by its arguments.
    pub(super) fn words(&self) -> Vec<&OsStr> {
        let arguments = self.arguments.iter().map(|it| &**it);
        std::iter::once(&*self.program).chain(arguments).collect()
    }

    pub(super) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Runs the command in a process group of its own, without input. Returns its exit status and
    /// the end of its standard error. At the deadline, kills the group.
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
            .process_group(0);
        let (stderr, mut child) = StandardError::new()
            .and_then(|stderr| {
                command.stderr(stderr.0.try_clone()?);
                Ok((stderr, inherited.spawn(&mut command)?))
            })
            .map_err(|error| self.failed_to_start(error.kind(), &error))?;
        match watch(&child, &stderr, deadline).and_then(|has_ended| {
            let status = has_ended.then(|| child.wait()).transpose();
            status.map_err(|it| Errno::from_io_error(&it).unwrap_or(Errno::IO))
        }) {
            Ok(Some(status)) => Ok((status, stderr.text())),
            Ok(None) => {
                kill(&mut child);
                let message = format!(
                    "{}: killed, as it did not end in time; raise its timeout{}",
                    self.name(),
                    stderr.text()
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

    /// Fails if the program must not be executed, for example because another user can change it.
    /// Accepts a missing program.
    pub(super) fn check_program(&self, inherited: &Inherited) -> Result<(), Failure> {
        match self.find(inherited) {
            Err(failure) if failure.class == ErrorClass::Permission => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the program's path, which only root and this process's user can change. Looks for a
    /// name without a slash in the command's `PATH`.
    fn find(&self, inherited: &Inherited) -> Result<PathBuf, Failure> {
        let users = TrustedUsers::current().map_err(|it| self.not_usable(&it))?;
        if self.program.as_bytes().contains(&b'/') {
            let path = std::path::absolute(&self.program)
                .map_err(|error| self.failed_to_start(error.kind(), &error))?;
            let found = users.program(path.as_os_str());
            return found.map_err(|it| self.not_usable(&it));
        }
        let mut missing = None;
        for folder in env::split_paths(&inherited.search_path()).filter(|it| it.is_absolute()) {
            match users.program(folder.join(&self.program).as_os_str()) {
                // As a shell does: try the next folder if the file is missing or not executable.
                Err(error) if !error.is_refused() => missing = missing.or(Some(error)),
                found => return found.map_err(|it| self.not_usable(&it)),
            }
        }
        Err(match missing {
            Some(error) => self.not_usable(&error),
            None => self.failed_to_start(ErrorKind::NotFound, &"its PATH names no folder"),
        })
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

/// The command's standard error: a file in memory. A pipe would have no reader after the command
/// has ended, so processes that it left running would die by `SIGPIPE`.
struct StandardError(File);

impl StandardError {
    fn new() -> io::Result<StandardError> {
        let file = memfd_create("standard-error", MemfdFlags::CLOEXEC)?;
        // With `APPEND`, each write goes to the end, even after the file was truncated.
        fcntl_setfl(&file, OFlags::RDWR | OFlags::APPEND)?;
        Ok(StandardError(file.into()))
    }

    /// Empties the file if it has become too long.
    fn limit(&self) {
        if self.len() > MAX_WRITTEN {
            // Truncating a file in memory does not fail.
            let _ = self.0.set_len(0);
        }
    }

    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |found| found.len())
    }

    /// Returns the end of the output, formatted for a message.
    fn text(&self) -> String {
        let mut kept = Vec::new();
        let mut file = &self.0;
        let begin = SeekFrom::Start(self.len().saturating_sub(KEPT));
        let read = file.seek(begin).and_then(|_| file.take(KEPT).read_to_end(&mut kept));
        let text = read.map(|_| String::from_utf8_lossy(&kept));
        match text.as_deref().unwrap_or_default().trim() {
            "" => String::new(),
            text => format!(": {text}"),
        }
    }
}

/// Waits until the process ends; returns false at the deadline.
fn watch(child: &Child, stderr: &StandardError, deadline: Instant) -> Result<bool, Errno> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let wait = Timespec::try_from(left.min(LOOK)).ok();
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], wait.as_ref()) {
            Ok(0) | Err(Errno::INTR) => stderr.limit(),
            Ok(_) => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

/// Kills a process's group, unless the process was already reaped: its number may then belong to
/// another one. This happens if this program was started with `SIGCHLD` ignored.
fn kill(child: &mut Child) {
    let process = Pid::from_child(child);
    let state = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if waitid(WaitId::Pid(process), state).is_ok() {
        // The call fails only if the whole group has ended.
        let _ = kill_process_group(process, Signal::KILL);
    }
    let end = Instant::now() + REAP;
    // A process stuck in the kernel stays a zombie until we end.
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Describes how a process ended.
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

#[cfg(test)]
mod tests;

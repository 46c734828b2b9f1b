//! A command: run without a shell, within a time.

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

/// How much of what a command writes to its standard error is kept: the end of it.
const KEPT: u64 = 2_048;
/// How much of it may lie in memory while the command runs, but for what it writes in a second.
const MAX_WRITTEN: u64 = 1024 * 1024;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(1);
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
        Command {
            program: program.as_ref().to_owned(),
            arguments: arguments.into_iter().map(|it| it.as_ref().to_owned()).collect(),
        }
    }

    /// Returns the program and its arguments.
    pub(super) fn words(&self) -> Vec<&OsStr> {
        let arguments = self.arguments.iter().map(|it| &**it);
        std::iter::once(&*self.program).chain(arguments).collect()
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

    /// Fails if the program may not be executed, as another user can change it for example. One
    /// that is not there yet may come.
    pub(super) fn check_program(&self, inherited: &Inherited) -> Result<(), Failure> {
        match self.find(inherited) {
            Err(failure) if failure.class == ErrorClass::Permission => Err(failure),
            _ => Ok(()),
        }
    }

    /// Returns the path of the program, which nobody but root and the user of this process can
    /// change. A name without a slash is looked for in the command's `PATH`.
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
                // As a shell does: it is not there, or is not executable.
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

/// Where a command writes its standard error: a file in memory. Of a pipe there would be no reader
/// once the command has ended, and what it has left running would end by `SIGPIPE`.
struct StandardError(File);

impl StandardError {
    fn new() -> io::Result<StandardError> {
        let file = memfd_create("standard-error", MemfdFlags::CLOEXEC)?;
        // Also where it was made shorter, each write comes at the end.
        fcntl_setfl(&file, OFlags::RDWR | OFlags::APPEND)?;
        Ok(StandardError(file.into()))
    }

    /// Makes it empty once it is long.
    fn limit(&self) {
        if self.len() > MAX_WRITTEN {
            // That of a file in memory does not fail.
            let _ = self.0.set_len(0);
        }
    }

    fn len(&self) -> u64 {
        self.0.metadata().map_or(0, |found| found.len())
    }

    /// Returns the end of what was written, as a part of a message.
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

/// Waits until the process ends; false at the deadline.
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

/// Says how a process ended.
pub(super) fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

#[cfg(test)]
mod tests;

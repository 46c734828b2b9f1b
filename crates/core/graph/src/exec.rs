//! A vertex that runs a command.

mod command;
mod inherited;
mod predecessor;

use std::ffi::OsStr;
use std::io;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

use self::command::{Command, ended};
use self::inherited::{Inherited, Spawner};
use crate::{Failure, RunContext, Verdict, Vertex};

/// A vertex that runs a command, without a shell.
///
/// The command has no input. Its output is dropped, except for the end of its standard error, which
/// becomes part of a failure's message. It runs in a process group of its own; if it exceeds its
/// time limit, the group is killed. A pause waits for the command and does not kill it.
///
/// The program must be a regular file that only root and this process's user can change: no other
/// user may own or write it, or a folder or a link on the way to it. Otherwise the run fails with
/// class `Permission`, and the message names what to change. The arguments are not checked.
///
/// A command inherits little from this process, so it runs the same way wherever the agent was
/// started:
///
/// | of this process | the command has |
/// |---|---|
/// | descriptors | none but its standard streams. The process's others are marked close-on-exec. |
/// | variables | `LANG`, `LANGUAGE`, `LC_*` and `TZ`; `HOME`, if that folder is the user's; the
/// ones of [`with_environment`](Self::with_environment). | | `PATH` |
/// `/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin` | | capabilities | its user's and
/// the program's: none ambient or inheritable, unless
/// [`with_ambient_capabilities`](Self::with_ambient_capabilities) is set | | signals | none
/// blocked, `SIGPIPE` not ignored; others that the process ignores stay ignored | | folder | `/` |
/// | umask, limits, namespaces, control group | the same |
///
/// If an earlier agent was killed during a run of the command, the vertex waits for that run before
/// it starts the command again: at most as long as the run could have lasted under that agent.
///
/// | declared | the command runs |
/// |---|---|
/// | a check | if the check fails, or a refresh is pending |
/// | [`only_refreshed`](Self::only_refreshed) | if a refresh is pending |
/// | neither | at each run of the vertex |
///
/// If there is a check, it must succeed after the command.
///
/// ```
/// use trueup_graph::Exec;
///
/// // Runs `sysctl` if `test` fails.
/// let exec = Exec::new("/sbin/sysctl", ["-w", "net.ipv4.ip_forward=1"])
///     .with_check("/bin/test", ["-e", "/run/forwarding"]);
/// # let _ = exec;
/// ```
#[derive(Clone, Debug)]
pub struct Exec {
    command: Command,
    check: Option<Command>,
    only_refreshed: bool,
    timeout: Duration,
    inherited: Inherited,
    /// True until the first run: an earlier agent, which was killed, may have left a run of the
    /// command.
    is_first: bool,
}

impl Exec {
    /// Creates a vertex that runs a program with arguments, for at most 60 s.
    pub fn new(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        Exec {
            command: Command::new(program, arguments),
            check: None,
            only_refreshed: false,
            timeout: Duration::from_secs(60),
            inherited: Inherited::default(),
            is_first: true,
        }
    }

    /// Sets a check: a command that changes nothing, and exits with 0 if nothing differs.
    #[must_use]
    pub fn with_check(
        self,
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        Exec { check: Some(Command::new(program, arguments)), ..self }
    }

    /// Runs the command only if a refresh is pending.
    #[must_use]
    pub fn only_refreshed(self) -> Self {
        Exec { only_refreshed: true, ..self }
    }

    /// Sets the time limit of the command and of the check, 60 s by default.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Exec { timeout, ..self }
    }

    /// Passes these variables of this process to the command and the check.
    #[must_use]
    pub fn with_environment(self, names: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let variables = names.into_iter().map(|it| it.as_ref().to_owned()).collect();
        Exec { inherited: Inherited { variables, ..self.inherited }, ..self }
    }

    /// Passes this process's ambient capabilities to the command and the check.
    #[must_use]
    pub fn with_ambient_capabilities(self) -> Self {
        Exec { inherited: Inherited { ambient: true, ..self.inherited }, ..self }
    }

    /// Sets how the command and the check are started. For example, `spawn` may start them on a
    /// thread in another network namespace. It gets the command ready to start.
    #[must_use]
    pub fn with_spawn(
        self,
        spawn: impl Fn(&mut std::process::Command) -> io::Result<Child> + Send + Sync + 'static,
    ) -> Self {
        Exec {
            inherited: Inherited { spawner: Spawner(Some(Arc::new(spawn))), ..self.inherited },
            ..self
        }
    }

    /// Checks that only root and this process's user can change the program and the check's
    /// program. A missing program is accepted, because it may appear before the command runs.
    ///
    /// # Errors
    ///
    /// The run would refuse one of the programs.
    pub fn check_programs(&self) -> Result<(), Failure> {
        let mut programs = self.check.iter().chain([&self.command]);
        programs.try_for_each(|it| it.check_program(&self.inherited))
    }

    fn deadline(&self, context: &RunContext) -> Instant {
        let own = crate::sync::after(Instant::now(), self.timeout);
        context.deadline().map_or(own, |at| at.min(own))
    }

    fn is_in_place(&self, check: &Command, context: &RunContext) -> Result<bool, Failure> {
        let run = check.run(&self.inherited, self.deadline(context));
        Ok(run?.0.success())
    }
}

impl Vertex for Exec {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let is_due = match (context.refreshes(), self.only_refreshed, &self.check) {
            (1.., _, _) => true,
            (0, true, _) => false,
            (0, false, Some(check)) => !self.is_in_place(check, context)?,
            (0, false, None) => true,
        };
        match (is_due, apply) {
            (false, _) => return Ok(Verdict::InPlace),
            (true, false) => {
                self.check_programs()?;
                return Ok(Verdict::WouldChange);
            }
            (true, true) => {}
        }
        let deadline = self.deadline(context);
        if self.is_first {
            let words = self.command.words();
            predecessor::wait(&words, self.timeout, deadline)?;
            self.is_first = false;
        }
        let (status, stderr) = self.command.run(&self.inherited, deadline)?;
        if !status.success() {
            let message = format!("{}: {}{stderr}", self.command.name(), ended(status));
            return Err(Failure::new(ErrorClass::Unknown, message));
        }
        if let Some(check) = &self.check
            && !self.is_in_place(check, context)?
        {
            let message = format!(
                "{}: it succeeded, and yet its check {} fails; correct one of them",
                self.command.name(),
                check.name()
            );
            return Err(Failure::new(ErrorClass::Busy, message));
        }
        Ok(Verdict::Changed)
    }
}

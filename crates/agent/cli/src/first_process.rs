//! The agent as process 1 of a container. If a process there loses its parent, it becomes a child
//! of process 1, and stays in the process table until process 1 waits for it.
//!
//! If the agent waited for any child, it would take the exit codes of commands away from the
//! threads that wait for them. So process 1 starts the agent as a child, passes signals on to it,
//! waits for all children, and ends with the agent.

use std::env;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The offset of the exit code of a process that a signal has ended, as shells count.
const BY_SIGNAL: i32 = 128;

/// True if this is process 1.
pub(crate) fn is_first() -> bool {
    getpid().is_init()
}

/// Runs this program again, with the same arguments. Waits for its end, and returns its exit code.
/// Fails if it cannot be started.
#[expect(clippy::disallowed_methods, reason = "the program is the one that runs already")]
pub(crate) fn run() -> Result<ExitCode> {
    // Before the child can end.
    let mut signals =
        Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGTERM]).context("cannot wait for signals")?;
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let agent = command.args(arguments).spawn();
    let agent = Pid::from_child(&agent.context("cannot start the agent as a process of its own")?);
    for signal in signals.forever() {
        let passed = match signal {
            SIGCHLD => {
                if let Some(status) = reap(agent) {
                    return Ok(exit_code(status));
                }
                continue;
            }
            // A terminal sends it to both.
            SIGINT if has_terminal() => continue,
            SIGINT => Signal::INT,
            SIGHUP => Signal::HUP,
            _ => Signal::TERM,
        };
        // The process was not waited for yet, so no other process has its number.
        let _may_have_ended = kill_process(agent, passed);
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for all children that have ended. If the agent is one of them, returns its exit status.
fn reap(agent: Pid) -> Option<ExitStatus> {
    let mut ended = None;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == agent => {
                ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return ended,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the kernel's name of the terminal of the process")]
fn has_terminal() -> bool {
    open("/dev/tty", OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).is_ok()
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let by_signal = status.signal().map(|signal| BY_SIGNAL + signal);
    let code = status.code().or(by_signal);
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

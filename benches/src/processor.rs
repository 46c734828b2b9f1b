//! Processor time, user and kernel, by the kernel's own clocks: to the nanosecond, and with the
//! threads that have ended.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// Returns what this process has used.
///
/// # Errors
///
/// When the kernel does not say.
pub fn of_this_process() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?.into())
}

/// Returns what the calling thread has used.
///
/// # Errors
///
/// When the kernel does not say.
pub fn of_this_thread() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Returns what another process has used, with all of its threads, but not its children.
///
/// # Errors
///
/// When there is no such process.
pub fn of_process(id: u32) -> Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(id)?))?;
    Ok(clock_gettime(clock)?.into())
}

/// Returns what a thread that sleeps has used, by its folder below `/proc`.
///
/// # Errors
///
/// When there is no such thread.
pub fn of_thread(folder: &Path) -> Result<Duration> {
    let path = folder.join("schedstat");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let nanos = text.split_whitespace().next().unwrap_or_default();
    Ok(Duration::from_nanos(nanos.parse()?))
}

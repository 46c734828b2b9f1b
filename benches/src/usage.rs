//! What a piece of work took: wall time, processor time of user and kernel, peak memory.

use std::fs;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// What a piece of work took.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time, seconds.
    pub wall: f64,
    /// Processor time in user space, seconds.
    pub user: f64,
    /// Processor time in the kernel on behalf of the process, seconds. What the kernel puts off to
    /// threads of its own is not in it.
    pub system: f64,
    /// The most memory that the process had resident so far, MB (10^6 bytes).
    pub peak: f64,
}

/// Runs something in this process.
///
/// # Errors
///
/// When the kernel does not tell.
pub fn measure<T>(work: impl FnOnce() -> T) -> Result<(T, Usage)> {
    let before = times(UsageWho::RUSAGE_SELF)?;
    let start = Instant::now();
    let value = work();
    let wall = start.elapsed().as_secs_f64();
    let after = times(UsageWho::RUSAGE_SELF)?;
    let usage = Usage {
        wall,
        user: after.0 - before.0,
        system: after.1 - before.1,
        peak: memory("VmHWM")?,
    };
    Ok((value, usage))
}

/// Runs a command to its end. Of the memory only the first command of a process is measured right:
/// the kernel keeps the peak of all children together.
///
/// # Errors
///
/// When it cannot be started or fails.
pub fn measure_command(command: &mut Command) -> Result<Usage> {
    let before = times(UsageWho::RUSAGE_CHILDREN)?;
    let start = Instant::now();
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    let wall = start.elapsed().as_secs_f64();
    // 2 is what `trueup plan` says when changes are due.
    ensure!(status.code().is_some_and(|code| code == 0 || code == 2), "{command:?}: {status}");
    let after = times(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Usage {
        wall,
        user: after.0 - before.0,
        system: after.1 - before.1,
        // Kibibytes: getrusage(2).
        peak: getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss() as f64 * 1.024e-3,
    })
}

/// A line of `/proc/self/status`, MB: `VmRSS` is what is resident now, `VmHWM` the most so far.
///
/// # Errors
///
/// When there is no such line.
pub fn memory(line: &str) -> Result<f64> {
    memory_of(std::process::id(), line)
}

/// The same of another process.
///
/// # Errors
///
/// When there is no such process or line.
pub fn memory_of(process: u32, line: &str) -> Result<f64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path)?;
    let kibibytes = status
        .lines()
        .find_map(|text| text.strip_prefix(line)?.strip_prefix(':'))
        .and_then(|value| value.trim().strip_suffix(" kB"))
        .with_context(|| format!("no {line} in {path}"))?;
    Ok(kibibytes.parse::<f64>()? * 1.024e-3)
}

fn times(who: UsageWho) -> Result<(f64, f64)> {
    let usage = getrusage(who)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

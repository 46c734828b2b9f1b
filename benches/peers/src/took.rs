//! What a piece of work took: of this process, of a child, or of a process that is there already.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

/// What a piece of work took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// User and kernel.
    pub(crate) cpu: Duration,
    /// The most memory resident meanwhile, KiB.
    pub(crate) peak_kb: u64,
}

/// Measures what this process does.
pub(crate) fn here(work: impl FnOnce() -> Result<()>) -> Result<Took> {
    forget_peak("self")?;
    let (before, start) = (spent(UsageWho::RUSAGE_SELF)?, Instant::now());
    work()?;
    let wall = start.elapsed();
    Ok(Took {
        wall,
        cpu: spent(UsageWho::RUSAGE_SELF)?.saturating_sub(before),
        peak_kb: peak("self")?,
    })
}

/// Measures a command from its start to its end, which has to be a good one. Its memory is measured
/// right as long as no other child of this process needed more.
pub(crate) fn command(command: &mut Command) -> Result<Took> {
    let (before, start) = (spent(UsageWho::RUSAGE_CHILDREN)?, Instant::now());
    let status = command
        .status()
        .with_context(|| format!("{:?}", command.get_program()))?;
    let wall = start.elapsed();
    ensure!(status.success(), "{command:?}: {status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(Took {
        wall,
        cpu: spent(UsageWho::RUSAGE_CHILDREN)?.saturating_sub(before),
        // In KiB: getrusage(2).
        peak_kb: u64::try_from(usage.max_rss())?,
    })
}

/// Measures what another process, of one thread, does while `work` waits for it.
pub(crate) fn other(process: u32, work: impl FnOnce() -> Result<()>) -> Result<Took> {
    let process = process.to_string();
    forget_peak(&process)?;
    let (before, start) = (on_cpu(&process)?, Instant::now());
    work()?;
    let wall = start.elapsed();
    Ok(Took {
        wall,
        cpu: on_cpu(&process)?.saturating_sub(before),
        peak_kb: peak(&process)?,
    })
}

fn spent(who: UsageWho) -> Result<Duration> {
    let usage = getrusage(who)?;
    let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
    let micros = micros(usage.user_time()) + micros(usage.system_time());
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// Time on a processor, from `/proc/PID/schedstat`: the other files count in hundredths of a
/// second.
fn on_cpu(process: &str) -> Result<Duration> {
    let text = read(process, "schedstat")?;
    let nanos = text.split_whitespace().next().unwrap_or_default();
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// The most memory resident, from now on: proc_pid_clear_refs(5).
fn forget_peak(process: &str) -> Result<()> {
    let path = format!("/proc/{process}/clear_refs");
    fs::write(&path, "5").context(path)
}

fn peak(process: &str) -> Result<u64> {
    let status = read(process, "status")?;
    let kibibytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"))
        .context("no VmHWM")?;
    Ok(kibibytes.parse()?)
}

fn read(process: &str, file: &str) -> Result<String> {
    let path = format!("/proc/{process}/{file}");
    fs::read_to_string(&path).context(path)
}

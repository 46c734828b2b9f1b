//! The line with which a program reports its work, and the measurements in it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, process};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// The name of the variable with the path at which a profiler learns when the clock starts and
/// stops (`perf record --control`).
pub const STARTS: &str = "TRUEUP_PROFILER_STARTS";
/// The name of the variable with the path at which it acknowledges that.
pub const ACKNOWLEDGES: &str = "TRUEUP_PROFILER_ACKNOWLEDGES";

/// A program's report of a work. `benches/README.md` describes the fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The name by which the program was called.
    pub program: String,
    /// The name of the work, such as `route-create`.
    pub work: String,
    /// The number of objects.
    pub size: usize,
    /// The cost of the work.
    #[serde(flatten)]
    pub took: Took,
}

/// The cost of a work, as measured by its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// Wall time, in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of user and kernel, in nanoseconds.
    pub cpu_ns: u64,
    /// The peak of resident memory during the work, in KiB.
    pub peak_rss_kb: u64,
}

/// Does the work in this process, and returns its result and cost.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Took)> {
    timed_in(process::id(), Profiler::of_environment()?, work)
}

/// Returns the cost of a work in another process, while `work` waits for it.
pub fn timed_of(process: u32, work: impl FnOnce() -> Result<()>) -> Result<Took> {
    Ok(timed_in(process, Profiler(None), work)?.1)
}

fn timed_in<T>(
    process: u32,
    mut profiler: Profiler,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Took)> {
    // This resets the peak to the current resident size: proc_pid_clear_refs(5).
    let path = format!("/proc/{process}/clear_refs");
    fs::write(&path, "5").context(path)?;
    profiler.tell("enable\n")?;
    let (before, start) = (processor_of(process)?, Instant::now());
    let value = work()?;
    let wall = start.elapsed();
    let cpu = processor_of(process)?.saturating_sub(before);
    profiler.tell("disable\n")?;
    Ok((value, Took::new(wall, cpu, resident(process, "VmHWM")?)))
}

/// Runs a command to its end, and returns its cost; fails unless it succeeds. The memory is right
/// as long as no other child of this process needed more.
pub fn timed_command(command: &mut Command) -> Result<Took> {
    let (before, start) = (processor_of_children()?, Instant::now());
    let status = command.status().with_context(|| format!("{:?}", command.get_program()))?;
    let wall = start.elapsed();
    // `trueup plan` exits with 2 if changes are due.
    ensure!(matches!(status.code(), Some(0 | 2)), "{command:?}: {status}");
    let cpu = processor_of_children()?.saturating_sub(before);
    // In KiB: getrusage(2).
    let peak = u64::try_from(getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss())?;
    Ok(Took::new(wall, cpu, peak))
}

/// Repeats a work, and returns the median time; processor time is the mean.
pub fn timed_each(times: usize, mut work: impl FnMut(usize) -> Result<()>) -> Result<Took> {
    let (mut each, all) = timed(|| {
        let mut each = Vec::with_capacity(times);
        for at in 0..times {
            let start = Instant::now();
            work(at)?;
            each.push(nanos(start.elapsed()));
        }
        Ok(each)
    })?;
    each.sort_unstable();
    Ok(Took {
        wall_ns: each.get(each.len() / 2).copied().unwrap_or_default(),
        cpu_ns: all.cpu_ns / times.max(1) as u64,
        ..all
    })
}

impl Took {
    fn new(wall: Duration, cpu: Duration, peak_rss_kb: u64) -> Took {
        Took { wall_ns: nanos(wall), cpu_ns: nanos(cpu), peak_rss_kb }
    }
}

/// Converts a time to nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the processor time that a process has used, with all its threads, but without its
/// children.
pub fn processor_of(process: u32) -> Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(process)?))?;
    Ok(clock_gettime(clock)?.into())
}

/// Returns the processor time that the calling thread has used.
pub fn processor_of_thread() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Returns the processor time of all child processes that were waited for.
pub fn processor_of_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// Returns a line of a process's status in KiB: `VmRSS` is the current resident memory, `VmHWM` its
/// peak.
pub fn resident(process: u32, line: &str) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path)?;
    let mut lines = status.lines();
    let value = lines.find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB"));
    Ok(kib.with_context(|| format!("no {line} in {path}"))?.parse()?)
}

/// The profiler that samples while the clock runs, if any.
struct Profiler(Option<(File, BufReader<File>)>);

impl Profiler {
    fn of_environment() -> Result<Profiler> {
        let (Some(starts), Some(acknowledges)) = (env::var_os(STARTS), env::var_os(ACKNOWLEDGES))
        else {
            return Ok(Profiler(None));
        };
        let starts = File::options().write(true).open(starts)?;
        Ok(Profiler(Some((starts, BufReader::new(File::open(acknowledges)?)))))
    }

    fn tell(&mut self, what: &str) -> Result<()> {
        if let Some((starts, acknowledges)) = &mut self.0 {
            starts.write_all(what.as_bytes())?;
            acknowledges.read_line(&mut String::new())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_the_page_says() {
        let text = r#"{"program":"floor","work":"route-create","size":1000,"wall_ns":4400000,"cpu_ns":4300000,"peak_rss_kb":2100}"#;
        let line: Line = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
    }
}

//! The line that a program prints of its work, and what is measured for it.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Instant;

use anyhow::{Context as _, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

/// Where a profiler wants to know when the clock starts and stops (`perf record --control`): the
/// name of a variable.
pub const STARTS: &str = "TRUEUP_PROFILER_STARTS";
/// Where it answers that it does, too.
pub const ACKNOWLEDGES: &str = "TRUEUP_PROFILER_ACKNOWLEDGES";

/// What a program says of a work that it did. `README.md` of this directory says what is in each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Its name.
    pub program: String,
    /// The work's name.
    pub work: String,
    /// How many objects it was about.
    pub size: usize,
    /// What it took.
    #[serde(flatten)]
    pub took: Took,
}

/// What a work took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// Processor time of user and kernel, nanoseconds.
    pub cpu_ns: u64,
    /// The most memory resident meanwhile, KiB.
    pub peak_rss_kb: u64,
}

/// Does it in this process, and tells what it took.
///
/// # Errors
///
/// Those of `work`, and when the kernel does not tell.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Took)> {
    // The peak is from now on what is resident now: proc_pid_clear_refs(5).
    fs::write("/proc/self/clear_refs", "5").context("/proc/self/clear_refs")?;
    let mut profiler = Profiler::of_environment()?;
    profiler.tell("enable\n")?;
    let before = processor()?;
    let start = Instant::now();
    let value = work()?;
    let wall_ns = u64::try_from(start.elapsed().as_nanos())?;
    let cpu_ns = processor()?.saturating_sub(before);
    profiler.tell("disable\n")?;
    let took = Took { wall_ns, cpu_ns, peak_rss_kb: peak()? };
    Ok((value, took))
}

/// Does something many times, and tells what the median time took: processor time is the mean.
///
/// # Errors
///
/// As [`timed`].
pub fn timed_each(times: usize, mut work: impl FnMut(usize) -> Result<()>) -> Result<Took> {
    let (mut each, all) = timed(|| {
        let mut each = Vec::with_capacity(times);
        for at in 0..times {
            let start = Instant::now();
            work(at)?;
            each.push(u64::try_from(start.elapsed().as_nanos())?);
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

/// Who samples what happens while the clock runs, if anybody does.
struct Profiler(Option<(File, BufReader<File>)>);

impl Profiler {
    fn of_environment() -> Result<Profiler> {
        let (Some(starts), Some(acknowledges)) = (env::var_os(STARTS), env::var_os(ACKNOWLEDGES))
        else {
            return Ok(Profiler(None));
        };
        let starts = File::options().write(true).open(starts)?;
        let acknowledges = BufReader::new(File::open(acknowledges)?);
        Ok(Profiler(Some((starts, acknowledges))))
    }

    fn tell(&mut self, what: &str) -> Result<()> {
        if let Some((starts, acknowledges)) = &mut self.0 {
            starts.write_all(what.as_bytes())?;
            acknowledges.read_line(&mut String::new())?;
        }
        Ok(())
    }
}

fn processor() -> Result<u64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let both = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(u64::try_from(both)?.saturating_mul(1_000))
}

fn peak() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("no VmHWM in /proc/self/status")?.trim().parse()?)
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

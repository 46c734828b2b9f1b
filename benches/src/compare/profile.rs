//! Where a work's time goes, as sampled by `perf`: the kernel's answers, the kernel's changes,
//! other work of the kernel, or the program itself.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde::{Deserialize, Serialize};

use super::program::{Program, with_timeout};
use trueup_testkit::Scratch;
use trueup_works::Work;
use trueup_works::clock::{ACKNOWLEDGES, STARTS};

/// The samples of a work at one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Profile {
    /// The work's name.
    pub(super) work: String,
    /// The number of objects.
    pub(super) size: usize,
    /// The number of samples by activity.
    pub(super) samples: Samples,
}

/// The number of samples for each activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Samples {
    /// The kernel: walking its tables and writing answers.
    pub(super) reading: u64,
    /// The kernel: executing requests.
    pub(super) writing: u64,
    /// The kernel: anything else, such as interrupts, pages of memory, the freeing of deleted
    /// objects.
    pub(super) kernel: u64,
    /// The program itself.
    pub(super) own: u64,
}

impl Profile {
    /// Makes a program do a work under `perf`, which must be allowed to sample the kernel.
    pub(super) fn take(program: &Program, work: Work, size: usize) -> Result<Profile> {
        let scratch = Scratch::make("profile")?;
        let samples = sampled(&scratch, program, work, size)?;
        Ok(Profile { work: work.to_string(), size, samples })
    }
}

/// Returns the samples of a work; `dir` is a directory for temporary files.
fn sampled(dir: &Path, program: &Program, work: Work, size: usize) -> Result<Samples> {
    let [starts, acknowledges, data] =
        ["starts", "acknowledges", "data"].map(|name| dir.join(name));
    for fifo in [&starts, &acknowledges] {
        mkfifo(fifo, Mode::S_IRUSR | Mode::S_IWUSR)?;
    }
    let mut perf = with_timeout();
    perf.args(["perf", "record", "--quiet", "--call-graph", "fp", "--freq", "999"]);
    // Nothing is sampled until the program reports the beginning of the work.
    let control = format!("fifo:{},{}", starts.display(), acknowledges.display());
    perf.args(["--delay=-1", "--control", &control, "--output"]);
    perf.arg(&data).arg("--");
    perf.env(STARTS, &starts).env(ACKNOWLEDGES, &acknowledges);
    program.perform_under(perf, work, size)?;
    let samples = Samples::of_script(&script(&data)?);
    ensure!(
        samples.reading + samples.writing + samples.kernel > 0,
        "nothing was seen of the kernel: sysctl kernel.perf_event_paranoid has to be 1 at most"
    );
    Ok(samples)
}

/// Returns the samples as text.
fn script(data: &Path) -> Result<String> {
    let mut perf = Command::new("perf");
    perf.args(["script", "--fields", "ip,sym", "--input"]).arg(data);
    let output = perf.output().context("perf, of Debian's linux-perf")?;
    ensure!(output.status.success(), "perf script: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Samples {
    /// Counts the samples in the output of `perf script --fields ip,sym`: one frame on each line,
    /// the innermost first, and an empty line after each sample.
    fn of_script(text: &str) -> Samples {
        let mut samples = Samples::default();
        for sample in text.split("\n\n") {
            let mut frames = sample.lines().filter_map(|line| {
                let (address, symbol) = line.trim().split_once(' ')?;
                Some((u64::from_str_radix(address, 16).ok()?, symbol))
            });
            let [dumps, asked] = ["netlink_dump", "netlink_sendmsg"]
                .map(|name| frames.clone().any(|(_, symbol)| symbol == name));
            // The upper half of addresses is the kernel's.
            let count = match frames.next() {
                None => continue,
                Some((address, _)) if address >> 63 == 0 => &mut samples.own,
                Some(_) if dumps => &mut samples.reading,
                Some(_) if asked => &mut samples.writing,
                Some(_) => &mut samples.kernel,
            };
            *count += 1;
        }
        samples
    }

    /// Returns the percentages of reading, writing, other kernel work, and the program.
    pub(super) fn percent(&self) -> [f64; 4] {
        let each = [self.reading, self.writing, self.kernel, self.own];
        let all: u64 = each.iter().sum();
        each.map(|count| 100.0 * count as f64 / all.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_reported_apart_by_what_the_kernel_was_asked_for() {
        let text = "
\tffffffff81e77410 fib_table_dump
\tffffffff81e77410 netlink_dump
\tffffffff81e77410 netlink_sendmsg
\t          26d8fa recv

\tffffffff81e77410 fib_table_insert
\tffffffff81e77410 netlink_sendmsg

\tffffffff81e77410 clear_page_erms

\t          26d8fa trueup_net::model::net::Prefix::new
\t 24e973f40100000 [unknown]

\t          35722e trueup_net::routes::values::Value::of

";
        let samples = Samples::of_script(text);
        let message = Samples { reading: 1, writing: 1, kernel: 1, own: 2 };
        assert_eq!(samples, message);
        assert_eq!(samples.percent(), [20.0, 20.0, 20.0, 40.0]);
        assert_eq!(Samples::of_script("").percent(), [0.0; 4]);
    }
}

//! `cargo xtask fuzz`: runs the targets of `fuzz/` under libFuzzer, one after another, each for a
//! time. Their own corpus stays below `target/fuzz`; the corpus in the repository grows by hand,
//! from `--seeds` and from findings.

use std::fs;
use std::time::Duration;

use crate::nightly;
use crate::tools::{
    Result, at, cargo, entries, install, joined, need_ip, root, run_within, show_and_run,
};

const VERSION: &str = "0.13.2";
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// For how many seconds each target runs; 60 by default
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: Option<u64>,
    /// For how many seconds all targets run, which they share
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "seconds")]
    pub(crate) total: Option<u64>,
    /// Record the corpus anew instead, from what the running kernel says
    #[arg(long)]
    pub(crate) seeds: bool,
    /// The targets to run; all by default
    pub(crate) targets: Vec<String>,
}

/// Runs the targets. Returns the results in one line.
pub(crate) fn run(options: &Options) -> Result<String> {
    if options.seeds {
        return seeds().map(|()| "seeds recorded".to_owned());
    }
    let (seconds, targets) = options.chosen(targets()?)?;
    nightly::need()?;
    install("cargo-fuzz", VERSION)?;
    for target in &targets {
        show_and_run(&mut nightly::cargo(&["fuzz", "build", target]))?;
    }
    let (mut failed, mut all) = (Vec::new(), 0);
    println!("{:<12}{:>14}{:>10}{:>10}", "target", "executions", "seconds", "coverage");
    for target in &targets {
        let (log, finding) = drive(target, seconds)?;
        let Numbers { executions, seconds, coverage } = Numbers::of(&log);
        println!("{target:<12}{executions:>14}{seconds:>10}{coverage:>10}");
        all += executions;
        if finding {
            eprintln!("{}", finding_of(&log));
            failed.push(format!("{target}: a finding, see above"));
        }
    }
    joined(&failed)?;
    Ok(format!("{all} executions of {} targets, {seconds} s each: no finding", targets.len()))
}

/// Records the running kernel's messages as the corpus.
fn seeds() -> Result<()> {
    need_ip()?;
    let package = ["--package", "trueup-fuzz", "--example", "seeds"];
    show_and_run(cargo(&["run", "--quiet"]).args(package))
}

/// Returns the names of all targets, sorted.
pub(crate) fn targets() -> Result<Vec<String>> {
    let paths = entries(&root().join("fuzz/fuzz_targets"))?;
    let names = paths.iter().filter_map(|path| path.file_stem());
    Ok(names.map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Sums up the results of runs, each as [`run`] returns it.
pub(crate) fn sum(results: &[&str]) -> String {
    let all: u64 = results.iter().filter_map(|it| it.split(' ').next()?.parse::<u64>().ok()).sum();
    format!("{all} executions of {} targets: no finding", results.len())
}

impl Options {
    /// Selects one target, for its share of a time in seconds for all.
    pub(crate) fn share_of(total: u64, target: &str) -> Result<Options> {
        let seconds = (total / targets()?.len().max(1) as u64).max(1);
        let targets = vec![target.to_owned()];
        Ok(Options { seconds: Some(seconds), targets, ..Options::default() })
    }

    /// Returns the time of each target in seconds, and the targets.
    fn chosen(&self, all: Vec<String>) -> Result<(u64, Vec<String>)> {
        if let Some(other) = self.targets.iter().find(|name| !all.contains(name)) {
            return Err(format!("no fuzz target {other:?}: there are {}", all.join(", ")));
        }
        let targets = if self.targets.is_empty() { all } else { self.targets.clone() };
        let shared = self.total.map(|total| (total / targets.len() as u64).max(1));
        Ok((shared.or(self.seconds).unwrap_or(60), targets))
    }
}

/// Runs one target; returns its output, and true if it found something.
fn drive(target: &str, seconds: u64) -> Result<(String, bool)> {
    // libFuzzer writes interesting inputs into the first directory.
    let work = root().join("target/fuzz/corpus").join(target);
    at(&work, fs::create_dir_all(&work))?;
    let (work, corpus) = (work.to_string_lossy(), format!("fuzz/corpus/{target}"));
    let time = format!("-max_total_time={seconds}");
    let mut command = nightly::cargo(&["fuzz", "run", target, &work, &corpus]);
    command.args(["--", &time, "-print_final_stats=1", "-timeout=10", "-rss_limit_mb=4096"]);
    let (log, ended) = run_within(&mut command, &format!("fuzz-{target}"), Duration::MAX);
    // A target that never ran found nothing, and is a failure, too.
    Ok((log, ended.is_err()))
}

/// Figures in libFuzzer's output of a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers {
    executions: u64,
    seconds: u64,
    /// The covered edges of the program.
    coverage: u64,
}

impl Numbers {
    fn of(log: &str) -> Numbers {
        let mut numbers = Numbers::default();
        for line in log.lines() {
            if let Some(executions) = after(line, "stat::number_of_executed_units:") {
                numbers.executions = executions;
            } else if let Some(coverage) = after(line, " cov: ") {
                numbers.coverage = coverage;
            } else if line.starts_with("Done ") {
                numbers.seconds = after(line, " in ").unwrap_or(0);
            }
        }
        numbers
    }
}

/// Returns the number after a word in a line.
fn after(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.1.split_whitespace().next()?.parse().ok()
}

/// Returns the lines of a log with the finding: from the panic on, without its backtrace.
fn finding_of(log: &str) -> String {
    const TELLING: [&str; 9] = [
        "panicked at",
        "assertion",
        "left:",
        "right:",
        "SUMMARY",
        "ERROR:",
        "error:",
        "artifact_prefix",
        "Failing input",
    ];
    log.lines()
        .filter(|line| TELLING.iter().any(|word| line.contains(word)))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_runs_unless_some_are_named() {
        let all = ["file".to_owned(), "route".to_owned()];
        for (seconds, total, targets, expected) in [
            (None, None, &[][..], Ok((60, all.to_vec()))),
            (Some(5), None, &all[1..], Ok((5, all[1..].to_vec()))),
            (None, Some(60), &[], Ok((30, all.to_vec()))),
        ] {
            let options = Options { seconds, total, seeds: false, targets: targets.to_vec() };
            assert_eq!(options.chosen(all.to_vec()), expected);
        }
        let unknown = Options { targets: vec!["rout".to_owned()], ..Options::default() };
        assert!(unknown.chosen(all.to_vec()).is_err());
    }

    #[test]
    fn runs_of_single_targets_sum_up() {
        let runs = ["5 executions of 1 targets, 9 s each: no finding", "7 executions of 1 targets"];
        assert_eq!(sum(&runs), "12 executions of 2 targets: no finding");
    }

    #[test]
    fn the_numbers_are_those_of_the_end() {
        let log = "#2\tINITED cov: 10 ft: 11 corp: 1/1b\n\
                   #99\tDONE   cov: 1507 ft: 4119 corp: 482/120Kb lim: 4096 exec/s: 9\n\
                   Done 99 runs in 11 second(s)\n\
                   stat::number_of_executed_units: 99\n";
        let (executions, seconds, coverage) = (99, 11, 1507);
        assert_eq!(Numbers::of(log), Numbers { executions, seconds, coverage });
    }

    #[test]
    fn a_finding_is_reported_without_its_backtrace() {
        let log = "INFO: Seed: 1\nthread panicked at src/socket.rs:1:1:\n   0: rust_begin_unwind\n\
                   artifact_prefix='fuzz/artifacts/'; Test unit written to fuzz/artifacts/crash-1\n";
        let finding = finding_of(log);
        assert!(finding.contains("socket.rs") && finding.contains("crash-1"), "{finding}");
        assert!(!finding.contains("rust_begin_unwind"), "{finding}");
    }
}

//! `cargo xtask counts`: counts the instructions of diff and codec for each item, under valgrind,
//! and compares them with `benches/counts.toml`. Unlike times, they are the same in each run, even
//! on a busy machine: a slowdown fails at the change that causes it.
//!
//! The counted program, `benches/counts`, does a work for a number of rounds. The cost of a round
//! is the difference between a run of several rounds and a run of one.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::tools::{
    Result, Tool, cargo, find, joined, line, need, output, read, root, run_within, show_and_run,
};

const FILE: &str = "benches/counts.toml";
const REWRITE: &str = "cargo xtask counts --write";
const VALGRIND: Tool = Tool { program: "valgrind", package: "valgrind" };
/// The permitted excess over the file's value, in percent. Hash seeds change less than a tenth.
const TOLERANCE: f64 = 5.0;
/// Rounds beyond the first, over which the cost of one is averaged.
const ROUNDS: u32 = 2;
const TARGET: &str = "target/counts";
/// The profile of the counted program, independent of the workspace's profile and the environment.
const PROFILE: [&str; 7] = [
    r#"profile.counts.inherits="release""#,
    "profile.counts.codegen-units=1",
    "profile.counts.debug=false",
    "profile.counts.debug-assertions=false",
    "profile.counts.incremental=false",
    "profile.counts.lto=false",
    "profile.counts.opt-level=3",
];

/// Counts the works, and compares the counts or writes them.
pub(crate) fn run(write: bool) -> Result<()> {
    if let Err(missing) = need(&[VALGRIND]) {
        // Only these need valgrind; other developers may not have it.
        if write || env::var_os("CI").is_some_and(|ci| ci == "true") {
            return Err(missing);
        }
        println!("counts: NOT COMPARED: {missing}");
        return Ok(());
    }
    let counted = Counts { rustc: rustc("release")?, host: rustc("host")?, instructions: count()? };
    let path = root().join(FILE);
    if write {
        return crate::tools::write(&path, counted.to_text()?);
    }
    compare(&Counts::parse(&read(&path)?)?, &counted)
}

/// The counts, and the compiler that they hold for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Counts {
    /// The compiler's version.
    rustc: String,
    /// The compiler's host triple.
    host: String,
    /// The instructions for each item of a work, with one decimal.
    instructions: BTreeMap<String, f64>,
}

impl Counts {
    fn parse(text: &str) -> Result<Counts> {
        let parsed = toml::from_str(text);
        parsed.map_err(|error| format!("{FILE}: {error}; `{REWRITE}` writes it anew"))
    }

    fn to_text(&self) -> Result<String> {
        let text = toml::to_string(self).map_err(|error| error.to_string())?;
        Ok(format!(
            "# Instructions that each work of benches/counts takes for an item. `{REWRITE}` writes this file, `cargo xtask\n\
             # prove` compares: more than {TOLERANCE} % above it is a failure.\n{text}"
        ))
    }
}

/// Prints all counts, and fails if a work exceeds its limit.
fn compare(kept: &Counts, counted: &Counts) -> Result<()> {
    if kept.host != counted.host {
        println!("counts: NOT COMPARED: {FILE} is of {}, this is {}", kept.host, counted.host);
        return Ok(());
    }
    let mut wrong = Vec::new();
    for (name, now) in &counted.instructions {
        let Some(before) = kept.instructions.get(name) else {
            wrong.push(format!("{name}: not in {FILE}"));
            continue;
        };
        let more = 100.0 * (now - before) / before;
        println!("{name}: {now:.1} instructions an item, {before:.1} in {FILE} ({more:+.1} %)");
        if more > TOLERANCE {
            wrong.push(format!(
                "{name}: {now:.1} instructions an item, {before:.1} in {FILE}: {more:.1} % more, at most \
                 {TOLERANCE} % are let pass"
            ));
        } else if more < -TOLERANCE {
            println!("  less than before: `{REWRITE}` keeps it so");
        }
    }
    let gone = kept.instructions.keys().filter(|it| !counted.instructions.contains_key(*it));
    wrong.extend(gone.map(|name| format!("{name}: in {FILE}, but there is no such work")));
    if wrong.is_empty() {
        return Ok(());
    }
    if kept.rustc != counted.rustc {
        wrong.push(format!(
            "these were taken with rustc {}, this is {}, which may be why",
            kept.rustc, counted.rustc
        ));
    }
    wrong.push(format!("where this is meant, `{REWRITE}` rewrites the file"));
    joined(&wrong)
}

/// Builds the program, and counts all works that it lists.
fn count() -> Result<BTreeMap<String, f64>> {
    let mut build = cargo(&["build", "--package", "trueup-counts"]);
    build.args(["--profile", "counts", "--target-dir", TARGET]);
    for setting in PROFILE {
        build.args(["--config", setting]);
    }
    // Flags from outside, such as for the local processor, change the counts.
    build.env_remove("CARGO_ENCODED_RUSTFLAGS");
    show_and_run(build.env("RUSTFLAGS", ""))?;
    let program = root().join(TARGET).join("counts/trueup-counts");

    let works = output(Command::new(&program).arg("list"))?;
    let mut counts = BTreeMap::new();
    for work in works.lines() {
        let (items, name) = work.split_once(' ').unwrap_or_default();
        let items: f64 = items.parse().map_err(|_| format!("what is it: {work}"))?;
        let (once, more) = (collected(&program, name, 1)?, collected(&program, name, 1 + ROUNDS)?);
        let count = more.saturating_sub(once) as f64 / f64::from(ROUNDS) / items;
        counts.insert(name.to_owned(), (count * 10.0).round() / 10.0);
    }
    Ok(counts)
}

/// Returns the instructions of a whole run.
fn collected(program: &Path, work: &str, rounds: u32) -> Result<u64> {
    let mut command = Command::new(find(VALGRIND.program)?);
    // The environment is on the stack, and shifts its content.
    command.env_clear().current_dir("/");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args([work, &rounds.to_string()]);
    let (said, ended) = run_within(&mut command, "counts", Duration::MAX);
    ended.map_err(|error| format!("{}: {error}\n{}", line(&command), said.trim_end()))?;
    read_collected(&said).ok_or_else(|| format!("valgrind does not say what it counted:\n{said}"))
}

/// Reads a line such as `==6549== Collected : 15515130`.
fn read_collected(said: &str) -> Option<u64> {
    let (_, number) = said.lines().find_map(|line| line.split_once(" Collected : "))?;
    number.split_whitespace().next()?.parse().ok()
}

/// Returns the value of a line in `rustc -vV`.
fn rustc(what: &str) -> Result<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    crate::nightly::line_of(&output(Command::new(rustc).arg("-vV"))?, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, f64)]) -> Counts {
        let instructions = of.iter().map(|(name, count)| ((*name).to_owned(), *count));
        Counts {
            rustc: "1.95.0".to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            instructions: instructions.collect(),
        }
    }

    #[test]
    fn the_file_reads_back() {
        let all = counts(&[("decode a route", 712.4), ("plan, nothing changed", 1001.0)]);
        assert_eq!(Counts::parse(&all.to_text().unwrap()), Ok(all));
        assert!(Counts::parse("rustc = 5").unwrap_err().contains(REWRITE));
    }

    #[test]
    fn what_takes_a_tenth_more_is_named_with_both_numbers_and_the_remedy() {
        let kept = counts(&[("decode", 712.4), ("diff", 20.0)]);
        let error = compare(&kept, &counts(&[("decode", 783.6), ("diff", 20.9)])).unwrap_err();
        for part in ["decode", "783.6", "712.4", "10.0 %", REWRITE] {
            assert!(error.contains(part), "{part} in {error}");
        }
        assert!(!error.contains("diff"), "{error}");
        assert_eq!(compare(&kept, &counts(&[("decode", 300.0), ("diff", 20.9)])), Ok(()));
    }

    #[test]
    fn the_list_of_works_and_the_file_agree() {
        let (one, two) = (counts(&[("a", 1.0)]), counts(&[("a", 1.0), ("b", 2.0)]));
        assert!(compare(&one, &two).unwrap_err().contains("b: not in"));
        assert!(compare(&two, &one).unwrap_err().contains("no such work"));
    }

    #[test]
    fn another_machine_is_not_compared_and_another_compiler_is_named() {
        let kept = counts(&[("a", 1.0)]);
        let mut now = counts(&[("a", 2.0)]);
        now.rustc = "1.99.0".to_owned();
        let error = compare(&kept, &now).unwrap_err();
        assert!(error.contains("1.95.0") && error.contains("1.99.0"), "{error}");
        now.host = "aarch64-unknown-linux-gnu".to_owned();
        assert_eq!(compare(&kept, &now), Ok(()));
    }

    #[test]
    fn what_valgrind_says_is_read() {
        let said = "==6549== Events    : Ir\n==6549== Collected : 15515130\n==6549== \n";
        assert_eq!(read_collected(said), Some(15_515_130));
        assert_eq!(read_collected("==6549== no such thing"), None);
    }
}

//! `cargo xtask mutants`: cargo-mutants makes small changes to the code, one at a time. For each, a
//! test must fail. A run takes a sample, another one each day, as all mutants take days.
//!
//! If no test notices a mutant, it needs an explanation in `xtask/mutants.toml`; otherwise it is an
//! error.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::plant::copy_tree;
use crate::tools::{Result, install, line, output, read, root};

const VERSION: &str = "27.1.0";
const EXPLAINED: &str = "xtask/mutants.toml";
/// The approximate number of mutants in each group's sample: together some 200.
const SAMPLE: usize = 18;
/// The exit codes of cargo-mutants after it has tried its mutants: all were caught, some were
/// missed, some ran into the timeout.
const TRIED: [i32; 3] = [0, 2, 3];

/// The tests of a whole agent, on the kernel and on its model.
const AGENT: [&str; 7] = ["--lib", "--test", "kernel", "--test", "scenarios", "--test", "simulate"];

/// Files to change, and the packages and tests that must notice, as arguments for cargo-mutants and
/// for cargo.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    files: &'static str,
    packages: &'static [&'static str],
    tests: &'static [&'static str],
}

const fn group(
    name: &'static str,
    files: &'static str,
    packages: &'static [&'static str],
    tests: &'static [&'static str],
) -> Group {
    Group { name, files, packages, tests }
}

pub(crate) const GROUPS: [Group; 12] = [
    group(
        "diff",
        "crates/core/diff/src/**",
        &["trueup-diff", "trueup-net"],
        &["--lib", "--test", "it"],
    ),
    group("net", "crates/kernel/net/src/**", &["trueup-net"], &["--lib", "--test", "it"]),
    group(
        "reconcile",
        "crates/core/reconcile/src/**",
        &["trueup-reconcile", "trueup-loop"],
        &["--lib", "--test", "it"],
    ),
    group(
        "loop",
        "crates/core/loop/src/**",
        &["trueup-loop"],
        &["--lib", "--test", "it", "--test", "model"],
    ),
    group(
        "queue",
        "crates/core/queue/src/**",
        &["trueup-queue"],
        &["--test", "it", "--test", "memory", "--test", "model"],
    ),
    group("graph", "crates/core/graph/src/**", &["trueup-graph"], &["--lib"]),
    group("control", "crates/core/control/src/**", &["trueup-control"], &["--lib", "--test", "it"]),
    group(
        "apply",
        "crates/kernel/apply/src/**",
        &["trueup-apply", "trueup-rtnl", "trueup-e2e"],
        &AGENT,
    ),
    group(
        "codecs",
        "crates/kernel/netlink/src/codec/**",
        &["trueup-netlink", "trueup-observe"],
        &["--lib", "--test", "it", "--test", "kernel"],
    ),
    group("ledger", "crates/kernel/rtnl/src/ownership/**", &["trueup-rtnl", "trueup-e2e"], &AGENT),
    group(
        "agent",
        "crates/agent/agent/src/**",
        &["trueup-agent", "trueup-e2e"],
        &["--lib", "--test", "it", "--test", "cli", "--test", "graph"],
    ),
    group(
        "model",
        "crates/test/testkit/src/model/**",
        &["trueup-testkit", "trueup-e2e"],
        &["--lib", "--test", "differential", "--test", "simulate"],
    ),
];

/// Runs a sample, by default today's, of all groups or of those named. Returns the results in one
/// line.
pub(crate) fn run(sample: Option<usize>, names: &[String]) -> Result<String> {
    let seed = sample.unwrap_or_else(today);
    let explained = Explained::read()?;
    let program = install("cargo-mutants", VERSION)?;
    // Change a copy in place, so that little is rebuilt.
    let tree = root().join("target/mutants/tree");
    copy_tree(&tree)?;
    let mut sum = Sum::default();
    for group in GROUPS {
        if !names.is_empty() && names.iter().all(|name| name != group.name) {
            continue;
        }
        let [mut list, mut run] = [(); 2].map(|()| {
            let mut command = std::process::Command::new(&program);
            command.arg("mutants").args(["--dir".as_ref(), tree.as_os_str()]);
            command.args(["--file", group.files]);
            // Skip flags, as disjoint bits give the same result with both operators; and output for
            // users.
            command.args(["--exclude-re", r"replace \| with \^ in"]);
            command.args(["--exclude-re", "impl (fmt::)?(Debug|Display) for"]);
            command
        });
        let all = output(list.arg("--list"))?.lines().count();
        let shards = (all / SAMPLE).max(1);
        let folder = root().join("target/mutants").join(group.name);
        run.args(["--in-place", "--baseline", "skip", "--timeout", "300"])
            .args(["--shard", &format!("{}/{shards}", seed % shards)])
            .args(["--sharding", "round-robin", "--no-shuffle"])
            .args(["--colors", "never", "--annotations", "none"])
            .arg("--output")
            .arg(&folder)
            .env("CARGO_TARGET_DIR", root().join("target/mutants/build"))
            // Never link the partial build of one mutant with another.
            .env("CARGO_INCREMENTAL", "0")
            .env("PROPTEST_RNG_SEED", "116");
        for package in group.packages {
            run.args(["--test-package", package]);
        }
        run.arg("--").args(group.tests);
        println!("$ {}", line(&run));
        let status = run.status().map_err(|e| format!("cargo-mutants: {e}"))?;
        if !status.code().is_some_and(|code| TRIED.contains(&code)) {
            return Err(format!("cargo-mutants: {status}"));
        }
        let [noticed, timeout, missed, unviable] = ["caught", "timeout", "missed", "unviable"]
            .map(|list| folder.join("mutants.out").join(list).with_extension("txt"))
            .map(|list| fs::read_to_string(list).unwrap_or_default())
            .map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let caught = noticed.len() + timeout.len();
        if caught + missed.len() == 0 {
            return Err(format!("no mutant of {} was built: see {}", group.name, folder.display()));
        }
        sum.all += all;
        sum.caught += caught;
        sum.unviable += unviable.len();
        for mutant in missed {
            match explained.reason(&mutant) {
                Some(reason) => {
                    println!("{mutant}: not noticed: {reason}");
                    sum.explained += 1;
                }
                None => sum.missed.push(mutant),
            }
        }
    }
    sum.verdict(seed)
}

/// Returns the number of the day since the epoch: each day has another sample.
fn today() -> usize {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO);
    (since.as_secs() / (24 * 60 * 60)) as usize
}

/// The results of a sample.
#[derive(Default)]
struct Sum {
    all: usize,
    caught: usize,
    unviable: usize,
    explained: usize,
    missed: Vec<String>,
}

impl Sum {
    fn verdict(self, seed: usize) -> Result<String> {
        let Sum { all, caught, unviable, explained, missed } = self;
        if !missed.is_empty() {
            return Err(format!(
                "no test notices, and {EXPLAINED} does not explain:\n  {}",
                missed.join("\n  ")
            ));
        }
        let tried = caught + explained + unviable;
        Ok(format!(
            "{tried} of {all} mutants, sample {seed}: {caught} noticed, {unviable} do not compile, {explained} explained"
        ))
    }
}

/// Mutants that no test can notice, each with the reason.
struct Explained(Vec<(String, String)>);

impl Explained {
    fn read() -> Result<Explained> {
        Explained::parse(&read(&root().join(EXPLAINED))?)
    }

    fn parse(text: &str) -> Result<Explained> {
        let table: toml::Table = toml::from_str(text).map_err(|e| format!("{EXPLAINED}: {e}"))?;
        let explained = table.into_iter().map(|(mutant, reason)| match reason.as_str() {
            None | Some("") => Err(format!("{EXPLAINED}: {mutant}: no reason")),
            Some(reason) => Ok((mutant, reason.to_owned())),
        });
        explained.collect::<Result<_>>().map(Explained)
    }

    /// Returns the reason for a mutant, such as `crates/a/src/b.rs:190:17: replace < with <= in c`.
    fn reason(&self, mutant: &str) -> Option<&str> {
        let mutant = without_place(mutant);
        let found = self.0.iter().find(|(explained, _)| *explained == mutant);
        found.map(|(_, reason)| &**reason)
    }
}

/// Returns a mutant's text without line and column, which other changes move.
fn without_place(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.nth(2)) {
        (Some(file), Some(change)) => format!("{file}:{change}"),
        _ => mutant.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_explained_wherever_it_moves() {
        let text = "\"crates/a/src/b.rs: replace < with <= in c\" = \"they are never equal\"\n";
        let explained = Explained::parse(text).unwrap();
        let moved = "crates/a/src/b.rs:191:3: replace < with <= in c";
        assert_eq!(explained.reason(moved), Some("they are never equal"));
        assert_eq!(explained.reason("crates/a/src/b.rs:191:3: replace < with == in c"), None);
        assert!(Explained::parse("\"a\" = \"\"").is_err());
    }

    #[test]
    fn the_list_of_explained_mutants_is_read() {
        Explained::read().unwrap();
    }

    #[test]
    fn a_mutant_that_no_test_notices_is_an_error() {
        let mut sum = Sum { all: 9, caught: 2, ..Sum::default() };
        sum.missed.push("crates/a/src/b.rs:1:1: x".to_owned());
        assert!(sum.verdict(1).unwrap_err().contains("b.rs"));
    }
}

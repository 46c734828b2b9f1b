//! `cargo xtask prove`: proofs that take too long for every change. It records the result of each
//! part of a step in `docs/proved.tsv`, and writes the table of `docs/safety.md` from it. All
//! results are of one commit. A run continues where the last one ended.

mod record;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::builder::PossibleValuesParser;

use self::record::Record;
use crate::programs::{self, Program};
use crate::steps::Steps;
use crate::tools::{self, QEMU, Result, need_for_tests, output, root, run_and_show};
use crate::{counts, deny, etcd, fuzz, mutants, package, plant, vm};

/// A step, selected by its name.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The description of the step for the table.
    what: &'static str,
    parts: Parts,
}

/// The parts of a step. Each is recorded by itself, so that a run that is cut off loses one part.
enum Parts {
    /// A single one.
    One(fn(&Built) -> Result<String>),
    Each {
        names: fn() -> Result<Vec<String>>,
        run: fn(&str) -> Result<String>,
        /// Sums up the results of all parts.
        sum: fn(&[&str]) -> String,
    },
}

const fn step(name: &'static str, what: &'static str, run: fn(&Built) -> Result<String>) -> Step {
    Step { name, what, parts: Parts::One(run) }
}

pub(crate) const STEPS: [Step; 16] = [
    step(
        "kill-points",
        "a kill at every point of a pass, instead of a sample of each class",
        |built| {
            built.run("e2e/crash", &[("TRUEUP_CRASH", "all")], |output| {
                let kills =
                    |line: &str| line.split_once(" kills")?.0.rsplit_once(' ')?.1.parse().ok();
                let matrix = output.lines().filter(|line| line.starts_with("crash matrix"));
                let kills: Vec<u64> = matrix.filter_map(kills).collect();
                format!("{} kills in {} matrices", kills.iter().sum::<u64>(), kills.len())
            })
        },
    ),
    step(
        "generators",
        "2,000 random desired states, and 2,000 of what another writer hangs on ours; 10,000 cases of each property",
        |built| {
            let judges = built.run("e2e/judges", &random("2000"), passed)?;
            let seed =
                (SystemTime::UNIX_EPOCH.elapsed()).map_or(0, |since| since.as_secs()).to_string();
            let cases = [("PROPTEST_CASES", "10000"), ("PROPTEST_RNG_SEED", &seed)];
            built.all(&["net/it", "file/it", "loop/it", "netlink/it", "queue/it"], &cases)?;
            Ok(format!("judges: {judges}; properties: seed {seed}"))
        },
    ),
    step(
        "long-runs",
        "storms, lossy dumps, damaged journals, all states of the loop, graphs of four vertices, each way to stop the control core at each step, an agent killed for five minutes, at full length; 500 cases of other writers; 10,000 schedules of the world",
        |built| {
            built.all(&["e2e/drift", "observe/kernel", "journal/journal", "loop"], &LONG)?;
            built.all(&["graph/states", "graph/it", "control/it", "e2e/graph"], &LONG)?;
            let writers = built.run("e2e/writers", &random("500"), passed)?;
            built.run("world/history", &random("10000"), passed)?;
            Ok(format!("at full length; writers: {writers}"))
        },
    ),
    step(
        "attacks",
        "another user who exchanges folders, links and files for ten minutes, against every path that is written, read or removed",
        |built| {
            let paths = built.run("path/attacks", &LONG, passed)?;
            let files = built.run("graph/it", &LONG, passed)?;
            Ok(format!("paths: {paths}; files: {files}"))
        },
    ),
    step(
        "operator",
        "a random operator for ten minutes: files edited in all ways, folders moved and mounted over, full disks, clocks that jump, signals, a removed state directory; after each burst the agent has to converge",
        |built| {
            let long = [("TRUEUP_LONG", "1"), ("TRUEUP_SEED", "random")];
            built.run("e2e/operator", &long, |it| lines_with(it, " bursts of "))
        },
    ),
    step(
        "service",
        "the unit of docs/examples under a real systemd, with files and commands",
        |_| vm::service::run(None),
    ),
    step(
        "simulation",
        "1,000,000 steps of the whole agent among other writers and faults",
        |built| {
            let steps = [("TRUEUP_STEPS", "1000000")];
            built.run("e2e/simulate", &steps, |output| lines_with(output, " steps in "))
        },
    ),
    step(
        "model",
        "2,000 random sequences of messages a domain, to the model and to the running kernel",
        |built| built.run("testkit/differential", &random("2000"), passed),
    ),
    step(
        "guests",
        "200 random desired states of five guests of QEMU, while the agent and guests are killed",
        |built| {
            tools::need(&[QEMU])?;
            built.run("guests/qemu", &random("200"), passed)
        },
    ),
    step(
        "etcd",
        "the whole contract of the world on one and three members of etcd; a million exports of one host; 200 random schedules of faults",
        |built| {
            etcd::need()?;
            let contract = built.run("etcd/contract", &LONG, passed)?;
            built.run("etcd/etcd", &LONG, passed)?;
            let schedules = built
                .run("etcd/schedules", &random("200"), |it| lines_with(it, " schedules in "))?;
            Ok(format!("contract: {contract}; {schedules}"))
        },
    ),
    step(
        "daemons",
        "`trueup watch` beside BIRD, FRR, keepalived, DHCP clients, router advertisements, systemd-networkd, NetworkManager, ifupdown2 and CNI",
        |built| {
            // Do not install any here: their services would then configure this machine.
            let ran = built.run("e2e/daemons", &[("TRUEUP_DAEMONS", "1")], |output| {
                let skipped = output
                    .lines()
                    .filter(|line| line.starts_with("skipped: "))
                    .map(|line| format!("; {line}"));
                format!("{}{}", passed(output), skipped.collect::<String>())
            })?;
            if ran.starts_with("0 tests") { Err(ran) } else { Ok(ran) }
        },
    ),
    Step {
        name: "plants",
        what: "faults planted on purpose, in a scratch copy",
        parts: Parts::Each { names: plant::parts, run: plant::run_part, sum: plant::sum },
    },
    Step {
        name: "mutants",
        what: "200 small changes to the code",
        parts: Parts::Each {
            names: || Ok(mutants::GROUPS.iter().map(|group| group.name.to_owned()).collect()),
            run: |group| mutants::run(Some(sample_number()?), &[group.to_owned()]),
            sum: |results| results.join("; "),
        },
    },
    Step {
        name: "kernels",
        what: "the kernel tests on Linux 6.1 and 6.12",
        parts: Parts::Each {
            names: || Ok(vm::SERIES.map(str::to_owned).into()),
            run: |kernel| vm::run(&vm::Options::of(kernel)),
            sum: |results| results.join("; "),
        },
    },
    Step {
        name: BESIDE,
        what: "an hour of fuzzing, spread over the targets",
        parts: Parts::Each {
            names: fuzz::targets,
            run: |target| fuzz::run(&fuzz::Options::share_of(FUZZED, target)?),
            sum: fuzz::sum,
        },
    },
    step(
        "crates",
        "licences; instructions counted; each public crate alone, packaged, and used from outside",
        |_| {
            deny::run()?;
            counts::run(false)?;
            package::run()?;
            Ok("as published".to_owned())
        },
    ),
];

/// The step that runs beside the others: it needs one processor, and shares no files with them.
const BESIDE: &str = "fuzz";

/// The time of all fuzz targets together, in seconds.
const FUZZED: u64 = 3_600;

/// The variable for a test's full length.
const LONG: [(&str, &str); 1] = [("TRUEUP_LONG", "1")];

/// Returns the variables that make a generator draw this number of cases, at random.
const fn random(cases: &str) -> [(&str, &str); 2] {
    [("TRUEUP_CASES", cases), ("TRUEUP_SEED", "random")]
}

/// Returns the names of all steps.
pub(crate) fn names() -> [&'static str; STEPS.len()] {
    STEPS.map(|step| step.name)
}

/// The selection of steps to run.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// The steps to run; all by default
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    steps: Vec<String>,
    /// Leave out a step
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(names()))]
    without: Vec<String>,
    /// Discard the results of another commit. Without it, they are kept, and nothing is run
    #[arg(long)]
    anew: bool,
    /// Begin no further part after this many minutes
    #[arg(long, value_name = "MINUTES")]
    within: Option<u64>,
}

/// Runs the selected steps, except the parts that have succeeded on this commit.
pub(crate) fn run(options: &Options) -> Result<()> {
    need_for_tests()?;
    let record = Record::open(&code_commit()?, options.anew)?;
    let proof = Proof {
        built: Built::default(),
        record: Mutex::new(record),
        end: options.within.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes)),
    };
    let steps = Steps::default();
    thread::scope(|scope| {
        let (beside, others): (Vec<&Step>, Vec<&Step>) =
            chosen(options).partition(|step| step.name == BESIDE);
        for step in beside {
            scope.spawn(|| proof.run(step, &steps));
        }
        for step in others {
            proof.run(step, &steps);
        }
    });
    steps.end()
}

/// A run of several steps.
struct Proof {
    built: Built,
    record: Mutex<Record>,
    /// No part begins after this.
    end: Option<Instant>,
}

impl Proof {
    /// Runs the parts of a step that are left, and records each.
    fn run(&self, step: &Step, steps: &Steps) {
        let names = match step.names() {
            Ok(names) => names,
            Err(error) => return steps.fail(step.name, error),
        };
        let left = names.iter().filter(|part| !self.record().is_shown(step.name, part));
        let mut unbegun = 0;
        for part in left.collect::<Vec<_>>() {
            if self.end.is_some_and(|end| Instant::now() >= end) {
                unbegun += 1;
                continue;
            }
            steps.run(&format!("{} {part}", step.name), || {
                let begun = Instant::now();
                let ended = step.run(part, &self.built);
                // Write after each part, so that a later failure loses nothing.
                self.record().add(step.name, part, &ended, begun.elapsed())?;
                ended
            });
        }
        if unbegun > 0 {
            steps.fail(step.name, format!("parts left, as the time is over: {unbegun}"));
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Step {
    /// Returns the names of the parts.
    fn names(&self) -> Result<Vec<String>> {
        match self.parts {
            Parts::One(_) => Ok(vec!["whole".to_owned()]),
            Parts::Each { names, .. } => names(),
        }
    }

    fn run(&self, part: &str, built: &Built) -> Result<String> {
        match self.parts {
            Parts::One(run) => run(built),
            Parts::Each { run, .. } => run(part),
        }
    }

    /// Sums up the results of all parts.
    fn sum(&self, results: &[&str]) -> String {
        match self.parts {
            Parts::One(_) => results.join("; "),
            Parts::Each { sum, .. } => sum(results),
        }
    }
}

/// Returns the last commit that changed more than pages, on which a proof rests. Fails if anything
/// else is changed and not committed.
fn code_commit() -> Result<String> {
    let [name, changed] =
        [&["log", "-1", "--format=%h", "--abbrev=10"][..], &["status", "--porcelain"]].map(
            |words| {
                let mut git = Command::new("git");
                output(git.args(words).args(["--", "."]).args(PAGES).current_dir(root()))
            },
        );
    match changed?.trim() {
        "" => Ok(name?.trim().to_owned()),
        changed => Err(format!("commit first, as a result needs a commit:\n{changed}")),
    }
}

/// The files that no proof depends on.
const PAGES: [&str; 4] = [":!docs/*.md", ":!docs/*.svg", ":!CHANGELOG.md", ":!docs/proved.tsv"];

/// Returns the number of the mutants' sample: each commit has another one.
fn sample_number() -> Result<usize> {
    let commit = code_commit()?;
    let digits = commit.get(..7).unwrap_or(&commit);
    usize::from_str_radix(digits, 16).map_err(|error| format!("{commit}: {error}"))
}

/// Returns the selected steps, in their order.
fn chosen(options: &Options) -> impl Iterator<Item = &'static Step> {
    let Options { steps, without, .. } = options;
    STEPS.iter().filter(move |step| {
        let [is_named, is_left_out] =
            [steps, without].map(|all| all.iter().any(|name| name == step.name));
        (steps.is_empty() || is_named) && !is_left_out
    })
}

/// The test programs, built once, by the first step that needs them.
#[derive(Default)]
struct Built(OnceLock<Result<Vec<Program>>>);

impl Built {
    /// Runs a program's tests. Returns the facts that `tell` finds in its output.
    fn run(
        &self,
        name: &str,
        variables: &[(&str, &str)],
        tell: fn(&str) -> String,
    ) -> Result<String> {
        let programs = self.0.get_or_init(|| programs::build(&[])).as_ref();
        let mut command = programs::test(programs.map_err(String::clone)?, name)?.command();
        command.arg("--color=never").envs(variables.iter().copied());
        let (output, ended) = run_and_show(&mut command);
        ended.map(|()| tell(&output))
    }

    /// Runs the tests of several programs.
    fn all(&self, names: &[&str], variables: &[(&str, &str)]) -> Result<()> {
        names.iter().try_for_each(|name| self.run(name, variables, passed).map(drop))
    }
}

/// Returns the lines of an output that contain these words.
fn lines_with(output: &str, words: &str) -> String {
    output.lines().filter(|line| line.contains(words)).collect::<Vec<_>>().join("; ")
}

/// Returns the count of passed tests.
fn passed(output: &str) -> String {
    let mut count = programs::Count::default();
    count.add_all(output);
    format!("{} tests passed", count.passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_or_left_out() {
        let [fuzz, plants, kernels] = ["fuzz", "plants", "kernels"].map(str::to_owned);
        assert_eq!(chosen(&Options::default()).count(), STEPS.len());
        let named = Options { steps: vec![fuzz, plants], ..Options::default() };
        let names: Vec<&str> = chosen(&named).map(|step| step.name).collect();
        assert_eq!(names, ["plants", "fuzz"]);
        let others = Options { without: vec![kernels], ..Options::default() };
        assert_eq!(chosen(&others).count(), STEPS.len() - 1);
    }
}

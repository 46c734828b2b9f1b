//! `cargo xtask prove`: proofs that take too long for every change. It writes the results into the
//! table of `docs/safety.md`.

mod table;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use crate::programs::{self, Program};
use crate::steps::Steps;
use crate::tools::{self, QEMU, Result, need_ip, run_and_show};
use crate::{counts, deny, etcd, fuzz, mutants, package, plant, vm};

/// A step, selected by its name.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// The description of the step for the table.
    what: &'static str,
    run: fn(&Built) -> Result<String>,
}

const fn step(name: &'static str, what: &'static str, run: fn(&Built) -> Result<String>) -> Step {
    Step { name, what, run }
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
        "storms, lossy dumps, damaged journals, all states of the loop, graphs of four vertices, an agent killed for five minutes, at full length; 500 cases of other writers; 10,000 schedules of the world",
        |built| {
            built.all(&["e2e/drift", "observe/kernel", "journal/journal", "loop"], &LONG)?;
            built.all(&["graph/states", "graph/it", "e2e/graph"], &LONG)?;
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
    step("plants", "faults planted on purpose, in a scratch copy", |_| plant::run(&[])),
    step("mutants", "a sample of small changes to the code, another one each day", |_| {
        mutants::run(None, &[])
    }),
    step("kernels", "the kernel tests on Linux 6.1 and 6.12", |_| vm::run(&vm::Options::default())),
    step("fuzz", "an hour of fuzzing, spread over the targets", |_| {
        fuzz::run(&fuzz::Options { total: Some(3_600), ..fuzz::Options::default() })
    }),
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

/// Runs all steps, or those named, except those left out.
pub(crate) fn run(named: &[String], without: &[String]) -> Result<()> {
    need_ip()?;
    let built = Built::default();
    let (steps, alone) = (Steps::default(), Mutex::new(()));
    thread::scope(|scope| {
        let (beside, others): (Vec<&Step>, Vec<&Step>) =
            chosen(named, without).partition(|step| step.name == BESIDE);
        for step in beside {
            scope.spawn(|| steps.run(step.name, || step.run_and_write(&built, &alone)));
        }
        for step in others {
            steps.run(step.name, || step.run_and_write(&built, &alone));
        }
    });
    steps.end()
}

impl Step {
    /// Runs the step, and writes its row of the table, one step at a time.
    fn run_and_write(&self, built: &Built, alone: &Mutex<()>) -> Result<String> {
        let begun = Instant::now();
        let ended = (self.run)(built);
        let result = match &ended {
            Ok(summary) => format!("ok: {summary}"),
            Err(error) => format!("FAILED: {error}"),
        };
        let row = table::Row::new(self.name, self.what, &result, begun.elapsed());
        // Write after each step, so that a later failure loses nothing.
        let _alone = alone.lock().unwrap_or_else(PoisonError::into_inner);
        table::write(&[row])?;
        ended
    }
}

/// Returns the selected steps, in their order.
fn chosen<'a>(
    named: &'a [String],
    without: &'a [String],
) -> impl Iterator<Item = &'static Step> + 'a {
    STEPS.iter().filter(move |step| {
        let [is_named, is_left_out] =
            [named, without].map(|all| all.iter().any(|name| name == step.name));
        (named.is_empty() || is_named) && !is_left_out
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
        assert_eq!(chosen(&[], &[]).count(), STEPS.len());
        let named = [fuzz, plants];
        let names: Vec<&str> = chosen(&named, &[]).map(|step| step.name).collect();
        assert_eq!(names, ["plants", "fuzz"]);
        assert_eq!(chosen(&[], &[kernels]).count(), STEPS.len() - 1);
    }
}

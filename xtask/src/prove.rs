//! `cargo xtask prove`: what takes longer than a change should wait for. It writes what came of it
//! into the table of `docs/safety.md`.

mod table;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Instant, SystemTime};

use crate::programs::{self, Program};
use crate::steps::Steps;
use crate::tools::{self, QEMU, Result, need_ip, run_and_show};
use crate::{counts, deny, etcd, fuzz, mutants, package, plant, vm};

/// A step, by the name that selects it.
struct Step {
    name: &'static str,
    /// What it does, for the table.
    what: &'static str,
    run: fn(&Built) -> Result<String>,
}

const STEPS: [Step; 16] = [
    Step {
        name: "kill-points",
        what: "a kill at every point of a pass, instead of a sample of each class",
        run: |built| {
            built.run("e2e/crash", &[("TRUEUP_CRASH", "all")], |output| {
                let kills =
                    |line: &str| line.split_once(" kills")?.0.rsplit_once(' ')?.1.parse().ok();
                let matrix = output.lines().filter(|line| line.starts_with("crash matrix"));
                let (matrices, kills) = matrix
                    .filter_map(kills)
                    .fold((0, 0), |sum, kills: u64| (sum.0 + 1, sum.1 + kills));
                format!("{kills} kills in {matrices} matrices")
            })
        },
    },
    Step {
        name: "generators",
        what: "2,000 random desired states, and 2,000 of what another writer hangs on ours; 10,000 cases of each property",
        run: |built| {
            let judges = built.run("e2e/judges", &RANDOM, passed)?;
            let seed = (SystemTime::UNIX_EPOCH.elapsed()).map_or(0, |since| since.as_secs());
            let seed = seed.to_string();
            let cases = [("PROPTEST_CASES", "10000"), ("PROPTEST_RNG_SEED", &seed)];
            for program in ["net/it", "file/it", "loop/it", "netlink/it", "queue/it"] {
                built.run(program, &cases, passed)?;
            }
            Ok(format!("judges: {judges}; properties: seed {seed}"))
        },
    },
    Step {
        name: "long-runs",
        what: "storms, lossy dumps, damaged journals, all states of the loop, graphs of four vertices, an agent killed for five minutes, at full length; 500 cases of other writers; 10,000 schedules of the world",
        run: |built| {
            for program in [
                "e2e/drift",
                "observe/kernel",
                "journal/journal",
                "loop",
                "graph/states",
                "graph/it",
                "e2e/graph",
            ] {
                built.run(program, &[("TRUEUP_LONG", "1")], passed)?;
            }
            let cases = [("TRUEUP_CASES", "500"), ("TRUEUP_SEED", "random")];
            let writers = built.run("e2e/writers", &cases, passed)?;
            let cases = [("TRUEUP_CASES", "10000"), ("TRUEUP_SEED", "random")];
            built.run("world/history", &cases, passed)?;
            Ok(format!("at full length; writers: {writers}"))
        },
    },
    Step {
        name: "attacks",
        what: "another user who exchanges folders, links and files for ten minutes, against every path that is written, read or removed",
        run: |built| {
            let paths = built.run("path/attacks", &[("TRUEUP_LONG", "1")], passed)?;
            let files = built.run("graph/it", &[("TRUEUP_LONG", "1")], passed)?;
            Ok(format!("paths: {paths}; files: {files}"))
        },
    },
    Step {
        name: "operator",
        what: "a random operator for ten minutes: files edited in all ways, folders moved and mounted over, full disks, clocks that jump, signals, a removed state directory; after each burst the agent has to converge",
        run: |built| {
            let long = [("TRUEUP_LONG", "1"), ("TRUEUP_SEED", "random")];
            built.run("e2e/operator", &long, |output| {
                let sums = output.lines().filter(|line| line.contains(" bursts of "));
                sums.collect::<Vec<_>>().join("; ")
            })
        },
    },
    Step {
        name: "service",
        what: "the unit of docs/examples under a real systemd, with files and commands",
        run: |_| vm::service::run(&[]),
    },
    Step {
        name: "simulation",
        what: "1,000,000 steps of the whole agent among other writers and faults",
        run: |built| {
            built.run("e2e/simulate", &[("TRUEUP_STEPS", "1000000")], |output| {
                let line = output.lines().find(|line| line.contains(" steps in "));
                line.unwrap_or("no count of steps").to_owned()
            })
        },
    },
    Step {
        name: "model",
        what: "2,000 random sequences of messages a domain, to the model and to the running kernel",
        run: |built| built.run("testkit/differential", &RANDOM, passed),
    },
    Step {
        name: "guests",
        what: "200 random desired states of five guests of QEMU, while the agent and guests are killed",
        run: |built| {
            tools::need(&[QEMU])?;
            let cases = [("TRUEUP_CASES", "200"), ("TRUEUP_SEED", "random")];
            built.run("guests/qemu", &cases, passed)
        },
    },
    Step {
        name: "etcd",
        what: "the whole contract of the world on one and three members of etcd; a million exports of one host; 200 random schedules of faults",
        run: |built| {
            etcd::need()?;
            let contract = built.run("etcd/contract", &[("TRUEUP_LONG", "1")], passed)?;
            built.run("etcd/etcd", &[("TRUEUP_LONG", "1")], passed)?;
            let cases = [("TRUEUP_CASES", "200"), ("TRUEUP_SEED", "random")];
            let sum = |output: &str| {
                let line = output.lines().find(|line| line.contains(" schedules in "));
                line.unwrap_or("no count of schedules").to_owned()
            };
            let schedules = built.run("etcd/schedules", &cases, sum)?;
            Ok(format!("contract: {contract}; {schedules}"))
        },
    },
    Step {
        name: "daemons",
        what: "`trueup watch` beside BIRD, FRR, keepalived, DHCP clients, router advertisements, systemd-networkd, NetworkManager, ifupdown2 and CNI",
        run: |built| {
            // None is installed here: its service would then configure this machine.
            let ran = built.run("e2e/daemons", &[("TRUEUP_DAEMONS", "1")], |output| {
                let skipped = output.lines().filter(|line| line.starts_with("skipped: "));
                let skipped = skipped.map(|line| format!("; {line}"));
                format!("{}{}", passed(output), skipped.collect::<String>())
            })?;
            match ran.starts_with("0 tests") {
                true => Err(ran),
                false => Ok(ran),
            }
        },
    },
    Step {
        name: "plants",
        what: "faults planted on purpose, in a scratch copy",
        run: |_| plant::run(&[]),
    },
    Step {
        name: "mutants",
        what: "a sample of small changes to the code, another one each day",
        run: |_| mutants::run(&[]),
    },
    Step { name: "kernels", what: "the kernel tests on Linux 6.1 and 6.12", run: |_| vm::run(&[]) },
    Step {
        name: "fuzz",
        what: "an hour of fuzzing, spread over the targets",
        run: |_| fuzz::run(&["--total", "3600"]),
    },
    Step {
        name: "crates",
        what: "licences; instructions counted; each public crate alone, packaged, and used from outside",
        run: |_| {
            deny::run()?;
            counts::run(&[])?;
            package::run()?;
            Ok("as published".to_owned())
        },
    },
];

/// The step that runs beside the others: it needs one processor, and no file of theirs.
const BESIDE: &str = "fuzz";

/// What makes a generator draw other cases than the test command, and more.
const RANDOM: [(&str, &str); 2] = [("TRUEUP_CASES", "2000"), ("TRUEUP_SEED", "random")];

/// Runs all steps, or those named; `--without STEP` leaves one out.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    let chosen = chosen(options)?;
    need_ip()?;
    let built = Built::default();
    let (steps, rows) = (Steps::default(), Mutex::new(Vec::new()));
    let run_one = |step: &Step| {
        steps.run(step.name, || {
            let begun = Instant::now();
            let ended = (step.run)(&built);
            let result = match &ended {
                Ok(summary) => format!("ok: {summary}"),
                Err(error) => format!("FAILED: {error}"),
            };
            let row = table::Row::new(step.name, step.what, &result, begun.elapsed());
            let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.push(row);
            // After each step: what was found out is kept, whatever comes.
            table::write(&rows)?;
            ended
        });
    };
    thread::scope(|scope| {
        let (beside, others): (Vec<&Step>, Vec<&Step>) =
            chosen.into_iter().partition(|step| step.name == BESIDE);
        for step in beside {
            scope.spawn(|| run_one(step));
        }
        others.into_iter().for_each(run_one);
    });
    steps.end()
}

/// The steps that the options ask for.
fn chosen(options: &[&str]) -> Result<Vec<&'static Step>> {
    let find = |name: &str| {
        let known = || STEPS.map(|step| step.name).join(", ");
        let found = STEPS.iter().find(|step| step.name == name);
        found.ok_or_else(|| format!("no step {name:?}: there are {}", known()))
    };
    let (mut named, mut without) = (Vec::new(), Vec::new());
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--without" => {
                let name = options.next().ok_or("--without takes a step")?;
                without.push(find(name)?.name);
            }
            name => named.push(find(name)?.name),
        }
    }
    let is_chosen = |step: &&Step| {
        (named.is_empty() || named.contains(&step.name)) && !without.contains(&step.name)
    };
    Ok(STEPS.iter().filter(is_chosen).collect())
}

/// The test programs, built once, by the first step that needs them.
#[derive(Default)]
struct Built(OnceLock<Result<Vec<Program>>>);

impl Built {
    /// Runs the tests of a program. Returns what its output tells.
    fn run(
        &self,
        name: &str,
        variables: &[(&str, &str)],
        tell: fn(&str) -> String,
    ) -> Result<String> {
        let programs =
            (self.0).get_or_init(|| programs::build(&[])).as_ref().map_err(String::clone)?;
        let program = programs
            .iter()
            .find(|program| program.is_test && program.name == name)
            .ok_or_else(|| format!("{name} was not built"))?;
        let mut command = program.command();
        command.arg("--color=never").envs(variables.iter().copied());
        let (output, ended) = run_and_show(&mut command);
        ended.map(|()| tell(&output))
    }
}

/// The count of tests that passed.
fn passed(output: &str) -> String {
    let mut count = programs::Count::default();
    output.lines().for_each(|line| count.add(line));
    format!("{} tests passed", count.passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_or_left_out() {
        let names = |options: &[&str]| {
            let steps = chosen(options)?;
            Ok::<_, String>(steps.iter().map(|step| step.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), STEPS.len());
        assert_eq!(names(&["fuzz", "plants"]).unwrap(), ["plants", "fuzz"]);
        let without = names(&["--without", "kernels"]).unwrap();
        assert_eq!(without.len(), STEPS.len() - 1);
        for wrong in [&["fuz"][..], &["--without"], &["--without", "x"]] {
            assert!(names(wrong).is_err(), "{wrong:?}");
        }
    }
}

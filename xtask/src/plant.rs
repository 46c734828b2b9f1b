//! `cargo xtask plant`: breaks each invariant on purpose in a scratch copy, one line at a time, and
//! checks that the scenarios notice and name it, and the simulation finds it by itself. A suite
//! that passes with a planted fault proves nothing.
//!
//! The faults are patches under `crates/test/e2e/plants/`, named after the invariant's number:
//! `3-*.patch` breaks the third. If the model kernel cannot bring a fault about, the patch begins
//! with a line that says why. If no scenario runs the crate, the patch begins with a line with the
//! test program that must notice, and is named after the crate: `queue-*.patch`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::programs::{self, Program};
use crate::tools::{
    Result, at, entries, files, joined, need_ip, output, read, root, run_within, write,
};

const PLANTS: &str = "crates/test/e2e/plants";
/// The beginning of a patch whose fault only scenarios can show; the reason follows.
const SCENARIOS_ALONE: &str = "For the scenarios alone: ";
/// The beginning of a patch whose fault a test program must notice; its name follows. A library's
/// own tests have the crate's name: `graph`.
const PROGRAM: &str = "For the test program ";
const INVARIANTS: u32 = 9;
/// The two programs built from a copy.
const SCENARIOS: &str = "e2e/scenarios";
const SIMULATION: &str = "e2e/simulate";
const TARGETS: [&str; 4] = ["--test", "scenarios", "--test", "simulate"];
/// The number of steps in which the simulation must find a fault.
const STEPS: &str = "3000000";
/// The time limits of the two: with a fault a pass may never end. Without one the scenarios take
/// half a minute.
const SCENARIOS_END: Duration = Duration::from_secs(10 * 60);
const SIMULATION_ENDS: Duration = Duration::from_secs(15 * 60);
/// The time limit of a test program. Without a fault it takes seconds.
const PROGRAM_ENDS: Duration = Duration::from_secs(5 * 60);
/// The time limit of a scenario in seconds.
const SCENARIO_SECONDS: &str = "45";

/// A fault to plant, from a patch.
struct Plant {
    patch: PathBuf,
    name: String,
    text: String,
    /// The number of the invariant that it breaks, or the name of a crate.
    breaks: String,
}

impl Plant {
    /// Returns the test program that must notice it, such as `queue/model` or `graph`. If `None`,
    /// the scenarios must notice and name the invariant, and the simulation must find it.
    fn program(&self) -> Option<&str> {
        self.text.strip_prefix(PROGRAM)?.split([':', '\n']).next()
    }

    /// Applies the patch to the tree while `act` runs. Fails if the tree is not as before; if the
    /// patch does not apply or `act` fails, this is the result.
    fn planted<T>(&self, tree: &Path, act: impl FnOnce() -> Result<T>) -> Result<Result<T>> {
        if let Err(error) = git_apply(tree, &self.patch, &[]) {
            return Ok(Err(error));
        }
        let done = act();
        git_apply(tree, &self.patch, &["--reverse"])?;
        Ok(done)
    }
}

/// Plants all faults, or only those of the named invariants and crates, and those that are named
/// themselves. Returns the results in one line.
pub(crate) fn run(only: &[String]) -> Result<String> {
    let mut all = plants()?;
    all.retain(|plant| {
        only.is_empty() || only.contains(&plant.breaks) || only.contains(&plant.name)
    });
    let (of_programs, of_invariants): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|plant| plant.program().is_some());
    let tree = root().join("target/plant/tree");
    copy_tree(&tree)?;
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    for (plants, run) in [(of_programs, run_programs as Run), (of_invariants, run_scenarios)] {
        if plants.is_empty() {
            continue;
        }
        match run(&tree, &plants) {
            Ok(line) => results.push(line),
            Err(error) => errors.push(error),
        }
    }
    joined(&errors)?;
    Ok(results.join("; "))
}

type Run = fn(&Path, &[Plant]) -> Result<String>;

/// Builds a test program, and returns true if it passes.
fn passes(tree: &Path, program: &str) -> Result<bool> {
    let package = format!("trueup-{program}");
    let target = program.split_once('/').map(|(_, target)| ["--test", target]);
    let built = match &target {
        Some(target) => build(tree, target)?,
        None => build(tree, &["-p", &package, "--lib"])?,
    };
    Ok(run_one(&built, program, PROGRAM_ENDS)?.1.is_ok())
}

/// Plants the faults that test programs must notice.
fn run_programs(tree: &Path, plants: &[Plant]) -> Result<String> {
    let mut of_programs = BTreeMap::<_, Vec<_>>::new();
    for plant in plants {
        of_programs.entry(plant.program().unwrap_or_default()).or_default().push(plant);
    }
    let mut missed = Vec::new();
    for (program, plants) in of_programs {
        if !passes(tree, program)? {
            println!("{program}:\n  FAILS without any fault");
            missed.push(format!("{program} fails without any fault"));
            continue;
        }
        for plant in plants {
            let name = &plant.name;
            match plant.planted(tree, || passes(tree, program))? {
                Ok(false) => println!("{name}:\n  noticed by {program}"),
                Ok(true) => {
                    println!("{name}:\n  NOT NOTICED by {program}");
                    missed.push(format!("{program} does not notice the fault {name}"));
                }
                Err(error) => {
                    println!("{name}:\n  NOT PLANTED: {error}");
                    missed.push(format!("{name}: {error}"));
                }
            }
        }
    }
    joined(&missed)?;
    Ok(format!("{} faults, each noticed by its test program", plants.len()))
}

/// Plants the faults that scenarios must notice.
fn run_scenarios(tree: &Path, plants: &[Plant]) -> Result<String> {
    need_ip()?;
    println!("without a fault:");
    let sound = try_out(tree, false)?;
    if !sound.scenarios.is_empty() || sound.steps.is_some() {
        return Err(format!("a test fails without any fault: {sound:?}"));
    }
    println!("  all scenarios pass, and the simulation finds nothing");
    let (mut missed, mut steps, mut of_scenarios_alone) = (Vec::new(), Vec::new(), 0);
    for plant in plants {
        let name = &plant.name;
        println!("{name}:");
        let scenarios_alone = plant.text.starts_with(SCENARIOS_ALONE);
        let noticed = match plant.planted(tree, || try_out(tree, scenarios_alone))? {
            Ok(noticed) => noticed,
            Err(error) => {
                println!("  NOT PLANTED: {error}");
                missed.push(format!("{name}: {error}"));
                continue;
            }
        };
        noticed.scenarios.iter().for_each(|test| println!("  {test}"));
        let number = plant.breaks.parse().unwrap_or_default();
        if noticed.scenarios.is_empty() || !noticed.named.contains(&number) {
            println!("  NOT NOTICED by a scenario");
            missed.push(format!("no scenario names the fault {name}"));
        }
        match noticed.steps {
            Some(found) => {
                println!("  found by the simulation after {found} steps");
                steps.push(found);
            }
            None if scenarios_alone => {
                println!("  {}", plant.text.lines().next().unwrap_or_default());
                of_scenarios_alone += 1;
            }
            None => {
                println!("  NOT FOUND by the simulation");
                missed.push(format!("the simulation does not find the fault {name}"));
            }
        }
    }
    joined(&missed)?;
    let (least, most) = (steps.iter().min().unwrap_or(&0), steps.iter().max().unwrap_or(&0));
    let found = steps.len();
    Ok(format!(
        "{} faults, each named by a scenario; the simulation finds {found} of them after {least} to {most} steps, \
         and {of_scenarios_alone} cannot come about in it",
        found + of_scenarios_alone,
    ))
}

/// Returns the faults by their invariants, each of which must have one, then those of crates.
fn plants() -> Result<Vec<Plant>> {
    let mut plants = Vec::new();
    for patch in entries(&root().join(PLANTS))? {
        let name = patch.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let breaks = name.split_once('-').unwrap_or_default().0.to_owned();
        let plant = Plant { text: read(&patch)?, patch, name, breaks };
        if plant.program().is_none() && plant.breaks.parse::<u32>().is_err() {
            return Err(format!("{}: want NUMBER-WORDS.patch", plant.patch.display()));
        }
        plants.push(plant);
    }
    match (1..=INVARIANTS).find(|n| plants.iter().all(|it| it.breaks != n.to_string())) {
        Some(n) => Err(format!("{PLANTS} has no fault for invariant {n}")),
        None => Ok(plants),
    }
}

/// Updates a copy of the tree with all files that git would take. Equal files stay untouched, so
/// little is rebuilt; files that are gone are deleted.
pub(crate) fn copy_tree(tree: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut kept = BTreeSet::new();
    for file in output(list.current_dir(root()))?.split('\0') {
        let (from, to) = (root().join(file), tree.join(file));
        // The file was deleted, and that is not committed yet.
        if !from.is_file() {
            continue;
        }
        let bytes = at(&from, fs::read(&from))?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            at(&to, fs::create_dir_all(to.parent().unwrap_or(tree)))?;
            write(&to, bytes)?;
        }
        kept.insert(to);
    }
    let gone = files(tree)?.into_iter().filter(|file| !kept.contains(file));
    gone.into_iter().try_for_each(|file| at(&file, fs::remove_file(&file)))
}

fn git_apply(tree: &Path, patch: &Path, more: &[&str]) -> Result<()> {
    // The copy is inside the repository's directory, but no repository itself: this is where git
    // stops its search.
    let ceiling = tree.parent().unwrap_or(tree);
    let mut git = Command::new("git");
    git.arg("apply").args(more).arg(patch).current_dir(tree);
    output(git.env("GIT_CEILING_DIRECTORIES", ceiling))
        .map(drop)
        .map_err(|error| format!("{} does not apply any more: {error}", patch.display()))
}

/// The results with a planted fault.
#[derive(Debug, Default)]
struct Noticed {
    /// The failed scenarios.
    scenarios: Vec<String>,
    /// The invariants named in their failures.
    named: BTreeSet<u32>,
    /// The number of steps until the simulation failed; `None` if it passed.
    steps: Option<u64>,
}

/// Builds test programs from a tree.
fn build(tree: &Path, targets: &[&str]) -> Result<Vec<Program>> {
    let target = root().join("target/plant/build");
    programs::build_in(tree, Some(&target), targets)
}

/// Runs a test program from a tree.
fn run_one(built: &[Program], name: &str, bound: Duration) -> Result<(String, Result<()>)> {
    let mut command = programs::test(built, name)?.command();
    // Failures are only counted, so do not shrink them.
    command.arg("--color=never").env("TRUEUP_STEPS", STEPS).env("TRUEUP_SHRINK", "0");
    command.env("TRUEUP_SCENARIO_SECONDS", SCENARIO_SECONDS);
    Ok(run_within(&mut command, &format!("plant-{name}"), bound))
}

/// Builds the two programs from a tree, and runs them; if the simulation cannot show the fault,
/// only the scenarios.
fn try_out(tree: &Path, scenarios_alone: bool) -> Result<Noticed> {
    let built = build(tree, &TARGETS)?;
    // Scenarios mostly wait for the kernel.
    let (scenarios, simulation) = thread::scope(|scope| {
        let beside = (!scenarios_alone)
            .then(|| scope.spawn(|| run_one(&built, SIMULATION, SIMULATION_ENDS)));
        let scenarios = run_one(&built, SCENARIOS, SCENARIOS_END)?;
        let simulation = beside
            .map(|it| it.join().map_err(|_| "the simulation's thread panicked")?)
            .transpose()?;
        Ok::<_, String>((scenarios, simulation))
    })?;
    let mut noticed = Noticed::read(&scenarios.0);
    if !scenarios.0.contains("test result: ") {
        // They were killed, so no scenario has a name.
        println!("  the scenarios did not end");
    }
    noticed.steps = simulation.filter(|(_, ended)| ended.is_err()).and_then(|(it, _)| steps(&it));
    Ok(noticed)
}

impl Noticed {
    /// Reads the failed scenarios in the output.
    fn read(output: &str) -> Noticed {
        Noticed {
            scenarios: output
                .lines()
                .filter_map(|line| line.strip_prefix("test ")?.strip_suffix("FAILED"))
                .map(|name| name.trim_end_matches([' ', '.']).to_owned())
                .collect(),
            named: (1..=INVARIANTS)
                .filter(|number| output.contains(&format!("invariant {number}")))
                .collect(),
            steps: None,
        }
    }
}

/// Reads the number of steps that the simulation made: `after 512 steps`.
fn steps(output: &str) -> Option<u64> {
    output.lines().find_map(|line| {
        let (before, _) = line.split_once(" steps")?;
        before.rsplit_once("after ")?.1.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_two_programs_say_is_read() {
        let noticed = Noticed::read(
            "test kernel::dump/x ... FAILED\ntest kernel::dump/y ... ok\ninvariant 6 broken\n",
        );
        assert_eq!(noticed.scenarios, ["kernel::dump/x"]);
        assert_eq!(noticed.named, [6].into());
        assert_eq!(steps("invariant 6: x\nafter 512 steps, seed 3\n"), Some(512));
        assert_eq!(steps("10000 steps in 2 s"), None);
    }

    #[test]
    fn every_fault_can_still_be_planted_and_its_program_is_there() {
        for plant in plants().unwrap() {
            git_apply(&root(), &plant.patch, &["--check"]).unwrap();
            let Some(program) = plant.program() else {
                continue;
            };
            let (package, target) = program.split_once('/').unwrap_or((program, ""));
            let sources = entries(&root().join("crates"))
                .unwrap()
                .into_iter()
                .map(|floor| floor.join(package))
                .find(|folder| folder.is_dir())
                .unwrap_or_else(|| panic!("{}: no crate {package}", plant.name));
            let tests = sources.join("tests");
            let is_there = target.is_empty()
                || tests.join(target).join("main.rs").is_file()
                || tests.join(format!("{target}.rs")).is_file();
            assert!(is_there, "{}: {package} has no test program {target}", plant.name);
        }
    }
}

//! `cargo xtask plant`: breaks each invariant on purpose in a scratch copy, one line at a time, and
//! looks whether the scenarios notice and name it, and whether the simulation finds it by itself. A
//! suite that passes with a fault planted proves nothing.
//!
//! The faults are patches under `crates/test/e2e/plants/`, named after the invariant's number:
//! `3-*.patch` breaks the third. One that the model kernel cannot bring about begins with a line
//! that says why. One of a crate that no scenario runs begins with a line that names the test
//! program that has to notice it, and is named after the crate: `queue-*.patch`.

use std::collections::BTreeSet;
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
/// So begins a patch whose fault only scenarios can show, and then comes why.
const SCENARIOS_ALONE: &str = "For the scenarios alone: ";
/// So begins a patch whose fault a test program has to notice: its name follows. That of a
/// library's own tests is the crate's: `graph`.
const PROGRAM: &str = "For the test program ";
const INVARIANTS: u32 = 9;
/// The two programs, which are all that is built of a copy.
const SCENARIOS: &str = "e2e/scenarios";
const SIMULATION: &str = "e2e/simulate";
const TARGETS: [&str; 4] = ["--test", "scenarios", "--test", "simulate"];
/// So many steps the simulation has to find a fault in.
const STEPS: &str = "3000000";
/// How long each of the two may run: with a fault in it a pass may never end. Without one the
/// scenarios take half a minute.
const SCENARIOS_END: Duration = Duration::from_secs(10 * 60);
const SIMULATION_ENDS: Duration = Duration::from_secs(15 * 60);
/// How long a test program may run. Without a fault it takes seconds.
const PROGRAM_ENDS: Duration = Duration::from_secs(5 * 60);
/// After so many seconds a scenario has failed.
const SCENARIO_SECONDS: &str = "45";

/// A fault.
struct Plant {
    patch: PathBuf,
    name: String,
    text: String,
    /// The number of the invariant that it breaks, or the name of a crate.
    breaks: String,
}

impl Plant {
    /// The test program that has to notice it, such as `queue/model` or `graph`: else scenarios
    /// have to that name the invariant, and the simulation.
    fn program(&self) -> Option<&str> {
        self.text.strip_prefix(PROGRAM)?.split([':', '\n']).next()
    }

    /// Has it in the tree while something is done.
    fn planted<T>(&self, tree: &Path, act: impl FnOnce() -> Result<T>) -> Result<T> {
        git_apply(tree, &self.patch, &[])?;
        let done = act();
        git_apply(tree, &self.patch, &["--reverse"])?;
        done
    }
}

/// Runs it; with numbers and names of crates, for those alone. Returns the results in one line.
pub(crate) fn run(only: &[String]) -> Result<String> {
    let mut all = plants()?;
    all.retain(|plant| only.is_empty() || only.contains(&plant.breaks));
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

/// Builds a test program, and returns whether it passes.
fn passes(tree: &Path, program: &str) -> Result<bool> {
    let package = format!("trueup-{program}");
    let target = program.split_once('/').map(|(_, target)| ["--test", target]);
    let built = match &target {
        Some(target) => build(tree, target)?,
        None => build(tree, &["-p", &package, "--lib"])?,
    };
    Ok(run_one(&built, program, PROGRAM_ENDS)?.1.is_ok())
}

/// Plants the faults that test programs have to notice.
fn run_programs(tree: &Path, plants: &[Plant]) -> Result<String> {
    let programs: BTreeSet<_> = plants.iter().filter_map(Plant::program).collect();
    for program in programs {
        if !passes(tree, program)? {
            return Err(format!("{program} fails without any fault"));
        }
    }
    let mut missed = Vec::new();
    for plant in plants {
        let (name, program) = (&plant.name, plant.program().unwrap_or_default());
        if plant.planted(tree, || passes(tree, program))? {
            missed.push(format!("{program} does not notice the fault {name}"));
        } else {
            println!("{name}:\n  noticed by {program}");
        }
    }
    joined(&missed)?;
    Ok(format!("{} faults, each noticed by its test program", plants.len()))
}

/// Plants the faults that scenarios have to notice.
fn run_scenarios(tree: &Path, plants: &[Plant]) -> Result<String> {
    need_ip()?;
    println!("without a fault:");
    let sound = try_out(tree)?;
    if !sound.scenarios.is_empty() || sound.steps.is_some() {
        return Err(format!("a test fails without any fault: {sound:?}"));
    }
    println!("  all scenarios pass, and the simulation finds nothing");
    let (mut missed, mut steps, mut of_scenarios_alone) = (Vec::new(), Vec::new(), 0);
    for plant in plants {
        let name = &plant.name;
        println!("{name}:");
        let noticed = plant.planted(tree, || try_out(tree))?;
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
            None if plant.text.starts_with(SCENARIOS_ALONE) => {
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

/// The faults in the order of their invariants, of which each has one at least, then those of
/// crates.
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

/// Brings a copy of the tree up to date, as far as git would take its files. What is equal stays
/// untouched, so that little is built again; what is no longer there goes.
pub(crate) fn copy_tree(tree: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut kept = BTreeSet::new();
    for file in output(list.current_dir(root()))?.split('\0') {
        let (from, to) = (root().join(file), tree.join(file));
        // Deleted, and not committed yet.
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
    // The copy lies in the repository's own folder, and is none: git is reported where it ends.
    let ceiling = tree.parent().unwrap_or(tree);
    let mut git = Command::new("git");
    git.arg("apply").args(more).arg(patch).current_dir(tree);
    output(git.env("GIT_CEILING_DIRECTORIES", ceiling))
        .map(drop)
        .map_err(|error| format!("{} does not apply any more: {error}", patch.display()))
}

/// What notices a fault.
#[derive(Debug, Default)]
struct Noticed {
    /// The scenarios that fail.
    scenarios: Vec<String>,
    /// The invariants that they name.
    named: BTreeSet<u32>,
    /// After how many steps the simulation fails.
    steps: Option<u64>,
}

/// Builds test programs of a tree.
fn build(tree: &Path, targets: &[&str]) -> Result<Vec<Program>> {
    let target = root().join("target/plant/build");
    programs::build_in(tree, Some(&target), targets)
}

/// Runs a test program of a tree.
fn run_one(built: &[Program], name: &str, bound: Duration) -> Result<(String, Result<()>)> {
    let mut command = programs::test(built, name)?.command();
    // What fails is counted here, and not to be understood.
    command.arg("--color=never").env("TRUEUP_STEPS", STEPS).env("TRUEUP_SHRINK", "0");
    command.env("TRUEUP_SCENARIO_SECONDS", SCENARIO_SECONDS);
    Ok(run_within(&mut command, &format!("plant-{name}"), bound))
}

/// Builds the two programs of a tree, and runs them.
fn try_out(tree: &Path) -> Result<Noticed> {
    let built = build(tree, &TARGETS)?;
    // Scenarios wait for the kernel most of the time.
    let (scenarios, simulation) = thread::scope(|scope| {
        let beside = scope.spawn(|| run_one(&built, SIMULATION, SIMULATION_ENDS));
        let scenarios = run_one(&built, SCENARIOS, SCENARIOS_END);
        let simulation = beside.join().map_err(|_| "the simulation's thread panicked")?;
        Ok::<_, String>((scenarios?, simulation?))
    })?;
    let mut noticed = Noticed::read(&scenarios.0);
    if !scenarios.0.contains("test result: ") {
        // What hangs is stopped, and no scenario has a name then.
        println!("  the scenarios did not end");
    }
    noticed.steps = simulation.1.is_err().then(|| steps(&simulation.0)).flatten();
    Ok(noticed)
}

impl Noticed {
    /// Reads what the scenarios print.
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

/// Reads how many steps the simulation made: `after 512 steps`.
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

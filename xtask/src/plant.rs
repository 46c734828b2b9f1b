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
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::programs::{self, Program};
use crate::tools::{
    Result, at, entries, files, joined, need_for_tests, output, read, root, run_within, write,
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

    /// Plants the fault. A scenario must name its invariant, and the simulation must find it,
    /// unless it cannot come about there.
    fn run_scenarios(&self, tree: &Path) -> Result<String> {
        let scenarios_alone = self.text.starts_with(SCENARIOS_ALONE);
        let noticed = self.planted(tree, || try_out(tree, scenarios_alone))??;
        noticed.scenarios.iter().for_each(|test| println!("  {test}"));
        let number = self.breaks.parse().unwrap_or_default();
        if noticed.scenarios.is_empty() || !noticed.named.contains(&number) {
            return Err("no scenario names it".to_owned());
        }
        let named = format!("named by {} scenarios", noticed.scenarios.len());
        match noticed.steps {
            Some(found) => Ok(format!("{named}; found by the simulation after {found} steps")),
            None if scenarios_alone => Ok(named),
            None => Err(format!("{named}, but not found by the simulation")),
        }
    }
}

/// A part of the run: a test program or the two of the scenarios without a fault, or with one.
/// Programs are named like `queue/model`; the scenarios are `None`.
enum Part {
    Sound(Option<String>),
    Planted(Plant),
}

/// The beginning of the name of a part without a fault.
const SOUND: &str = "without a fault, ";

impl Part {
    fn name(&self) -> String {
        match self {
            Part::Sound(program) => format!("{SOUND}{}", program.as_deref().unwrap_or("scenarios")),
            Part::Planted(plant) => plant.name.clone(),
        }
    }

    /// Runs the part. Returns the result in one line; a fault that is not noticed is an error.
    fn run(&self) -> Result<String> {
        need_for_tests()?;
        let tree = root().join("target/plant/tree");
        copy_tree(&tree)?;
        match self {
            Part::Sound(Some(program)) if passes(&tree, program)? => Ok("passes".to_owned()),
            Part::Sound(Some(program)) => Err(format!("{program} fails without any fault")),
            Part::Sound(None) => {
                let sound = try_out(&tree, false)?;
                let is_sound = sound.scenarios.is_empty() && sound.steps.is_none();
                is_sound
                    .then(|| "all scenarios pass, and the simulation finds nothing".to_owned())
                    .ok_or_else(|| format!("a test fails without any fault: {sound:?}"))
            }
            Part::Planted(plant) => match plant.program() {
                Some(program) if plant.planted(&tree, || passes(&tree, program))?? => {
                    Err(format!("{program} does not notice it"))
                }
                Some(program) => Ok(format!("noticed by {program}")),
                None => plant.run_scenarios(&tree),
            },
        }
    }
}

/// Returns the names of all parts: each program without a fault, then with its faults.
pub(crate) fn parts() -> Result<Vec<String>> {
    Ok(all_parts()?.iter().map(Part::name).collect())
}

fn all_parts() -> Result<Vec<Part>> {
    let mut of_programs = BTreeMap::<_, Vec<_>>::new();
    for plant in plants()? {
        of_programs.entry(plant.program().map(str::to_owned)).or_default().push(plant);
    }
    let parts = of_programs.into_iter().flat_map(|(program, plants)| {
        iter::once(Part::Sound(program)).chain(plants.into_iter().map(Part::Planted))
    });
    Ok(parts.collect())
}

/// Runs the part with this name.
pub(crate) fn run_part(name: &str) -> Result<String> {
    let mut all = all_parts()?.into_iter();
    let part = all.find(|part| part.name() == name);
    part.ok_or_else(|| format!("no fault {name}"))?.run()
}

/// Plants all faults, or only those of the named invariants and crates, and those that are named
/// themselves.
pub(crate) fn run(only: &[String]) -> Result<()> {
    let mut missed = Vec::new();
    for part in all_parts()? {
        let is_chosen = match &part {
            Part::Sound(_) => only.is_empty(),
            Part::Planted(plant) => {
                only.is_empty() || only.contains(&plant.breaks) || only.contains(&plant.name)
            }
        };
        if is_chosen {
            let name = part.name();
            match part.run() {
                Ok(line) => println!("{name}:\n  {line}"),
                Err(error) => {
                    println!("{name}:\n  NOT SHOWN: {error}");
                    missed.push(format!("{name}: {error}"));
                }
            }
        }
    }
    joined(&missed)
}

/// Sums up the results of all parts.
pub(crate) fn sum(results: &[&str]) -> String {
    let count = |word| results.iter().filter(|line| line.starts_with(word)).count();
    let found: Vec<u64> = results.iter().filter_map(|line| steps(line)).collect();
    let (least, most) = (found.iter().min().unwrap_or(&0), found.iter().max().unwrap_or(&0));
    format!(
        "{} faults, each noticed by its test program; {} faults, each named by a scenario; the \
         simulation finds {} of them after {least} to {most} steps, and the others cannot come \
         about in it",
        count("noticed by"),
        count("named by"),
        found.len(),
    )
}

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
    fn the_parts_name_each_program_once_and_sum_up() {
        let names = parts().unwrap();
        let programs = plants().unwrap().iter().map(|it| it.program().map(str::to_owned)).collect();
        let programs: BTreeSet<Option<String>> = programs;
        let sound = names.iter().filter(|name| name.starts_with(SOUND));
        assert_eq!(sound.count(), programs.len());
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let sum = sum(&[
            "passes",
            "noticed by queue/model",
            "named by 2 scenarios; found by the simulation after 512 steps",
            "named by 1 scenarios",
        ]);
        for words in ["1 faults, each noticed", "2 faults, each named", "finds 1 of them after 512"]
        {
            assert!(sum.contains(words), "{sum}");
        }
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

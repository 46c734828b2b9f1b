//! `cargo xtask plant`: breaks each invariant on purpose in a scratch copy, one line at a time, and
//! looks whether the scenarios notice and name it, and whether the simulation finds it by itself. A
//! suite that passes with a fault planted proves nothing.
//!
//! The faults are patches under `crates/test/e2e/plants/`, named after the invariant's number:
//! `3-*.patch` breaks the third. One that the model kernel cannot bring about begins with a line
//! that says why. One of a crate that no scenario runs begins with a line that names the test
//! program that has to notice it, and is named after the crate: `queue-*.patch`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::programs::{self, Program};
use crate::tools::{Result, need_ip, root, run_within};

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
    /// The number of the invariant that it breaks, or the name of a crate.
    breaks: String,
    noticed_by: NoticedBy,
}

enum NoticedBy {
    /// Scenarios that name the invariant, and the simulation.
    Scenarios(u32),
    /// A test program, such as `queue/model` or `graph`.
    Program(String),
}

/// Runs it; with numbers and names of crates, for those alone. Returns the results in one line.
pub(crate) fn run(only: &[&str]) -> Result<String> {
    let (mut of_invariants, mut of_programs) = (Vec::new(), Vec::new());
    for plant in plants()? {
        if !only.is_empty() && !only.contains(&&*plant.breaks) {
            continue;
        }
        match plant.noticed_by {
            NoticedBy::Scenarios(number) => of_invariants.push((number, plant.patch)),
            NoticedBy::Program(program) => of_programs.push((program, plant.patch)),
        }
    }
    let tree = root().join("target/plant/tree");
    copy_tree(&tree)?;
    let (mut results, mut errors) = (Vec::new(), Vec::new());
    let mut note = |result: Result<String>| match result {
        Ok(line) => results.push(line),
        Err(error) => errors.push(error),
    };
    if !of_programs.is_empty() {
        note(run_programs(&tree, of_programs));
    }
    if !of_invariants.is_empty() {
        note(run_scenarios(&tree, of_invariants));
    }
    match errors.is_empty() {
        true => Ok(results.join("; ")),
        false => Err(errors.join("\nxtask: ")),
    }
}

/// Plants the faults that test programs have to notice.
fn run_programs(tree: &Path, plants: Vec<(String, PathBuf)>) -> Result<String> {
    let passes = |program: &str| {
        let package = format!("trueup-{program}");
        let built = match program.split_once('/') {
            Some((_, target)) => build(tree, &["--test", target])?,
            None => build(tree, &["-p", &package, "--lib"])?,
        };
        let mut command = command(&built, program)?;
        Ok::<_, String>(run_within(&mut command, PROGRAM_ENDS).1.is_ok())
    };
    let mut missed = Vec::new();
    let programs: BTreeSet<_> = plants.iter().map(|(program, _)| program).collect();
    for program in programs {
        if !passes(program)? {
            return Err(format!("{program} fails without any fault"));
        }
    }
    for (program, plant) in &plants {
        let name = plant.file_stem().unwrap_or_default().to_string_lossy();
        git_apply(tree, plant, &[])?;
        let passed = passes(program);
        git_apply(tree, plant, &["--reverse"])?;
        match passed? {
            false => println!("{name}:\n  noticed by {program}"),
            true => missed.push(format!("{program} does not notice the fault {name}")),
        }
    }
    match missed.is_empty() {
        true => Ok(format!("{} faults, each noticed by its test program", plants.len())),
        false => Err(missed.join("\nxtask: ")),
    }
}

/// Plants the faults that scenarios have to notice.
fn run_scenarios(tree: &Path, plants: Vec<(u32, PathBuf)>) -> Result<String> {
    need_ip()?;
    println!("without a fault:");
    let sound = try_out(tree)?;
    if !sound.scenarios.is_empty() || sound.steps.is_some() {
        return Err(format!("a test fails without any fault: {sound:?}"));
    }
    println!("  all scenarios pass, and the simulation finds nothing");
    let (mut missed, mut steps) = (Vec::new(), Vec::new());
    let mut of_scenarios_alone = 0;
    for (number, plant) in plants {
        let name = plant.file_stem().unwrap_or_default().to_string_lossy();
        println!("{name}:");
        git_apply(tree, &plant, &[])?;
        let noticed = try_out(tree);
        git_apply(tree, &plant, &["--reverse"])?;
        let noticed = noticed?;
        for test in &noticed.scenarios {
            println!("  {test}");
        }
        if noticed.scenarios.is_empty() || !noticed.named.contains(&number) {
            println!("  NOT NOTICED by a scenario");
            missed.push(format!("no scenario names the fault {name}"));
        }
        let text = fs::read_to_string(&plant).map_err(|error| format!("{name}: {error}"))?;
        let is_of_scenarios_alone = text.starts_with(SCENARIOS_ALONE);
        match noticed.steps {
            Some(found) => {
                println!("  found by the simulation after {found} steps");
                steps.push(found);
            }
            None if is_of_scenarios_alone => {
                println!("  {}", text.lines().next().unwrap_or_default());
                of_scenarios_alone += 1;
            }
            None => {
                println!("  NOT FOUND by the simulation");
                missed.push(format!("the simulation does not find the fault {name}"));
            }
        }
    }
    if !missed.is_empty() {
        return Err(missed.join("\nxtask: "));
    }
    let (least, most) = (steps.iter().min(), steps.iter().max());
    Ok(format!(
        "{} faults, each named by a scenario; the simulation finds {} of them after {} to {} steps, \
         and {of_scenarios_alone} cannot come about in it",
        steps.len() + of_scenarios_alone,
        steps.len(),
        least.unwrap_or(&0),
        most.unwrap_or(&0)
    ))
}

/// The faults in the order of their invariants, of which each has one at least, then those of
/// crates.
fn plants() -> Result<Vec<Plant>> {
    let folder = root().join(PLANTS);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut plants = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (breaks, _) = name.split_once('-').unwrap_or_default();
        let text = fs::read_to_string(&path).map_err(failed)?;
        let program = text.strip_prefix(PROGRAM).and_then(|it| it.split([':', '\n']).next());
        let noticed_by = match (program, breaks.parse()) {
            (Some(program), _) => NoticedBy::Program(program.to_owned()),
            (None, Ok(number)) => NoticedBy::Scenarios(number),
            (None, Err(_)) => {
                return Err(format!("{}: want NUMBER-WORDS.patch", path.display()));
            }
        };
        plants.push(Plant { breaks: breaks.to_owned(), noticed_by, patch: path });
    }
    plants.sort_by(|one, other| one.patch.cmp(&other.patch));
    let is_broken = |number: &u32| {
        let mut breaks = plants.iter().map(|plant| &plant.breaks);
        breaks.any(|it| *it == number.to_string())
    };
    match (1..=INVARIANTS).find(|number| !is_broken(number)) {
        Some(n) => Err(format!("{PLANTS} has no fault for invariant {n}")),
        None => Ok(plants),
    }
}

/// Brings a copy of the tree up to date, as far as git would take its files. What is equal stays
/// untouched, so that little is built again; what is no longer there goes.
pub(crate) fn copy_tree(tree: &Path) -> Result<()> {
    let list = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let mut kept = BTreeSet::new();
    for file in list.stdout.split(|byte| *byte == 0) {
        let file = Path::new(OsStr::from_bytes(file));
        let (from, to) = (root().join(file), tree.join(file));
        // Deleted, and not committed yet.
        if !from.is_file() {
            continue;
        }
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        let bytes = fs::read(&from).map_err(failed)?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(to.parent().unwrap_or(tree)).map_err(failed)?;
            fs::write(&to, bytes).map_err(failed)?;
        }
        kept.insert(to);
    }
    remove_others(tree, &kept).map_err(|error| format!("{}: {error}", tree.display()))
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn git_apply(tree: &Path, patch: &Path, more: &[&str]) -> Result<()> {
    // The copy lies in the repository's own folder, and is none: git is reported where it ends.
    let ceiling = tree.parent().unwrap_or(tree);
    let output = Command::new("git")
        .arg("apply")
        .args(more)
        .arg(patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", ceiling)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{} does not apply any more: {said}", patch.display()))
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

/// Returns the command of a test program.
fn command(built: &[Program], name: &str) -> Result<Command> {
    let is_it = |program: &&Program| program.is_test && program.name == name;
    let program = built.iter().find(is_it);
    let program = program.ok_or_else(|| format!("{name} was not built"))?;
    let mut command = program.command();
    command.arg("--color=never").stdin(Stdio::null());
    Ok(command)
}

/// Builds the two programs of a tree, and runs them.
fn try_out(tree: &Path) -> Result<Noticed> {
    let built = build(tree, &TARGETS)?;
    let run = |name: &str, end: Duration| {
        let mut command = command(&built, name)?;
        // What fails is counted here, and not to be understood.
        command.env("TRUEUP_STEPS", STEPS).env("TRUEUP_SHRINK", "0");
        command.env("TRUEUP_SCENARIO_SECONDS", SCENARIO_SECONDS);
        Ok::<_, String>(run_within(&mut command, end))
    };
    // Scenarios wait for the kernel most of the time.
    let (scenarios, simulation) = thread::scope(|scope| {
        let simulation = scope.spawn(|| run(SIMULATION, SIMULATION_ENDS));
        let scenarios = run(SCENARIOS, SCENARIOS_END);
        let simulation = simulation.join().map_err(|_| "the simulation's thread panicked");
        Ok::<_, String>((scenarios?, simulation??))
    })?;
    let mut noticed = Noticed::read(&scenarios.0);
    if !scenarios.0.contains("test result: ") {
        // What hangs is stopped, and no scenario has a name then.
        println!("  the scenarios did not end");
    }
    noticed.steps = match simulation {
        (_, Ok(())) => None,
        (output, Err(_)) => steps(&output),
    };
    Ok(noticed)
}

impl Noticed {
    /// Reads what the scenarios print.
    fn read(output: &str) -> Noticed {
        let failed = |line: &str| {
            let name = line.strip_prefix("test ")?.strip_suffix("FAILED")?;
            Some(name.trim_end_matches([' ', '.']).to_owned())
        };
        Noticed {
            scenarios: output.lines().filter_map(failed).collect(),
            named: (1..=INVARIANTS)
                .filter(|number| output.contains(&format!("invariant {number}")))
                .collect(),
            steps: None,
        }
    }
}

/// Reads how many steps the simulation made: `after 512 steps`.
fn steps(output: &str) -> Option<u64> {
    let found = |line: &str| {
        let (before, _) = line.split_once(" steps")?;
        before.rsplit_once("after ")?.1.parse().ok()
    };
    output.lines().find_map(found)
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
    fn every_fault_can_still_be_planted() {
        for Plant { patch, .. } in plants().unwrap() {
            git_apply(&root(), &patch, &["--check"]).unwrap();
        }
    }

    /// All files below a folder, but for what is built.
    fn files(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                files(&path, all);
            } else {
                all.push(path);
            }
        }
    }

    #[test]
    fn the_page_on_safety_names_tests_and_scenarios_that_there_are() {
        let page = fs::read_to_string(root().join("docs/safety.md")).unwrap();
        let mut all = Vec::new();
        files(&root().join("crates"), &mut all);
        let scenarios: Vec<_> = all
            .iter()
            .filter_map(|path| {
                let name = path.strip_prefix(root().join("crates/test/e2e/scenarios")).ok()?;
                Some(name.with_extension("").display().to_string())
            })
            .collect();
        let code: String = all
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
        let mut named = 0;
        for name in rows.flat_map(|row| row.split('`').skip(1).step_by(2)) {
            let found = if name.starts_with("crates/") || name.starts_with("docs/") {
                root().join(name).exists()
            } else if let Some((stem, "")) = name.split_once('*') {
                scenarios.iter().any(|scenario| scenario.starts_with(stem))
            } else if name.contains('/') {
                scenarios.iter().any(|scenario| scenario == name)
            } else if name.contains('_') {
                code.contains(&format!("fn {name}("))
            } else {
                continue;
            };
            assert!(found, "{name}");
            named += 1;
        }
        assert!(named > 30, "{named}");
    }
}

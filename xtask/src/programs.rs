//! The workspace's test programs: one call of cargo builds them, and several run at once, as most
//! of them wait for the kernel.

use std::collections::VecDeque;
use std::env;
use std::io::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::etcd;
use crate::tools::{Result, cargo, joined, line, output, root, run_within};

/// Returns the arguments of `cargo test` for all members that can be built here. All commands use
/// the same set of features: a package selected alone has others, and all its dependencies would be
/// rebuilt.
pub(crate) fn workspace() -> Result<Vec<String>> {
    let mut words = vec!["--workspace".to_owned()];
    if etcd::can_build() {
        words.push("--all-features".to_owned());
    } else {
        words.extend(etcd::left_out()?);
    }
    Ok(words)
}

/// The cases of properties are the same each time, unless another seed is given: a change must not
/// fail by chance.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "116");

/// The time limit of a program, far above any actual time.
const BOUND: Duration = Duration::from_secs(15 * 60);

/// The programs that take longest, which start first.
const LONG: [&str; 17] = [
    "e2e/crash",
    "etcd/etcd",
    "etcd/contract",
    "etcd/schedules",
    "control/it",
    "e2e/judges",
    "testkit/differential",
    "e2e/world",
    "e2e/cli",
    "journal/journal",
    "e2e/scenarios",
    "loop/states",
    "benches/short",
    "graph/states",
    "guests/qemu",
    "observe/kernel",
    "rtnl/kernel",
];

/// The programs that run alone, after all others, as they measure time.
const ALONE: [&str; 3] = ["e2e/drift", "e2e/scale", "xtask/newcomer"];

/// A program built by cargo.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Package and target, such as `rtnl/kernel`; for unit tests only the package.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The package's directory, in which `cargo test` would run it.
    pub(crate) dir: PathBuf,
    /// True if it runs tests; the other programs are started by tests.
    pub(crate) is_test: bool,
}

impl Program {
    /// Reads cargo's message about an artifact; `None` if it is not such a program.
    fn read(message: &str) -> Option<Program> {
        let message: Value = serde_json::from_str(message).ok()?;
        let manifest = PathBuf::from(message["manifest_path"].as_str()?);
        let dir = manifest.parent()?.to_owned();
        // A package's directory is named after its role.
        let role = dir.file_name()?.to_string_lossy().into_owned();
        let name = match message["target"]["kind"][0].as_str()? {
            "lib" | "proc-macro" => role,
            _ => format!("{role}/{}", message["target"]["name"].as_str()?),
        };
        Some(Program {
            name,
            path: message["executable"].as_str()?.into(),
            dir,
            is_test: message["profile"]["test"] == true,
        })
    }

    /// Returns the command that runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir).stdin(Stdio::null());
        if env::var_os(SEED.0).is_none() {
            command.env(SEED.0, SEED.1);
        }
        command
    }
}

/// Builds the test programs and the programs that they start. `targets` limits them, such as
/// `--test`, `kernel`, or to a package, with `-p` first.
pub(crate) fn build(targets: &[&str]) -> Result<Vec<Program>> {
    build_in(&root(), None, targets)
}

/// Does the same as [`build`] for another tree, with its own target directory.
pub(crate) fn build_in(
    tree: &Path,
    target_directory: Option<&Path>,
    targets: &[&str],
) -> Result<Vec<Program>> {
    let mut build = cargo(&["test", "--no-run"]);
    build.current_dir(tree);
    if let Some(directory) = target_directory {
        build.arg("--target-dir").arg(directory);
    }
    if targets.first() != Some(&"-p") {
        build.args(workspace()?);
    }
    // Not the examples: clippy checks them, and those started by tests are programs of e2e.
    build.args(if targets.is_empty() { &["--tests"] } else { targets });
    executables(&mut build)
}

/// Runs a cargo command that builds, and returns the programs made.
pub(crate) fn executables(build: &mut Command) -> Result<Vec<Program>> {
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    println!("$ {}", line(build));
    let messages = output(build)?;
    Ok(messages.lines().filter_map(Program::read).collect())
}

/// Runs the tests of all programs, several at once, except those that measure time: [`run_alone`]
/// runs these.
pub(crate) fn run_together(programs: &[Program], count: &Mutex<Count>) -> Result<()> {
    let mut waiting: Vec<_> =
        programs.iter().filter(|it| it.is_test && !ALONE.contains(&&*it.name)).collect();
    waiting.sort_by_key(|program| {
        LONG.iter().position(|long| *long == program.name).unwrap_or(LONG.len())
    });
    let waiting = Mutex::new(VecDeque::from(waiting));
    let failures = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..2 * cores {
            scope.spawn(|| {
                while let Some(program) = locked(&waiting, VecDeque::pop_front) {
                    if let Err(error) = run(program, count) {
                        locked(&failures, |failures| failures.push(error));
                    }
                }
            });
        }
    });
    joined(&failures.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs the tests of the programs that measure time, one after the other.
pub(crate) fn run_alone(programs: &[Program], count: &Mutex<Count>) -> Result<()> {
    let alone = programs.iter().filter(|it| it.is_test && ALONE.contains(&&*it.name));
    joined(&alone.filter_map(|program| run(program, count).err()).collect::<Vec<_>>())
}

/// Runs one program, and prints its whole output at the end.
fn run(program: &Program, count: &Mutex<Count>) -> Result<()> {
    let (name, begun) = (&program.name, Instant::now());
    let (output, ended) = run_within(&mut program.command(), name, BOUND);
    let seconds = begun.elapsed().as_secs_f32();
    let text = format!("     Running {name} ({seconds:.1} s)\n{output}\n");
    // Use one call, so that no other program's output comes in between.
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
    locked(count, |count| count.add_all(&output));
    ended.map_err(|error| format!("{name}: {error}{}", why(&output)))
}

/// Returns the harness's summary of failed tests, without backtraces and cut to a readable length.
/// It is printed at the end of the run, as the whole output would be too long to search.
pub(crate) fn why(output: &str) -> String {
    const LINES: usize = 80;
    const CHARACTERS: usize = 400;
    output
        .lines()
        .skip_while(|line| *line != "failures:")
        .filter(|line| !is_of_backtrace(line.trim_start()) && !line.is_empty())
        .take(LINES)
        .map(|line| format!("\n    {}", line.chars().take(CHARACTERS).collect::<String>()))
        .collect()
}

fn is_of_backtrace(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line == "stack backtrace:"
        || line.starts_with("at ")
        || line.starts_with("note: ")
        || (number.len() < line.len() && number.starts_with(": "))
}

/// Runs `act` under a lock; ignores poisoning, as a test's panic is reported elsewhere.
fn locked<T, R>(mutex: &Mutex<T>, act: impl FnOnce(&mut T) -> R) -> R {
    act(&mut mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Totals over the summaries of test programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Count {
    /// Adds a line such as `test result: ok. 3 passed; 0 failed; 1 ignored; ...`, and returns true;
    /// ignores other lines, and returns false.
    pub(crate) fn add(&mut self, line: &str) -> bool {
        let summary = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "));
        let parts = summary.into_iter().flat_map(|(_, numbers)| numbers.split("; "));
        for (number, word) in parts.filter_map(|part| part.split_once(' ')) {
            let number: u64 = number.parse().unwrap_or(0);
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
        summary.is_some()
    }

    /// Adds all summaries in a program's output.
    pub(crate) fn add_all(&mut self, output: &str) {
        for line in output.lines() {
            self.add(line);
        }
    }
}

/// Finds a test program by its name.
pub(crate) fn test<'a>(programs: &'a [Program], name: &str) -> Result<&'a Program> {
    let found = programs.iter().find(|program| program.is_test && program.name == name);
    found.ok_or_else(|| format!("{name} was not built"))
}

/// Finds the path of a program that tests start, by its name.
pub(crate) fn find<'a>(programs: &'a [Program], name: &str) -> Result<&'a Path> {
    let found = programs.iter().find(|program| program.name == name && !program.is_test);
    found.map(|program| &*program.path).ok_or_else(|| format!("{name} was not built"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_add_up_and_other_lines_do_not_count() {
        let mut count = Count::default();
        for line in [
            "test result: ok. 11 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 1 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; finished in 1.2s",
            "test 9 passed; ... ok",
            "test result: nonsense",
        ] {
            count.add(line);
        }
        let (passed, failed, skipped) = (12, 3, 2);
        assert_eq!(count, Count { passed, failed, skipped });
    }

    #[test]
    fn what_failed_is_repeated_without_backtraces() {
        let output = "test a ... ok\nfailures:\n\n---- b ----\nb: 3 is not 4\nstack backtrace:\n   \
            0: core::panicking\n      at x.rs:3\n\nfailures:\n    b\n";
        assert_eq!(
            why(output),
            "\n    failures:\n    ---- b ----\n    b: 3 is not 4\n    failures:\n        b"
        );
        assert_eq!(why("test a ... ok\n"), "");
        let long = format!("failures:\n{}\n", "x".repeat(1000)) + &"y\n".repeat(1000);
        assert!(why(&long).len() < 2000);
    }

    #[test]
    fn programs_are_named_after_package_and_target() {
        for (kind, target, test, name) in [
            ("test", "kernel", true, "rtnl/kernel"),
            ("lib", "trueup_rtnl", true, "rtnl"),
            ("bin", "demo", false, "rtnl/demo"),
        ] {
            let message = format!(
                r#"{{ "manifest_path": "/w/crates/kernel/rtnl/Cargo.toml", "executable": "/w/target/x",
                "target": {{ "kind": ["{kind}"], "name": "{target}" }}, "profile": {{ "test": {test} }} }}"#
            );
            let program = Program::read(&message.replace('\n', "")).unwrap();
            assert_eq!((&*program.name, program.is_test), (name, test));
        }
        for other in [r#"{ "reason": "build-finished" }"#, r#"{ "executable": null }"#] {
            assert!(Program::read(other).is_none());
        }
    }

    #[test]
    fn what_fails_is_named_and_what_hangs_is_stopped() {
        let count = Mutex::default();
        let programs = ["true", "false"].map(|name| Program {
            name: format!("x/{name}"),
            path: format!("/bin/{name}").into(),
            dir: "/".into(),
            is_test: true,
        });
        let error = run_together(&programs, &count).unwrap_err();
        assert!(error.starts_with("x/false: ") && !error.contains("true"), "{error}");
        let mut sleep = Command::new("sleep");
        let bound = Duration::from_millis(100);
        let error = run_within(sleep.arg("60"), "x/sleep", bound).1.unwrap_err();
        assert!(error.contains("not done after"), "{error}");
    }
}

//! `cargo xtask test`: everything that must pass before a change is accepted. The last line of the
//! output is the count of tests.
//!
//! The test programs are built first. While they run, and wait for the kernel, cargo does the work
//! that needs no kernel: clippy, the documentation, the doc tests.

use std::env;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::programs::{self, Count, Program, workspace};
use crate::steps::Steps;
use crate::tools::{
    self, QEMU, Result, cargo, need_component, need_for_tests, run_and_show, show_and_run,
};
use crate::{api, etcd, scenarios, vm};

/// Runs all steps; with `--kernel` also on another kernel, in a virtual machine, at the same time.
pub(crate) fn run(kernel: Option<String>) -> Result<()> {
    need_for_tests()?;
    // If etcd cannot be installed, the tests that need it are skipped, and the output says so.
    if tools::can_install() {
        tools::need(&[QEMU])?;
    }
    etcd::need()?;
    need_component("fmt", "rustfmt")?;
    need_component("clippy", "clippy")?;
    if kernel.is_some() {
        vm::need()?;
    }

    let (steps, count) = (Steps::default(), Mutex::<Count>::default());
    steps.run("format", || show_and_run(&mut cargo(&["fmt", "--all", "--check"])));
    let mut built = steps.run("build", || programs::build(&[])).unwrap_or_default();
    if !etcd::can_test() {
        built.retain(|program| !program.is_test || !etcd::is_test(&program.name));
        locked(&count).skipped += 1;
    }
    let built = &built[..];
    thread::scope(|scope| {
        scope.spawn(|| beside(&steps, &count));
        if let Some(kernel) = &kernel {
            scope.spawn(|| steps.run("other kernel", || vm::test(kernel, built)));
        }
        steps.run("tests", || programs::run_together(built, &count));
    });
    steps.run("tests that measure time", || programs::run_alone(built, &count));
    // A statement that is no longer shown is a failure, too.
    steps.run("scenarios", || scenarios::list(true, false));
    steps.run("demo", || demo(built));
    let count = locked(&count).clone();
    steps.run("count of tests", || judge(&count));
    let ended = steps.end();
    println!("{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    ended
}

/// Runs cargo's other steps while tests wait for the kernel: one after the other, as each call
/// locks the target directory.
fn beside(steps: &Steps, count: &Mutex<Count>) {
    steps.run("clippy", || {
        let mut clippy = cargo(&["clippy", "--all-targets"]);
        clippy.args(workspace()?).args(["--", "-Dwarnings"]);
        run_and_show(&mut clippy).1
    });
    // Everything else is built with all features; the demo, as by a new user, with none.
    steps.run("without features", || {
        let mut check = cargo(&["check", "--quiet", "--package", "trueup-e2e", "--bins"]);
        run_and_show(&mut check).1
    });
    steps.run("documentation and public API", || api::run(false));
    steps.run("tests of the documentation", || {
        let mut tests = cargo(&["test", "--doc", "--no-fail-fast"]);
        let (output, ended) = run_and_show(tests.args(workspace()?));
        locked(count).add_all(&output);
        ended
    });
}

fn locked(count: &Mutex<Count>) -> MutexGuard<'_, Count> {
    count.lock().unwrap_or_else(PoisonError::into_inner)
}

fn demo(built: &[Program]) -> Result<()> {
    show_and_run(&mut Command::new(programs::find(built, "e2e/demo")?))
}

/// Judges the counts: if all tests could run, a skipped one is a failure.
fn judge(count: &Count) -> Result<()> {
    let in_ci = env::var_os("CI").is_some_and(|ci| ci == "true");
    match count {
        Count { passed: 0, .. } => Err("no test passed".to_owned()),
        Count { skipped: 1.., .. } if in_ci => Err("tests were skipped".to_owned()),
        _ => Ok(()),
    }
}

//! `cargo xtask prove`: what takes longer than a change should wait for. Every kill point instead
//! of a sample, two thousand cases of what draws at random, the faults planted on purpose, and the
//! kernel tests on the other kernels.

use crate::steps::Steps;
use crate::tools::{Result, cargo, need_ip, show_and_run};
use crate::{deny, package, plant, vm};

/// The matrices of which `cargo xtask test` tries a sample.
const KILL_POINTS: [&str; 6] = [
    "test",
    "--all-features",
    "--package",
    "trueup-e2e",
    "--test",
    "crash",
];

/// The generators that look for more: random desired states, and what another writer hangs on ours.
const GENERATORS: [&str; 2] = [
    "no_declaration_is_written_by_a_second_pass",
    "nothing_of_another_writer_goes_unnamed",
];

/// How many cases each of them draws.
const CASES: &str = "2000";

/// Runs it.
pub(crate) fn run() -> Result<()> {
    need_ip()?;
    let steps = Steps::default();
    steps.run("every kill point", || {
        show_and_run(cargo(&KILL_POINTS).env("TRUEUP_CRASH", "all"))
    });
    for test in GENERATORS {
        steps.run(test, || {
            let words = [
                "test",
                "--all-features",
                "--package",
                "trueup-e2e",
                "--test",
                "judges",
                test,
            ];
            let mut generator = cargo(&words);
            generator.env("TRUEUP_CASES", CASES);
            show_and_run(generator.env("TRUEUP_SEED", "random"))
        });
    }
    steps.run("planted faults", || plant::run(&[]));
    steps.run("packages", package::run);
    steps.run("dependencies", deny::run);
    steps.run("other kernels", || vm::run(&[]));
    steps.end()
}

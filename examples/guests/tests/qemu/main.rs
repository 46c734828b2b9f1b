//! Tests with guests of the installed QEMU. Without one the tests are ignored, and say so.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

/// Lists the tests of a module.
macro_rules! tests {
    ($($test:ident),* $(,)?) => {
        pub(crate) const TESTS: &[(&str, fn())] = &[$((stringify!($test), $test)),*];
    };
}
use tests;

mod backend;
mod demo;
mod engine;
mod facts;
mod graph;
mod snapshot;
mod states;
mod support;
mod trace;

use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Trial};
use trueup_guests::host::QEMU;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let version = Command::new(QEMU).arg("--version").stdout(Stdio::null()).status();
    let is_there = version.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!(
            "SKIPPED: all tests of guests, as there is no {QEMU} here: install Debian's qemu-system-x86"
        );
    }
    let tests = [
        facts::TESTS,
        snapshot::TESTS,
        backend::TESTS,
        engine::TESTS,
        graph::TESTS,
        trace::TESTS,
        states::TESTS,
        demo::TESTS,
    ]
    .concat();
    let tests = tests.into_iter().map(|(name, test)| {
        let run = move || {
            test();
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(!is_there)
    });
    libtest_mimic::run(&arguments, tests.collect()).exit_code()
}

//! `cargo xtask sanitize` and `cargo xtask miri`: run the tests without a kernel under
//! AddressSanitizer and under Miri, on a nightly toolchain. The workspace forbids `unsafe` nearly
//! everywhere; the tools check the dependencies' handling of our inputs.
//!
//! There is no ThreadSanitizer here: it needs a standard library built with it. Where threads meet,
//! a model checker is used instead (`crates/core/loop/tests/model`), as part of `cargo xtask test`.

use crate::nightly;
use crate::tools::{Result, joined, show_and_run};

/// The tests that run under AddressSanitizer. The model checker is left out: it switches stacks,
/// which neither tool can follow.
const ADDRESS: [&[&str]; 4] = [
    &["-p", "trueup-net", "--lib", "--tests"],
    &["-p", "trueup-netlink", "--lib", "--test", "it"],
    &["-p", "trueup-loop", "--lib", "--test", "it"],
    &["-p", "trueup-queue", "--test", "it"],
];

/// The tests that run under Miri, which has no sockets and no `poll`.
const MIRI: [&[&str]; 5] = [
    &["-p", "trueup-net", "--lib", "--tests"],
    &["-p", "trueup-netlink", "--lib", "--", "wire::", "extack::", "error::"],
    &["-p", "trueup-netlink", "--test", "it", "codec::"],
    &["-p", "trueup-loop", "--lib"],
    &["-p", "trueup-loop", "--test", "it", "state::"],
];

/// The number of cases for a property: a fraction of a plain test run's, as each takes many times
/// as long.
const ADDRESS_CASES: &str = "32";
const MIRI_CASES: &str = "4";

/// Runs the tests under AddressSanitizer.
pub(crate) fn address() -> Result<()> {
    nightly::need()?;
    // With a named target, build scripts and macros are not instrumented.
    let common = ["test", "--target-dir", "target/sanitize", "--target", &nightly::host()?];
    let variables = [("RUSTFLAGS", "-Zsanitizer=address"), ("PROPTEST_CASES", ADDRESS_CASES)];
    run(&ADDRESS, &common, variables)
}

/// Runs the tests under Miri, if the toolchain has it.
pub(crate) fn miri() -> Result<()> {
    nightly::need()?;
    if !nightly::answers(&["miri", "--version"]) {
        return Err(
            "the nightly toolchain has no Miri: run `rustup component add miri rust-src --toolchain nightly`"
                .to_owned(),
        );
    }
    // Properties store failures in files, and the loop's tests use a clock.
    let variables = [("MIRIFLAGS", "-Zmiri-disable-isolation"), ("PROPTEST_CASES", MIRI_CASES)];
    run(&MIRI, &["miri", "test", "--target-dir", "target/miri"], variables)
}

fn run(all: &[&[&str]], common: &[&str], variables: [(&str, &str); 2]) -> Result<()> {
    let failed = all.iter().filter_map(|tests| {
        let mut command = nightly::cargo(&[common, *tests].concat());
        show_and_run(command.envs(variables)).err()
    });
    joined(&failed.collect::<Vec<_>>())
}

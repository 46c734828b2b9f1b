//! Simulates the whole agent from a seed. The loop's state machine, the rtnetlink source and the
//! journal run on one thread, by a simulated clock, on models of the kernel and of a disk. Other
//! writers act between any two messages, and faults happen anywhere. Each step is checked for all
//! nine invariants. A failure is shrunk and printed as a scenario.
//!
//! `TRUEUP_SEED` is the first seed (by default 1), and `TRUEUP_STEPS` the least number of steps
//! (10,000).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod agent;
mod disk;
mod draw;
mod judge;
mod print;
mod run;
mod script;
mod shrink;
mod wire;
mod world;
mod writers;

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::run::{Done, PANICKED_AT, run};
use crate::script::Script;
use crate::world::Counts;

fn main() -> ExitCode {
    // A panic is a finding, and reported as one.
    std::panic::set_hook(Box::new(|info| {
        let at = info.location().map_or(String::new(), ToString::to_string);
        PANICKED_AT.set(at);
    }));
    let trials = vec![
        Trial::test("the_same_seed_is_the_same_run", the_same_seed_is_the_same_run),
        Trial::test("every_invariant_holds_after_each_step", simulate),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn the_same_seed_is_the_same_run() -> Result<(), Failed> {
    for seed in 1..20 {
        let (one, other) = (run(&Script::draw(seed)), run(&Script::draw(seed)));
        if one.trace != other.trace {
            let at = one.log.iter().zip(&other.log).position(|(one, other)| one != other);
            return Err(format!("seed {seed} differs at line {at:?}").into());
        }
    }
    Ok(())
}

fn simulate() -> Result<(), Failed> {
    let (first, steps) = (number("TRUEUP_SEED", 1), number("TRUEUP_STEPS", 10_000));
    let began = Instant::now();
    let mut counts = Counts::default();
    let mut seed = first;
    while counts.steps < steps {
        let script = Script::draw(seed);
        let done = run(&script);
        counts.add(&done.counts);
        if done.violation.is_some() {
            return Err(describe(&script, &done, counts.steps).into());
        }
        seed += 1;
    }
    println!("{}", summary(&counts, began));
    Ok(())
}

fn summary(counts: &Counts, began: Instant) -> String {
    let seconds = began.elapsed().as_secs_f64();
    let each = counts.steps as f64 / seconds;
    let list = |all: Vec<(String, u64)>| -> String {
        let all = all.into_iter().map(|(kind, count)| format!("\n  {count:>7} {kind}"));
        all.collect()
    };
    let faults = counts.faults.iter().map(|(kind, count)| ((*kind).to_owned(), *count));
    let acts = counts.acts.iter().map(|(kind, count)| (kind.clone(), *count));
    format!(
        "{} steps in {seconds:.1} s, {each:.0} a second; {} runs, {} passes, {} converged\n\
         faults:{}\nother writers' acts:{}",
        counts.steps,
        counts.runs,
        counts.passes,
        counts.converged,
        list(faults.collect()),
        list(acts.collect()),
    )
}

/// Describes the shrunk failure, and how to repeat it.
fn describe(script: &Script, done: &Done, steps: u64) -> String {
    let Some(violation) = &done.violation else {
        return String::new();
    };
    let seed = script.seed;
    if env::var_os("TRUEUP_SHRINK").is_some_and(|value| value == "0") {
        return format!("{violation}\nafter {steps} steps, seed {seed}\n{}", done.log.join("\n"));
    }
    let shrunk = shrink::shrink(script, violation.invariant);
    let shrunk_done = run(&shrunk);
    let shrunk_violation = shrunk_done.violation.as_ref().unwrap_or(violation);
    let scenario = print::scenario(&shrunk, &shrunk_violation.to_string());
    format!(
        "{violation}\nfound after {steps} steps; to repeat it:\n\
         TRUEUP_SEED={seed} TRUEUP_STEPS=1 cargo test -p trueup-e2e --test simulate\n\n\
         shrunk:\n{scenario}\nwhat happened in it:\n{}",
        shrunk_done.log.join("\n"),
    )
}

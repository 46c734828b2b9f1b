//! Random schedules over hosts that export, die, sleep and are cut off, on a store with faults. A
//! checker compares everything that they saw with the store's own history.
//!
//! `TRUEUP_CASES` is the number of schedules (300 by default). `TRUEUP_SEED` is the first seed: a
//! number (0 by default), or `random`.
#![allow(clippy::unwrap_used)]

mod faults;
mod kill;
mod model;
mod schedule;
mod skipped;

use schedule::Run;

/// Reads a number from a variable of the environment.
fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name).as_deref() {
        Ok("random") => fastrand::u64(..1 << 32),
        Ok(number) => number.parse().unwrap(),
        Err(_) => default,
    }
}

#[test]
fn no_change_is_lost_and_none_is_invented() {
    let (first, count) = (number("TRUEUP_SEED", 0), number("TRUEUP_CASES", 300));
    let mut totals = schedule::Counts::default();
    for seed in first..first + count {
        let mut run = Run::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.run(40)));
        if let Err(panic) = result {
            eprintln!("TRUEUP_CASES=1 TRUEUP_SEED={seed}:\n{}", run.log.join("\n"));
            std::panic::resume_unwind(panic);
        }
        totals.add(&run.counts);
    }
    println!("{totals:?}");
    // The schedules must cause the situations that they test.
    let reached = [totals.losses, totals.faults, totals.resyncs, totals.conflicts];
    assert!(count < 100 || !reached.contains(&0));
}

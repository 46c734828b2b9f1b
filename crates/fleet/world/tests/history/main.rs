//! Random schedules over hosts that export, die, sleep and are cut off, on a store with faults, and
//! a checker over all that they saw: the store's own history is the oracle.
//!
//! `TRUEUP_CASES` is how many (300 unless given), and `TRUEUP_SEED` the first seed: a number (0
//! unless given), or `random`.
#![allow(clippy::unwrap_used)]

mod faults;
mod kill;
mod model;
mod schedule;
mod skipped;

use schedule::Run;

/// A number that a variable of the environment gives.
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
    // The schedules reach what they are for.
    let reached = [totals.losses, totals.faults, totals.resyncs, totals.conflicts];
    assert!(count < 100 || !reached.contains(&0));
}

//! Random schedules over hosts that export, die, sleep and are cut off, on a store with faults, and
//! a checker over all that they saw: the store's own history is the oracle.
//!
//! `WORLD_SCHEDULES=10000 cargo test -p trueup-world --features testing --test history`
#![allow(clippy::unwrap_used)]

mod faults;
mod kill;
mod model;
mod schedule;
mod skipped;

use schedule::Run;

fn schedules() -> u64 {
    let count = std::env::var("WORLD_SCHEDULES");
    count.map_or(300, |count| count.parse().unwrap())
}

#[test]
fn no_change_is_lost_and_none_is_invented() {
    let first: u64 = std::env::var("WORLD_SEED").map_or(0, |seed| seed.parse().unwrap());
    let mut totals = schedule::Counts::default();
    for seed in first..first + schedules() {
        let mut run = Run::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.run(40)));
        if let Err(panic) = result {
            eprintln!("WORLD_SEED={seed}:\n{}", run.log.join("\n"));
            std::panic::resume_unwind(panic);
        }
        totals.add(&run.counts);
    }
    println!("{totals:?}");
    // The schedules reach what they are for.
    assert!(totals.losses > 0 && totals.faults > 0 && totals.resyncs > 0 && totals.conflicts > 0);
}

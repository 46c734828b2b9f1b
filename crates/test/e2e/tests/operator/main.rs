//! A random operator and a running agent: edits, directories that move, mounts, full disks,
//! signals, clocks that jump, and a removed state directory. After each burst the operator restores
//! a sane world. Then the agent must converge, leave foreign objects alone, and leak nothing.
//!
//! The default run draws the same bursts each time, for some seconds. `TRUEUP_LONG=1` draws others
//! for ten minutes; `TRUEUP_SECONDS` sets the time, `TRUEUP_SEED` the seed: a number, or `random`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests; clippy knows only those of the usual harness"
)]

mod acts;
mod commands;
mod declared;
mod edits;
mod folders;
mod judge;
mod log;
mod network;
mod process;
mod site;

use std::env;
use std::time::{Duration, Instant, SystemTime};

use fastrand::Rng;

use crate::acts::Acts;
use crate::site::Site;

trueup_testkit::kernel_tests![
    an_agent_that_is_never_restarted_converges_after_each_burst_and_leaks_nothing,
    an_agent_that_is_killed_and_restarted_converges_after_each_burst,
    log::a_line_that_is_repeated_is_found,
];

/// The default seed of the bursts.
const SEED: u64 = 17;

/// One process for all bursts, so that leaks add up.
fn an_agent_that_is_never_restarted_converges_after_each_burst_and_leaks_nothing() {
    operate(Acts::WithoutRestarts);
}

fn an_agent_that_is_killed_and_restarted_converges_after_each_burst() {
    operate(Acts::All);
}

fn operate(acts: Acts) {
    let is_long = trueup_testkit::is_long();
    let seconds = env::var("TRUEUP_SECONDS").map(|text| text.parse().unwrap());
    let seconds = seconds.unwrap_or(if is_long { 600 } else { 12 });
    let seed = match env::var("TRUEUP_SEED").as_deref() {
        Ok("random") => fresh_seed(),
        // The judges use the same variable for seeds of another form.
        Ok(text) => text.parse().expect("TRUEUP_SEED: a number, or `random`"),
        Err(_) if is_long => fresh_seed(),
        Err(_) => SEED,
    };
    println!("{acts:?}: TRUEUP_SEED={seed} TRUEUP_SECONDS={seconds}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut site = Site::new(acts, Rng::with_seed(seed), seed);
    site.begin();
    while Instant::now() < end {
        site.burst();
    }
    println!("{acts:?}: {}", site.end());
}

fn fresh_seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id())
}

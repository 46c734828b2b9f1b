//! Measures the latency of a change of the desired state: from the call of `Handle::change` to the
//! source's pass with the change, and to the caller that waits for the change to converge.
//!
//! `cargo run --release --example latency -p trueup-loop`

use std::convert::Infallible;
use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::{Config, Loop};
use trueup_reconcile::{MemoryLedger, PassInput, Report, Source};

const CHANGES: usize = 10_000;

/// A source that only notes the time of its passes.
struct Clock;

struct Noted(Instant);

impl Report for Noted {
    fn converged(&self) -> bool {
        true
    }
}

impl Source for Clock {
    type Scope = ();
    type Desired = Vec<u64>;
    type Options = ();
    type Report = Noted;
    type Observed = ();
    type Error = Infallible;

    fn reconcile(&mut self, _: PassInput<'_, Self>) -> Result<Noted, Infallible> {
        Ok(Noted(Instant::now()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let long = Duration::from_secs(10);
    for size in [1_000, 1_000_000] {
        let config = Config::default();
        let it = Loop::new(Clock, (), vec![0; size], MemoryLedger::default(), (), config);
        let running = it.spawn("latency")?;
        let handle = running.handle();
        let (mut there, mut back) = (Vec::new(), Vec::new());
        for at in 0..CHANGES {
            // Let the loop go to sleep first.
            thread::sleep(Duration::from_micros(200));
            let began = Instant::now();
            let change = move |all: &mut Vec<u64>| all[at % size] += 1;
            let revision = handle.change(change)?;
            let report = handle.wait_converged(revision, long)?;
            back.push(began.elapsed());
            there.push(report.0.saturating_duration_since(began));
        }
        println!("{size} objects, {CHANGES} changes");
        tell("to the source", &mut there);
        tell("and back", &mut back);
        running.stop(long)?;
    }
    Ok(())
}

fn tell(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    println!(
        "  {what}: median {:?}, a tenth under {:?}, a tenth over {:?}, one in a hundred over {:?}",
        at(50),
        at(10),
        at(90),
        at(99)
    );
}

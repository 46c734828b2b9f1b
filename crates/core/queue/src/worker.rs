//! The threads that run jobs.

use std::io;
use std::sync::Arc;

use crate::deadlock::{Place, run_within};
use crate::ready::{Ready, Timekeeper, Turn};
use crate::shared::Shared;
use crate::sync::thread::{Builder, yield_now};
use crate::sync::{MutexGuard, lock, now, wait, wait_until};
use crate::task::Counts;

/// How often a worker looks for work before it sleeps.
const LOOKS: u32 = 8;

/// Starts the worker with this number.
pub(crate) fn start<K: Send + 'static>(shared: &Arc<Shared<K>>, number: usize) -> io::Result<()> {
    let name = format!("{}-{number}", shared.config.name);
    lock(&shared.ready).workers += 1;
    let worker = Arc::clone(shared);
    let started = Builder::new().name(name).spawn(move || run(&worker, number));
    if let Err(error) = started {
        lock(&shared.ready).workers -= 1;
        return Err(error);
    }
    Ok(())
}

fn run<K>(shared: &Shared<K>, number: usize) {
    let workers = shared.config.workers.get();
    let counts = &shared.admitted.workers[number];
    let mut ready = lock(&shared.ready);
    while let Some(Turn { lane, job, .. }) = next(shared, counts, ready) {
        let queue = shared.id;
        run_within(Place { queue, lane }, workers, || job.run(counts));
        ready = shared.finish(lane);
    }
}

/// Returns the next turn; `None` once the queue is closed and this worker has nothing to do.
fn next<'a, K>(
    shared: &'a Shared<K>,
    counts: &Counts,
    mut ready: MutexGuard<'a, Ready>,
) -> Option<Turn> {
    // True if this worker counts as searching.
    let mut searches = false;
    let mut looks = 0;
    loop {
        if !ready.timers.is_empty() {
            let due = ready.take_due(now());
            if !due.is_empty() {
                drop(ready);
                shared.release_lanes(due);
                ready = lock(&shared.ready);
            }
        }
        if let Some(turn) = ready.pop() {
            ready.searching -= usize::from(searches);
            let wake = if ready.turns.is_empty() { ready.wake_for_timers() } else { ready.wake() };
            // Under the lock, so that the job is always ready or counted as taken.
            Counts::add_one(&counts.taken);
            drop(ready);
            wake.send(&shared.signals);
            return Some(turn);
        }
        if ready.is_closed {
            // If a lane has more jobs, a worker is running one of it and will take the next.
            ready.searching -= usize::from(searches);
            ready.workers -= 1;
            if ready.workers == 0 {
                shared.signals.ended.notify_all();
            }
            return None;
        }
        if !searches && ready.searching == 0 {
            searches = true;
            ready.searching += 1;
        }
        // A sleep and a wake-up cost more than a few looks at new work.
        if searches && looks < LOOKS {
            looks += 1;
            drop(ready);
            yield_now();
            ready = lock(&shared.ready);
            continue;
        }
        ready.free_unused();
        if shared.has_unused() {
            drop(ready);
            shared.free_unused();
            ready = lock(&shared.ready);
            continue;
        }
        ready.searching -= usize::from(searches);
        ready = sleep(shared, ready);
        searches = true;
        looks = 0;
    }
}

/// Sleeps until there may be work. Afterwards the worker counts as searching.
fn sleep<'a, K>(shared: &'a Shared<K>, mut ready: MutexGuard<'a, Ready>) -> MutexGuard<'a, Ready> {
    let first = ready.timers.first().copied();
    match first {
        Some(first) if ready.timekeeper == Timekeeper::Absent => {
            ready.timekeeper = Timekeeper::Waiting;
            ready = wait_until(&shared.signals.timer, ready, Some(first.due));
            ready.searching += usize::from(ready.timekeeper == Timekeeper::Waiting);
            ready.timekeeper = Timekeeper::Absent;
        }
        _ => {
            ready.sleeping += 1;
            while ready.woken == 0 {
                ready = wait(&shared.signals.work, ready);
            }
            ready.woken -= 1;
            ready.sleeping -= 1;
        }
    }
    ready
}

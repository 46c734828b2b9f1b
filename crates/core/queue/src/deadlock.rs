//! The waits of jobs for tickets. A wait that cannot end is refused at its beginning.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::lane::LaneId;
use crate::task::Job;
use crate::{Error, sync};

/// A lane, identified among all queues' lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) queue: u64,
    pub(crate) lane: LaneId,
}

/// The lane whose job a thread runs, and the number of its queue's workers.
type Current = Cell<Option<(Place, usize)>>;

sync::thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "the model's macro has no const")]
    static CURRENT: Current = Current::new(None);
}

/// The waits of jobs, by the waiting job's lane.
///
/// The lock comes from the standard library even in the model: no other lock is taken under it.
static WAITS: Mutex<BTreeMap<Place, Wait>> = Mutex::new(BTreeMap::new());

/// A wait for a job of another lane.
struct Wait {
    awaited: Place,
    job: Arc<dyn Job>,
}

/// True if the wait is not about to end.
fn is_open(wait: &&Wait) -> bool {
    !wait.job.has_ended()
}

fn waits() -> MutexGuard<'static, BTreeMap<Place, Wait>> {
    WAITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a lane's job on this thread, one of `workers` threads.
pub(crate) fn run_within(place: Place, workers: usize, run: impl FnOnce()) {
    let outer = CURRENT.with(|current| current.replace(Some((place, workers))));
    run();
    CURRENT.with(|current| current.set(outer));
}

/// True if this thread runs a job of that lane.
pub(crate) fn is_within(place: Place) -> bool {
    current().is_some_and(|(within, _)| within == place)
}

/// True if this thread runs a job of that queue.
pub(crate) fn is_within_queue(queue: u64) -> bool {
    current().is_some_and(|(within, _)| within.queue == queue)
}

fn current() -> Option<(Place, usize)> {
    // A destructor of another thread-local value may wait after this one is gone.
    CURRENT.try_with(Current::get).ok().flatten()
}

/// A wait in progress; dropping it ends the wait.
pub(crate) struct Waiting(Place);

impl Drop for Waiting {
    fn drop(&mut self) {
        let ended = waits().remove(&self.0);
        drop(ended);
    }
}

/// Begins a wait for a job of `awaited` that has not ended; `None` outside of all jobs.
pub(crate) fn enter(awaited: Place, job: Arc<dyn Job>) -> Result<Option<Waiting>, Error> {
    let Some((own, workers)) = current() else {
        return Ok(None);
    };
    let mut waits = waits();
    let mut next = Some(awaited);
    while let Some(place) = next {
        if place == own {
            return Err(Error::Deadlock);
        }
        next = waits.get(&place).filter(is_open).map(|wait| wait.awaited);
    }
    let others = waits.iter().filter(|(waiting, wait)| {
        waiting.queue == own.queue && wait.awaited.queue == own.queue && is_open(wait)
    });
    if awaited.queue == own.queue && others.count() + 1 >= workers {
        return Err(Error::Deadlock);
    }
    waits.insert(own, Wait { awaited, job });
    Ok(Some(Waiting(own)))
}

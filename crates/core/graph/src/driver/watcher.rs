//! The thread that keeps the subscriptions of vertices, and waits for their descriptors.

use std::sync::Arc;

use trueup_reconcile::{Drained, Subscription};

use super::cell::{Cell, Place};
use super::shared::Shared;
use crate::error::ErrorKind;
use crate::panics::{catch, discard};
use crate::sync::{Builder, Mutex, Wakeup, lock};
use crate::{Error, Failure};

/// A subscription, with its vertex.
type Watched = (Arc<Cell>, Box<dyn Subscription<Failure> + Send>);

pub(super) struct Watcher {
    wakeup: Wakeup,
    /// What the thread is to take over.
    added: Mutex<Vec<Watched>>,
}

impl Watcher {
    pub(super) fn new() -> Result<Self, Error> {
        let wakeup = Wakeup::new().map_err(|error| {
            let message = format!("cannot create an event descriptor: {error}");
            Error::new(ErrorKind::Os, message)
        })?;
        Ok(Watcher { wakeup, added: Mutex::new(Vec::new()) })
    }

    /// Has the thread look at what has changed.
    pub(super) fn wake(&self) {
        self.wakeup.wake();
    }

    pub(super) fn add(
        &self,
        cell: &Arc<Cell>,
        subscription: Box<dyn Subscription<Failure> + Send>,
    ) {
        lock(&self.added).push((Arc::clone(cell), subscription));
        self.wake();
    }
}

pub(super) fn start(shared: &Arc<Shared>) -> Result<(), Error> {
    lock(&shared.core).threads += 1;
    let own = Arc::clone(shared);
    let spawned = Builder::new().name("graph-watch".to_owned()).spawn(move || {
        run(&own);
        lock(&own.core).threads -= 1;
        own.changed.notify_all();
    });
    spawned.map(drop).map_err(|error| {
        lock(&shared.core).threads -= 1;
        Error::new(ErrorKind::Os, format!("cannot start a thread: {error}"))
    })
}

fn run(shared: &Shared) {
    let mut all: Vec<Watched> = Vec::new();
    while !lock(&shared.core).is_stopping {
        let added = std::mem::take(&mut *lock(&shared.watcher.added));
        for watched in added {
            // The latest one of a vertex counts.
            if let Some(at) = all.iter().position(|it| Arc::ptr_eq(&it.0, &watched.0)) {
                discard(all.swap_remove(at));
            }
            all.push(watched);
        }
        let is_over = |it: &mut Watched| !it.0.place().is_some_and(Place::is_watching);
        all.extract_if(.., is_over).for_each(discard);
        let (mut polled, mut descriptors) = (Vec::new(), Vec::new());
        for (at, (_, subscription)) in all.iter().enumerate() {
            if let Ok(Some(descriptor)) = catch(|| Ok(subscription.descriptor())) {
                polled.push(at);
                descriptors.push(descriptor);
            }
        }
        let readable = shared.watcher.wakeup.wait(&descriptors);
        let readable: Vec<usize> = polled
            .into_iter()
            .zip(readable)
            .filter(|(_, is_readable)| *is_readable)
            .map(|(at, _)| at)
            .collect();
        // From the last one, as those that end are removed.
        let hinted = readable.into_iter().rev();
        let hinted: Vec<Arc<Cell>> = hinted.filter_map(|at| drain(shared, &mut all, at)).collect();
        shared.hint(hinted.iter().filter_map(|cell| cell.place()));
        hinted.into_iter().for_each(discard);
    }
    all.into_iter().for_each(discard);
}

/// Returns the vertex if it has a hint.
fn drain(shared: &Shared, all: &mut Vec<Watched>, at: usize) -> Option<Arc<Cell>> {
    let (cell, subscription) = &mut all[at];
    match catch(|| subscription.drain()) {
        Ok(Drained::Nothing) => None,
        Ok(Drained::Hint | Drained::Lost) => Some(Arc::clone(cell)),
        Err(failure) => {
            let mut core = lock(&shared.core);
            core.unwatched(cell, failure);
            shared.wake(&mut core);
            drop(core);
            discard(all.swap_remove(at));
            None
        }
    }
}

//! The threads that call vertices and write records.

use std::sync::Arc;

use trueup_reconcile::{Hints, LedgerError};

use super::calls::{Call, call};
use super::cell::{Cell, Place};
use super::shared::{Core, Shared, stopped};
use crate::error::ErrorKind;
use crate::panics::{catch, discard};
use crate::sync::{Builder, MutexGuard, lock, now, wait_until};
use crate::{Action, Error, Failure, Record, Watch};

/// What a thread has to do.
pub(super) enum Job {
    Watch(Arc<Cell>),
    /// One, or those of a group.
    Run(Vec<Call>),
    Write(Vec<(Arc<str>, Record)>),
}

/// Starts a worker.
pub(super) fn start(shared: &Arc<Shared>, number: usize) -> Result<(), Error> {
    spawn(shared, &format!("graph-{number}"), run)
}

/// Starts a thread that vertices are declared to run on.
pub(super) fn start_named(shared: &Arc<Shared>, name: &Arc<str>) -> Result<(), Error> {
    let thread = Arc::clone(name);
    spawn(shared, name, move |shared| run_named(shared, &thread))
}

fn spawn(
    shared: &Arc<Shared>,
    name: &str,
    run: impl FnOnce(&Arc<Shared>) + Send + 'static,
) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| {
        let message = format!("cannot start thread {name:?}: {error}");
        Err(Error::new(ErrorKind::Os, message))
    };
    if name.contains('\0') {
        return failed(&"its name has a NUL byte; choose another");
    }
    lock(&shared.core).threads += 1;
    let own = Arc::clone(shared);
    let spawned = Builder::new().name(name.to_owned()).spawn(move || {
        run(&own);
        lock(&own.core).threads -= 1;
        own.changed.notify_all();
    });
    match spawned {
        Ok(_) => Ok(()),
        Err(error) => {
            lock(&shared.core).threads -= 1;
            failed(&error)
        }
    }
}

fn run(shared: &Arc<Shared>) {
    let mut core = lock(&shared.core);
    loop {
        if let Some(job) = core.next_job(shared) {
            core = execute(shared, core, job);
        } else if core.is_stopping && core.executing == 0 {
            break;
        } else {
            // Looking for a job can bring the graph to rest: a run that was to apply is given up.
            shared.wake_callers(&core);
            core = shared.sleep(core);
        }
    }
    shared.work.notify_all();
    shared.named_work.notify_all();
}

fn run_named(shared: &Arc<Shared>, name: &str) {
    let mut core = lock(&shared.core);
    loop {
        if let Some(job) = core.named.get_mut(name).and_then(|jobs| jobs.pop_front()) {
            core = execute(shared, core, job);
            // It does not look itself what there is to do.
            shared.wake_worker(&mut core);
        } else if core.is_stopping && core.executing == 0 {
            break;
        } else {
            core = wait_until(&shared.named_work, core, None);
        }
    }
}

fn execute<'a>(
    shared: &'a Arc<Shared>,
    mut core: MutexGuard<'a, Core>,
    job: Job,
) -> MutexGuard<'a, Core> {
    // Another one does what else there is to do.
    shared.wake_worker(&mut core);
    drop(core);
    let mut core = match job {
        Job::Watch(cell) => {
            drop(watch(shared, &cell));
            // It may be the last hold of a vertex that has left: it is dropped without the lock.
            discard(cell);
            lock(&shared.core)
        }
        Job::Run(calls) => call(shared, calls),
        Job::Write(records) => write(shared, &records),
    };
    core.executing -= 1;
    shared.wake_callers(&core);
    if core.is_stopping {
        shared.work.notify_all();
        shared.named_work.notify_all();
    }
    core
}

impl Core {
    /// Returns the next job for a worker. Those of named threads go to these.
    fn next_job(&mut self, shared: &Arc<Shared>) -> Option<Job> {
        loop {
            let action = self.state.poll_action(now())?;
            let (vertex, job) = match action {
                Action::Persist { records } => {
                    self.executing += 1;
                    return Some(Job::Write(records));
                }
                Action::Watch { .. } if self.is_stopping => continue,
                Action::Watch { vertex } => {
                    let cell = Arc::clone(&self.cells[vertex.0 as usize]);
                    (vertex, Job::Watch(cell))
                }
                Action::Run { run, vertex, context } => {
                    (vertex, Job::Run(vec![self.begin(shared, run, vertex, context)]))
                }
                Action::RunGroup { runs } => {
                    let vertex = runs[0].1;
                    let begin = |(run, vertex, context)| self.begin(shared, run, vertex, context);
                    (vertex, Job::Run(runs.into_iter().map(begin).collect()))
                }
            };
            self.executing += 1;
            let thread = &self.state.graph().vertices[vertex.0 as usize].rare().thread;
            match thread.as_ref().and_then(|it| self.named.get_mut(it)) {
                Some(jobs) => {
                    jobs.push_back(job);
                    shared.named_work.notify_all();
                }
                None => return Some(job),
            }
        }
    }
}

fn write<'a>(shared: &'a Shared, records: &[(Arc<str>, Record)]) -> MutexGuard<'a, Core> {
    let failure = {
        let mut ledger = lock(&shared.ledger);
        let written = match &mut *ledger {
            Some(ledger) => catch(|| Ok(crate::records::write(&mut **ledger, records))),
            None => Ok(Err(LedgerError::new(stopped()))),
        };
        match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(panic) => Some(panic.to_string()),
        }
    };
    let mut core = lock(&shared.core);
    core.state.handle_persisted(now(), failure.is_none());
    core.ledger_failure = failure;
    shared.recorded.notify_all();
    core
}

fn watch<'a>(shared: &'a Arc<Shared>, cell: &Arc<Cell>) -> MutexGuard<'a, Core> {
    let weak = Arc::downgrade(shared);
    let place = cell.place().cloned();
    let hints = Hints::new(move || {
        if let Some((shared, place)) = weak.upgrade().zip(place.as_ref()) {
            shared.hint([place]);
        }
    });
    let result = {
        let mut vertex = lock(&cell.vertex);
        catch(|| vertex.watch(hints))
    };
    let mut core = lock(&shared.core);
    match result {
        Err(failure) => core.unwatched(cell, failure),
        Ok(watch) => {
            if let Some(vertex) = cell.vertex_id() {
                core.state.handle_ready(now(), vertex);
            }
            // Under the lock: should the watch end at once, that comes after it was ready.
            if let Watch::Active(subscription) = watch {
                shared.watcher.add(cell, subscription);
            }
        }
    }
    core
}

impl Core {
    /// Takes note that a vertex is not watched, or no longer.
    pub(super) fn unwatched(&mut self, cell: &Cell, failure: Failure) {
        if let Some(vertex) = cell.vertex_id() {
            self.messages.insert(vertex, failure.message().to_owned());
            let delay = self.state.graph().vertices[vertex.0 as usize].delay;
            self.state.handle_unwatched(now(), vertex, delay);
        }
    }
}

impl Shared {
    /// Takes a hint of each of these vertices. Those that came together are all known before one of
    /// them runs, so that they run in order.
    pub(super) fn hint<'a>(&self, places: impl IntoIterator<Item = &'a Place>) {
        let mut core = lock(&self.core);
        for vertex in places.into_iter().filter_map(Place::vertex) {
            core.state.handle_event(now(), vertex);
        }
        self.wake(&mut core);
    }
}

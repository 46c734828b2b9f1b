//! The threads' jobs: they call vertices and write records.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::LedgerError;

use super::cell::{catch, discard};
use super::runs;
use super::shared::{Core, Job, JobWaker, Shared, stopped};
use crate::runner::{Due, Task};
use crate::sync::{MutexGuard, lock, now};
use crate::{Action, Record};

/// How long a thread does jobs before the runner looks for other due tasks.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// The task that takes the vertices' events, and does the jobs on all threads at once. Its members
/// are the vertices that wait for events, and one more for jobs.
pub(super) struct Work(pub(super) Arc<Shared>);

impl Task for Work {
    fn turn(&self, mut due: Due<'_>) -> ControlFlow<()> {
        let shared = &self.0;
        let hinted = shared.events(&mut due);
        let begun = now();
        let mut core = shared.come();
        core.hint(&hinted);
        core.waker.begin();
        // From now on, another thread may enter this task too.
        drop(due);
        while let Some(job) = core.next_job(shared) {
            core = execute(shared, core, job);
            if now().saturating_duration_since(begun) > LONGEST_TURN {
                core.waker.wake();
                return ControlFlow::Continue(());
            }
        }
        let wakers = core.take_wakers();
        // Looking for a job can bring the graph to rest, by giving up a run that was to apply.
        shared.wake_callers(&mut core);
        shared.wake_worker(&mut core);
        let flow = core.end_if_over();
        drop(core);
        // A panic of a waker must end no task of the graph.
        for waker in wakers {
            let _ = catch(|| {
                waker.wake();
                Ok(())
            });
        }
        flow
    }

    fn stop(&self) {
        self.0.begin_stop();
    }
}

/// The task of a vertex's named thread.
pub(super) struct NamedWork {
    pub(super) shared: Arc<Shared>,
    pub(super) thread: Arc<str>,
}

impl Task for NamedWork {
    fn turn(&self, mut due: Due<'_>) -> ControlFlow<()> {
        let shared = &self.shared;
        let hinted = shared.events(&mut due);
        let mut core = lock(&shared.core);
        core.hint(&hinted);
        shared.wake(&mut core);
        while let Some(job) = core.next_job_of(&self.thread) {
            core = execute(shared, core, job);
            // A named thread does not look for other jobs itself.
            shared.wake_worker(&mut core);
        }
        if core.is_stopping {
            // A worker ends the threads, after the records of this thread's runs are written.
            core.waker.wake();
        }
        ControlFlow::Continue(())
    }

    fn stop(&self) {
        self.shared.begin_stop();
    }
}

impl Shared {
    /// Wakes a worker if there is a job, now or later, unless one is about to look anyway. That
    /// worker wakes the next.
    pub(super) fn wake_worker(&self, core: &mut Core) {
        if self.is_one_coming() {
            return;
        }
        if core.state.has_action() {
            core.waker.wake();
        } else if let Some(at) = core.state.poll_timeout() {
            core.waker.wake_at(at);
        }
    }
}

fn execute<'a>(
    shared: &'a Arc<Shared>,
    mut core: MutexGuard<'a, Core>,
    job: Job,
) -> MutexGuard<'a, Core> {
    // Another worker takes the remaining jobs.
    shared.wake_worker(&mut core);
    drop(core);
    let mut core = match job {
        Job::Watch(cell) => {
            drop(shared.watch(&cell));
            // This may be the last reference to a vertex that left, so drop it without the lock.
            discard(cell);
            lock(&shared.core)
        }
        Job::Run(calls) => runs::execute(shared, calls),
        Job::Write(records) => write(shared, &records),
    };
    core.executing -= 1;
    shared.wake_callers(&mut core);
    core
}

impl Core {
    /// Returns a worker's next job. Jobs of named threads go to their queues.
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
                    let calls = runs.into_iter().map(|it| self.begin(shared, it.0, it.1, it.2));
                    (vertex, Job::Run(calls.collect()))
                }
            };
            self.executing += 1;
            let thread = &self.state.graph().vertices[vertex.0 as usize].rare().thread;
            match thread.as_ref().and_then(|it| self.named.get_mut(it)) {
                Some(named) => {
                    named.jobs.push_back(job);
                    named.member.wake();
                }
                None => return Some(job),
            }
        }
    }

    fn next_job_of(&mut self, thread: &str) -> Option<Job> {
        self.named.get_mut(thread)?.jobs.pop_front()
    }

    /// Ends the threads if the driver is stopping and no job is left.
    fn end_if_over(&mut self) -> ControlFlow<()> {
        if !self.is_stopping || self.executing > 0 {
            return ControlFlow::Continue(());
        }
        self.waker = JobWaker::default();
        self.named.clear();
        // None of these is the last reference to its vertex.
        self.watched.clear();
        ControlFlow::Break(())
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

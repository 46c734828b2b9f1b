//! The state that a driver's threads and callers share.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use trueup_reconcile::Ledger;

use super::call::Call;
use super::cell::{Cell, discard};
use crate::error::ErrorKind;
use crate::ports::Value;
use crate::runner::Member;
use crate::sync::{Condvar, Mutex, MutexGuard, WakerId, Wakers, lock, now};
use crate::{Error, Record, RunId, State, VertexId};

pub(super) struct Shared {
    pub(super) core: Mutex<Core>,
    /// Wakes runs that wait for the record of their announcement.
    pub(super) recorded: Condvar,
    /// Wakes callers that wait for a change of the core.
    pub(super) changed: Condvar,
    /// `None` once the driver has stopped.
    pub(super) ledger: Mutex<Option<Box<dyn Ledger + Send>>>,
    /// The number of workers that wait for the lock and will look for jobs.
    pub(super) coming: AtomicUsize,
}

/// The state under the lock.
pub(super) struct Core {
    pub(super) state: State,
    /// The cells, by the vertex numbers of the state's graph.
    pub(super) cells: Vec<Arc<Cell>>,
    /// The last value of each port, by sender's name and port.
    pub(super) values: BTreeMap<(Arc<str>, Arc<str>), Value>,
    /// The deadlines of the runs with a timeout that a thread executes, or is about to.
    pub(super) deadlines: BTreeMap<RunId, (Arc<str>, Instant)>,
    /// The last failure's message of each vertex.
    pub(super) messages: BTreeMap<VertexId, String>,
    /// The number of jobs in progress, or waiting for their named thread.
    pub(super) executing: usize,
    pub(super) waker: JobWaker,
    /// The jobs of named threads, by the thread's name.
    pub(super) named: BTreeMap<Arc<str>, Named>,
    /// The vertices that wait for events, by their members' numbers.
    pub(super) watched: BTreeMap<u64, (Arc<Cell>, Member)>,
    /// The number of waiting threads.
    pub(super) waiting: usize,
    /// The waiting tasks. A worker wakes them, without the lock.
    pub(super) wakers: Wakers,
    /// True if a task may wait.
    pub(super) has_tasks: bool,
    pub(super) is_stopping: bool,
    /// The flag for runs that begin from now on. Runs that a pause interrupted keep theirs.
    pub(super) is_interrupted: Arc<AtomicBool>,
    /// The message of the last failure to write records.
    pub(super) ledger_failure: Option<String>,
}

impl Shared {
    /// Makes a worker and the waiting callers look at the change.
    pub(super) fn wake(&self, core: &mut Core) {
        self.wake_worker(core);
        self.wake_callers(core);
    }

    /// Wakes the callers that wait for the graph to be at rest, if it is.
    pub(super) fn wake_callers(&self, core: &mut Core) {
        if (core.waiting > 0 || core.has_tasks) && core.is_at_rest() {
            self.changed.notify_all();
            if core.has_tasks {
                core.waker.wake();
            }
        }
    }

    /// Locks the core for a worker that will look for jobs.
    pub(super) fn come(&self) -> MutexGuard<'_, Core> {
        self.coming.fetch_add(1, Ordering::SeqCst);
        let core = lock(&self.core);
        self.coming.fetch_sub(1, Ordering::SeqCst);
        core
    }

    /// True if a worker waits for the lock and will look for jobs.
    pub(super) fn is_one_coming(&self) -> bool {
        self.coming.load(Ordering::SeqCst) > 0
    }

    /// Drops the ledger, once nothing is written any more.
    pub(super) fn drop_ledger(&self) {
        let ledger = lock(&self.ledger).take();
        discard(ledger);
    }

    pub(super) fn begin_stop(&self) {
        let mut core = lock(&self.core);
        core.is_stopping = true;
        core.is_interrupted.store(true, Ordering::SeqCst);
        core.state.handle_pause(now());
        core.waker.wake();
        core.named.values().for_each(|it| it.member.wake());
        self.changed.notify_all();
        self.recorded.notify_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A panic in the drop of a vertex, a value or the ledger must not stop the other drops or
        // the caller.
        let mut core = lock(&self.core);
        let (values, cells) = (std::mem::take(&mut core.values), std::mem::take(&mut core.cells));
        drop(core);
        values.into_values().for_each(discard);
        cells.into_iter().for_each(discard);
        self.drop_ledger();
    }
}

/// The condition that a call or a task waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    Converged,
    Idle,
    Paused,
}

impl Core {
    /// Returns the result of a wait; `None` while it goes on.
    pub(super) fn answer(&self, until: Until, now: Instant) -> Option<Result<(), Error>> {
        let is_reached = match until {
            Until::Converged => self.state.is_converged(now),
            Until::Idle => self.executing == 0 && self.state.is_idle(),
            Until::Paused => self.state.is_quiesced(),
        };
        match is_reached {
            true => Some(Ok(())),
            false => self.is_stopping.then(|| Err(stopped())),
        }
    }

    /// Returns when an unanswered wait must look again, although nothing happened. It is later than
    /// the time given to [`answer`](Self::answer), or the wait would look all the time.
    pub(super) fn looks_again_at(&self, until: Until) -> Option<Instant> {
        match until {
            Until::Converged => self.state.converges_at(),
            Until::Idle | Until::Paused => None,
        }
    }

    fn is_at_rest(&self) -> bool {
        let state = &self.state;
        state.is_idle() || state.is_quiesced() || state.converges_at().is_some()
    }

    /// Takes the wakers of the tasks that should look again; wake them after the lock is released.
    pub(super) fn take_wakers(&mut self) -> impl Iterator<Item = Waker> + use<> {
        let are_due = self.has_tasks && (self.is_stopping || self.is_at_rest());
        self.has_tasks &= !are_due;
        are_due.then(|| self.wakers.take()).into_iter().flatten()
    }
}

/// The future of a call that waits.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    until: Until,
    waker: WakerId,
}

impl Waiting {
    pub(super) fn new(shared: &Arc<Shared>, until: Until) -> Self {
        Waiting { shared: Arc::clone(shared), until, waker: WakerId::default() }
    }
}

impl Future for Waiting {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // Cloned before the lock, and dropped after it: a waker may own anything.
        let waker = context.waker().clone();
        let mut core = lock(&this.shared.core);
        if let Some(answer) = core.answer(this.until, now()) {
            return Poll::Ready(answer);
        }
        let replaced = core.wakers.set(&mut this.waker, waker);
        core.has_tasks = true;
        if let Some(at) = core.looks_again_at(this.until) {
            core.waker.wake_at(at);
        }
        drop(core);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let waker = lock(&self.shared.core).wakers.remove(&self.waker);
        drop(waker);
    }
}

/// A job for a thread.
pub(super) enum Job {
    Watch(Arc<Cell>),
    /// One vertex's call, or the calls of a group.
    Run(Vec<Call>),
    Write(Vec<(Arc<str>, Record)>),
}

/// The pending jobs of a named thread.
pub(super) struct Named {
    pub(super) member: Member,
    pub(super) jobs: VecDeque<Job>,
}

impl Named {
    pub(super) fn new(member: Member) -> Self {
        Named { member, jobs: VecDeque::new() }
    }
}

/// Wakes a thread to look for jobs.
#[derive(Default)]
pub(super) struct JobWaker {
    member: Option<Member>,
    /// True if a thread was woken and has not yet looked.
    is_woken: bool,
    /// When the thread will look by itself.
    at: Option<Instant>,
}

impl JobWaker {
    pub(super) fn set(&mut self, member: Member) {
        self.member = Some(member);
    }

    pub(super) fn member(&self) -> Option<&Member> {
        self.member.as_ref()
    }

    pub(super) fn begin(&mut self) {
        (self.is_woken, self.at) = (false, None);
    }

    pub(super) fn wake(&mut self) {
        if !std::mem::replace(&mut self.is_woken, true) {
            self.member.iter().for_each(Member::wake);
        }
    }

    pub(super) fn wake_at(&mut self, at: Instant) {
        if !self.is_woken && self.at.is_none_or(|earlier| at < earlier) {
            self.at = Some(at);
            self.member.iter().for_each(|it| it.wake_at(at));
        }
    }
}

/// Finds a vertex by name, or the reversal of that name.
pub(super) fn find_any(core: &Core, name: &str) -> Result<VertexId, Error> {
    find(core, name).or_else(|error| {
        let graph = core.state.graph();
        let mut reversals = graph.own as u32..graph.len() as u32;
        let found = reversals.find(|&at| **graph.name(at) == *name);
        found.map(VertexId).ok_or(error)
    })
}

pub(super) fn find(core: &Core, name: &str) -> Result<VertexId, Error> {
    core.state.graph().find(name).ok_or_else(|| unknown(name))
}

pub(super) fn unknown(name: &str) -> Error {
    let message = format!("vertex {name}: the graph has none of that name");
    Error::new(ErrorKind::UnknownVertex, message)
}

pub(super) fn stopped() -> Error {
    Error::new(ErrorKind::Stopped, "the driver has been stopped".to_owned())
}

/// Returns an error that names the first vertices which did not finish.
pub(super) fn timed_out(core: &Core, what: &str) -> Error {
    const NAMED: usize = 3;
    let vertices = 0..core.state.graph().len() as u32;
    let open = vertices.filter_map(|at| core.explain(VertexId(at)));
    let open: Vec<_> = open
        .filter(|it| it.running || it.cause.is_some())
        .map(|it| it.to_string())
        .take(NAMED)
        .collect();
    let mut message = format!("{what} in time: {}", open.join("; "));
    if let Some(failure) = &core.ledger_failure {
        message.push_str(&format!("; records are not written: {failure}"));
    }
    Error::new(ErrorKind::TimedOut, message)
}

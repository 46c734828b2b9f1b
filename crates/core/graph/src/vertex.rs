//! What a vertex does.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Instant;

use trueup_reconcile::{ErrorClass, Hints};

use crate::ports::{self, Input, Sends, Value};
use crate::sync::{Mutex, lock};
use crate::{Failure, Turn, Verdict};

/// A part of a system that a [`Driver`](crate::Driver) brings into its declared state.
///
/// A closure `FnMut(&RunContext, bool) -> Result<Verdict, Failure>` is a vertex.
///
/// - Calls of one vertex never overlap. They come from several threads, unless the vertex has a
///   [thread](crate::VertexSpec::with_thread).
/// - A panic is a failure of the vertex of class `Unknown`.
/// - A call ends: a vertex bounds its waits, and asks
///   [`should_continue`](RunContext::should_continue) between two steps.
pub trait Vertex: Any + Send {
    /// Compares, and if `apply` is true makes what differs as declared. If `apply` is false, it
    /// changes nothing.
    ///
    /// If [`refreshes`](RunContext::refreshes) is not 0 and `apply` is true, the vertex acts even
    /// if all is as declared.
    ///
    /// # Errors
    ///
    /// When the state could not be read, or is not as declared after all.
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure>;

    /// Does for this vertex and `others` what [`check_apply`](Self::check_apply) does for each, at
    /// once: most often as one plan. They are those of its [group](crate::VertexSpec::with_group)
    /// that run together; none of them is a parent of another. `contexts` has this vertex's first,
    /// and so has the result.
    ///
    /// `(other as &mut dyn Any).downcast_mut::<Self>()` finds out whether another one is of the
    /// same type. By default, and if the result is `None`, each is called alone, one after the
    /// other.
    fn check_apply_group(
        &mut self,
        _others: &mut [&mut dyn Vertex],
        _contexts: &[RunContext],
        _apply: bool,
    ) -> Option<Vec<Result<Verdict, Failure>>> {
        None
    }

    /// Returns whether the vertex [announces](RunContext::will_change) what it changes before it
    /// changes something. Then it is not checked before it applies, for the sake of those that are
    /// refreshed by it. By default it does not.
    fn announces(&self) -> bool {
        false
    }

    /// Begins to watch: from its return on, what may have changed is reported by `hints` or by
    /// [`events`](Self::events). Returns true if `events` is to be called: at once, when what it
    /// waits for has come, and when `waker` is woken. By default the vertex reports nothing: it
    /// runs when its parents do, and by [`Driver::event`](crate::Driver::event).
    ///
    /// # Errors
    ///
    /// When it cannot be watched. It is tried again after the vertex's delay, and does not run
    /// before.
    fn watch(&mut self, _hints: Hints, _waker: Waker) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Takes the events that wait, without blocking, and tells the turn what the vertex waits for
    /// next: a descriptor, an instant, or nothing but a wake-up. Returns when the vertex is to run
    /// because of them, unless it runs or is called again before; that instant it waits for too. It
    /// is called if [`watch`](Self::watch) has returned true, and not while the vertex runs.
    ///
    /// # Errors
    ///
    /// When no more events will come. The vertex is [watched](Self::watch) again after its delay.
    fn events(&mut self, _turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        Ok(None)
    }

    /// Returns whether the vertex gives records of what it makes: then that is also undone if the
    /// vertex leaves the graph while no driver runs. By default there are no records.
    fn records(&self) -> Records {
        Records::None
    }

    /// Returns bytes that suffice to undo, in another process, what the vertex has made, and what
    /// it would make if it applied now; `None` if there is nothing to undo.
    ///
    /// It is asked after each [`check_apply`](Self::check_apply) that succeeds. What it returns
    /// after a check is durable before the vertex applies. The bytes have to undo both what is
    /// there before and what will be there. A vertex that is to apply, and finds that it would make
    /// something else than its record says, returns [`Verdict::WouldChange`]: it is called again
    /// once the new record is durable.
    fn record(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes over what an earlier process, or another declaration of this name, made: `record` is
    /// what that has given. True if the vertex keeps or undoes it from now on. If false, it is
    /// undone before the vertex runs.
    ///
    /// It comes before the first run; it may come twice, and also if the vertex is then not used.
    /// By default a vertex takes over what has an equal record.
    fn adopt(&mut self, record: &[u8]) -> bool {
        self.record().as_deref() == Some(record)
    }

    /// Undoes what the vertex made, because it has left the graph. By default nothing is undone.
    ///
    /// # Errors
    ///
    /// When it could not be undone, or is kept because undoing is not safe. It is tried again as a
    /// failed run is.
    fn reverse(&mut self, _context: &RunContext) -> Result<Verdict, Failure> {
        Ok(Verdict::InPlace)
    }
}

impl<F> Vertex for F
where
    F: FnMut(&RunContext, bool) -> Result<Verdict, Failure> + Send + 'static,
{
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        self(context, apply)
    }
}

/// Whether a vertex gives records of what it makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// It gives none: what it made is undone only by the process that it was part of.
    #[default]
    None,
    /// They say what was made. Each run begins with a check, so that the record of what it will
    /// make is durable before.
    Varying,
    /// They are always the same: as long as the record is in the journal, a run needs no check.
    Constant,
}

/// What a call of a vertex is to know.
#[derive(Clone)]
pub struct RunContext {
    pub(crate) refreshes: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) is_interrupted: Arc<AtomicBool>,
    pub(crate) inputs: Vec<Input>,
    /// `None` if the vertex sends nothing.
    pub(crate) outbox: Option<Arc<Outbox>>,
    pub(crate) warning: Arc<Mutex<Option<String>>>,
    /// The kinds of what the run changes, if it has said it.
    pub(crate) kinds: Arc<Mutex<Option<BTreeSet<Arc<str>>>>>,
    /// Has an announcement recorded. `None` if there is nothing to wait for.
    pub(crate) announce: Option<Arc<Announce>>,
}

/// Returns true once what a run changes is recorded; false if the run is to end.
pub(crate) type Announce = dyn Fn(Vec<Arc<str>>) -> bool + Send + Sync;

/// What a run may send, and has sent.
pub(crate) struct Outbox {
    ports: Vec<Sends>,
    sent: Mutex<BTreeMap<Arc<str>, Value>>,
}

impl RunContext {
    pub(crate) fn new(
        refreshes: u32,
        deadline: Option<Instant>,
        is_interrupted: Arc<AtomicBool>,
        sends: &[Sends],
    ) -> Self {
        RunContext {
            refreshes,
            deadline,
            is_interrupted,
            inputs: Vec::new(),
            warning: Arc::default(),
            kinds: Arc::default(),
            announce: None,
            outbox: (!sends.is_empty())
                .then(|| Arc::new(Outbox { ports: sends.to_vec(), sent: Mutex::default() })),
        }
    }

    /// Returns the number of refreshes that are pending.
    pub fn refreshes(&self) -> u32 {
        self.refreshes
    }

    /// Returns when the run is to end, if the vertex has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// True if the next step may begin: false once the deadline has passed, or the driver is to
    /// pause or stop. A run that then fails is repeated after the pause, and counts as no failure.
    pub fn should_continue(&self) -> bool {
        !self.is_interrupted() && self.deadline.is_none_or(|at| crate::sync::now() < at)
    }

    /// Returns the value that was received by a port. The second is true if it differs from that
    /// which the vertex received in its last successful run, and if it has had none.
    ///
    /// # Errors
    ///
    /// The vertex does not receive by this port, or another type; or it is being reversed.
    pub fn received<T: Any + Send + Sync>(&self, port: &str) -> Result<(Arc<T>, bool), Failure> {
        ports::received(&self.inputs, port)
    }

    /// Sends a value by a port. It counts once this call of the vertex has succeeded; the last one
    /// of a run counts. Without a restart it stays until another is sent.
    ///
    /// # Errors
    ///
    /// The vertex does not declare this port, or another type.
    pub fn send<T: Any + PartialEq + Send + Sync>(
        &self,
        port: &str,
        value: T,
    ) -> Result<(), Failure> {
        let ports = self.outbox.as_ref().map_or(&[][..], |it| &it.ports);
        let port = ports::check_sent::<T>(ports, port)?;
        if let Some(outbox) = &self.outbox {
            let before = lock(&outbox.sent).insert(port, Arc::new(value));
            drop(before);
        }
        Ok(())
    }

    /// Says of which kinds what the run is about to change is, such as `route`, or would change if
    /// it applied. Vertices that are [refreshed by these
    /// kinds](crate::VertexSpec::refreshed_by_kind), or by all, have a refresh then, also if this
    /// process is killed afterwards. Without a word of it, a run changes every kind.
    ///
    /// A vertex that [announces](Vertex::announces) calls this before it changes something. It
    /// waits for the record, so no lock may be held that another vertex needs.
    ///
    /// # Errors
    ///
    /// The run is interrupted, or its time is over: it changes nothing more, and fails.
    pub fn will_change<'a>(&self, kinds: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
        let kinds: Vec<Arc<str>> = kinds.into_iter().map(Arc::from).collect();
        lock(&self.kinds).get_or_insert_default().extend(kinds.iter().cloned());
        if self.announce.as_ref().is_none_or(|announce| announce(kinds)) {
            return Ok(());
        }
        let message = "interrupted before it was recorded what is to be changed; it is tried again";
        Err(Failure::new(ErrorClass::Busy, message))
    }

    /// Says of which kinds what the run has changed is, instead of what it has
    /// [announced](Self::will_change).
    pub fn has_changed<'a>(&self, kinds: impl IntoIterator<Item = &'a str>) {
        *lock(&self.kinds) = Some(kinds.into_iter().map(Arc::from).collect());
    }

    /// Returns the kinds of what the run changes, if it has said it.
    pub(crate) fn kinds(&self) -> Option<BTreeSet<Arc<str>>> {
        lock(&self.kinds).clone()
    }

    /// Says what the operator is to know although the run succeeds: it is the vertex's
    /// [message](crate::Explanation::message) until its next run. The last one of a run counts.
    pub fn warn(&self, message: impl fmt::Display) {
        *lock(&self.warning) = Some(message.to_string());
    }

    /// Returns what the run has warned of so far.
    pub fn warning(&self) -> Option<String> {
        lock(&self.warning).clone()
    }

    /// Takes what was sent.
    pub(crate) fn take_sent(&self) -> BTreeMap<Arc<str>, Value> {
        let sent = self.outbox.as_ref();
        sent.map(|it| std::mem::take(&mut *lock(&it.sent))).unwrap_or_default()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for RunContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunContext")
            .field("refreshes", &self.refreshes)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

//! The trait of a vertex, and a run's context.

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
/// - A panic counts as a failure of class `Unknown`.
/// - A call must end: a vertex limits its waits, and asks
///   [`should_continue`](RunContext::should_continue) between two steps.
///
/// ```
/// use trueup_graph::{Failure, RunContext, Verdict, Vertex};
///
/// struct Count { is: u8, wanted: u8 }
///
/// impl Vertex for Count {
///     fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
///         Ok(match (self.is == self.wanted, apply) {
///             (true, _) => Verdict::InPlace,
///             (false, false) => Verdict::WouldChange,
///             (false, true) => {
///                 self.is = self.wanted;
///                 Verdict::Changed
///             }
///         })
///     }
/// }
/// ```
pub trait Vertex: Any + Send {
    /// Compares the actual state with the declared one. If `apply` is true, corrects the
    /// differences; if not, changes nothing.
    ///
    /// If [`refreshes`](RunContext::refreshes) is not 0 and `apply` is true, the vertex acts even
    /// if nothing differs.
    ///
    /// # Errors
    ///
    /// The state could not be read, or still differs after the correction.
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure>;

    /// Does the work of [`check_apply`](Self::check_apply) for this vertex and `others` at once,
    /// usually as one plan. They are the vertices of its [group](crate::VertexSpec::with_group)
    /// that run together; none is a parent of another. `contexts` and the result begin with this
    /// vertex's entry.
    ///
    /// To find out if another vertex has the same type, use
    /// `(other as &mut dyn Any).downcast_mut::<Self>()`. If the result is `None`, which is the
    /// default, the driver calls each vertex alone, one after the other.
    fn check_apply_group(
        &mut self,
        _others: &mut [&mut dyn Vertex],
        _contexts: &[RunContext],
        _apply: bool,
    ) -> Option<Vec<Result<Verdict, Failure>>> {
        None
    }

    /// Returns true if the vertex [announces](RunContext::will_change) its changes before it makes
    /// them. The driver then skips the check that would otherwise precede a run for the sake of
    /// refreshed vertices. The default is false.
    fn announces(&self) -> bool {
        false
    }

    /// Begins to watch: after it returns, `hints` or [`events`](Self::events) report possible
    /// changes. Returns true if the driver is to call `events`: at once, when the event that it
    /// waits for has come, and when `waker` is woken. By default the vertex reports nothing: it
    /// runs when its parents do, and by [`Driver::event`](crate::Driver::event).
    ///
    /// # Errors
    ///
    /// The watch cannot begin. The driver tries again after the vertex's delay; the vertex does not
    /// run before.
    fn watch(&mut self, _hints: Hints, _waker: Waker) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Takes the pending events without blocking, and tells the turn what to wait for next: a
    /// descriptor, an instant, or only a wake-up. Returns the instant at which the vertex should
    /// run because of these events, unless it runs or is called earlier; the driver waits for this
    /// instant, too. The driver calls it only if [`watch`](Self::watch) returned true, and not
    /// while the vertex runs.
    ///
    /// # Errors
    ///
    /// No more events will come. The driver [watches](Self::watch) the vertex again after its
    /// delay.
    fn events(&mut self, _turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        Ok(None)
    }

    /// Returns the kind of records that the vertex gives. With records, its work is also undone if
    /// the vertex leaves the graph while no driver runs. By default there are no records.
    fn records(&self) -> Records {
        Records::None
    }

    /// Returns bytes from which another process can undo what the vertex has made, and what it
    /// would make if it applied now; `None` if there is nothing to undo.
    ///
    /// The driver asks after each successful [`check_apply`](Self::check_apply), and makes the
    /// result of a check durable before the vertex applies. The bytes must suffice to undo both the
    /// state before the run and the state after it. If a vertex is to apply and finds that it would
    /// make something its record does not cover, it returns [`Verdict::WouldChange`]: the driver
    /// calls it again once the new record is durable.
    fn record(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes over the work of an earlier process, or of another declaration of this name; `record`
    /// is its record. Returns true if the vertex keeps or undoes that work from now on. If false,
    /// the driver undoes it before the vertex runs.
    ///
    /// The call comes before the first run. It may come twice, and also for a vertex that is then
    /// not used. By default, a vertex takes over work with a record equal to its own.
    fn adopt(&mut self, record: &[u8]) -> bool {
        self.record().as_deref() == Some(record)
    }

    /// Undoes the vertex's work because it has left the graph. By default, undoes nothing.
    ///
    /// # Errors
    ///
    /// The work could not be undone, or undoing it is not safe. The driver tries again, as after a
    /// failed run.
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

/// The kind of records that a vertex gives of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Records {
    /// No records: only the process that made something undoes it.
    #[default]
    None,
    /// Records that differ between runs. Each run begins with a check, to make the record durable
    /// before the run makes anything.
    Varying,
    /// A record that never changes: while it is in the journal, a run needs no check.
    Constant,
}

/// The context of a vertex's call: its refreshes, deadline and ports.
#[derive(Clone)]
pub struct RunContext {
    pub(crate) refreshes: u32,
    pub(crate) deadline: Option<Instant>,
    pub(crate) is_interrupted: Arc<AtomicBool>,
    pub(crate) inputs: Vec<Input>,
    /// `None` if the vertex sends nothing.
    pub(crate) outbox: Option<Arc<Outbox>>,
    pub(crate) warning: Arc<Mutex<Option<String>>>,
    /// The kinds of the run's changes; `None` if it named none.
    pub(crate) kinds: Arc<Mutex<Option<BTreeSet<Arc<str>>>>>,
    /// Records an announcement. `None` if there is nothing to wait for.
    pub(crate) announce: Option<Arc<Announce>>,
}

/// Returns true once a run's announced changes are recorded; false if the run should end.
pub(crate) type Announce = dyn Fn(Vec<Arc<str>>) -> bool + Send + Sync;

/// The ports that a run may send by, and the values sent.
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

    /// Returns the number of pending refreshes; if it is not 0, a run that applies must act.
    pub fn refreshes(&self) -> u32 {
        self.refreshes
    }

    /// Returns the time limit's end; `None` if the vertex has no timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// True if the next step may begin. False once the deadline has passed, or the driver is about
    /// to pause or stop. A run that then fails is repeated after the pause, and does not count as a
    /// failure.
    pub fn should_continue(&self) -> bool {
        !self.is_interrupted() && self.deadline.is_none_or(|at| crate::sync::now() < at)
    }

    /// Returns the value received by a port. The boolean is true if the value differs from the one
    /// of the vertex's last successful run, or if there was no such run.
    ///
    /// # Errors
    ///
    /// The vertex does not receive by this port or this type, or it is being reversed.
    pub fn received<T: Any + Send + Sync>(&self, port: &str) -> Result<(Arc<T>, bool), Failure> {
        ports::received(&self.inputs, port)
    }

    /// Sends a value by a port. The value takes effect once this call of the vertex has succeeded;
    /// a later value of the same run replaces it. It stays until the next one is sent, or the
    /// process ends.
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

    /// Announces the kinds of change, such as `route`, that the run is about to make, or would make
    /// if it applied. Vertices [refreshed by these kinds](crate::VertexSpec::refreshed_by_kind), or
    /// by all, then have a refresh, even if this process is killed afterwards. A run that names no
    /// kind changes every kind.
    ///
    /// A vertex that [announces](Vertex::announces) calls this before it changes something. The
    /// call waits for the record, so the caller must hold no lock that another vertex needs.
    ///
    /// # Errors
    ///
    /// The run is interrupted, or its time is over: it must change nothing more, and fail.
    pub fn will_change<'a>(&self, kinds: impl IntoIterator<Item = &'a str>) -> Result<(), Failure> {
        let kinds: Vec<Arc<str>> = kinds.into_iter().map(Arc::from).collect();
        lock(&self.kinds).get_or_insert_default().extend(kinds.iter().cloned());
        if self.announce.as_ref().is_none_or(|announce| announce(kinds)) {
            return Ok(());
        }
        let message = "interrupted before it was recorded what is to be changed; it is tried again";
        Err(Failure::new(ErrorClass::Busy, message))
    }

    /// Sets the kinds of the changes that the run has made, in place of the
    /// [announced](Self::will_change) ones.
    pub fn has_changed<'a>(&self, kinds: impl IntoIterator<Item = &'a str>) {
        *lock(&self.kinds) = Some(kinds.into_iter().map(Arc::from).collect());
    }

    /// Returns the kinds of the run's changes; `None` if it named none.
    pub(crate) fn kinds(&self) -> Option<BTreeSet<Arc<str>>> {
        lock(&self.kinds).clone()
    }

    /// Sets a warning for the operator although the run succeeds: it is the vertex's
    /// [message](crate::Explanation::message) until its next run. A later warning of the same run
    /// replaces it.
    pub fn warn(&self, message: impl fmt::Display) {
        *lock(&self.warning) = Some(message.to_string());
    }

    /// Returns the run's last warning so far.
    pub fn warning(&self) -> Option<String> {
        lock(&self.warning).clone()
    }

    /// Takes the values that the run has sent.
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

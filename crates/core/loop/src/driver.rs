//! The driver: carries out the state machine's actions, one at a time.

use std::collections::BTreeMap;
use std::mem;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use trueup_reconcile::{
    BeforeChange, Condition, ErrorClass, Extent, Ledger, OpKey, PassInput, PassLimits, Report,
    Source, Status, Subscribed,
};

use crate::control::{Control, Events, MayPass, Next};
use crate::handle::Shared;
use crate::sync::now;
use crate::turns::{Turn, Turns};
use crate::{
    Action, Budget, Config, Error, ErrorKind, Handle, PassSummary, Revision, SubscriptionState,
    trace,
};

type OnPass<'a, S> =
    dyn FnMut(Revision, Result<&<S as Source>::Report, &<S as Source>::Error>) + Send + 'a;
type OnReport<'a, S> = dyn FnMut(&<S as Source>::Report) + Send + 'a;
type OnSubscribe<'a, S> = dyn FnMut(Subscribed<(), &<S as Source>::Error>) + Send + 'a;

/// Runs passes of a source until it is stopped.
///
/// It subscribes, runs the first pass at once, and then a full pass at each interval. A hint or a
/// handle can request an earlier one. Each pass gets the same ledger; the loop itself does not use
/// it.
///
/// ```
#[doc = include_str!("docs/easy.txt")]
/// # use trueup_loop::{Config, Loop};
/// # fn main() -> Result<(), trueup_loop::Error> {
/// let it = Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default());
/// let handle = it.handle();
/// // The callback ends the loop after its first pass.
/// it.on_report(move |_, result| {
///     assert!(result.is_ok());
///     handle.stop();
/// })
/// .run()?;
/// # Ok(())
/// # }
/// ```
pub struct Loop<'a, S: Source> {
    // Dropped in this order: all other fields go before handles see the end.
    source: S,
    scope: S::Scope,
    desired: S::Desired,
    ledger: Box<dyn Ledger + Send + 'a>,
    options: S::Options,
    callbacks: Callbacks<'a, S>,
    /// The desired state of the last pass, if the pass gave a report.
    last_reported: Option<Revision>,
    /// The error that ended the scope.
    scope_error: Option<Arc<S::Error>>,
    /// The pass that has begun and not ended, between two turns.
    open: Option<OpenPass<S::Report>>,
    has_begun: bool,
    /// True if the last rest waits for the descriptor.
    is_listening: bool,
    shared: Arc<Shared<S>>,
    _on_drop: OnDrop<S>,
}

/// The parts of a loop that a question may read, for [`Handle::ask`].
#[non_exhaustive]
pub struct LoopView<'a, S: Source> {
    /// The source, as the last pass left it.
    pub source: &'a S,
    /// The source's scope, as given to [`Loop::new`].
    pub scope: &'a S::Scope,
    /// The desired state of the last pass.
    pub desired: &'a S::Desired,
    /// The ledger that each pass gets.
    pub ledger: &'a dyn Ledger,
    /// The source's options, as given to [`Loop::new`].
    pub options: &'a S::Options,
    /// The backoff of failed ops: [`PassLimits::backoff`].
    pub limits: PassLimits<'a>,
}

/// The caller's callbacks. They run on the loop's thread.
struct Callbacks<'a, S: Source> {
    report: Box<OnPass<'a, S>>,
    subscribe: Box<OnSubscribe<'a, S>>,
    drift: Box<OnReport<'a, S>>,
    contention: Box<OnReport<'a, S>>,
    overrun: Box<dyn FnMut(u64) + Send + 'a>,
}

impl<'a, S: Source> Loop<'a, S> {
    /// Creates a loop for [`run`](Self::run). `ledger` is the source's ledger in this scope: a
    /// durable one, or a [`MemoryLedger`](trueup_reconcile::MemoryLedger) if a restart may forget.
    /// The loop drops the ledger before it reports its end, so a caller that waited can open it
    /// again.
    pub fn new(
        source: S,
        scope: S::Scope,
        desired: S::Desired,
        ledger: impl Ledger + Send + 'a,
        options: S::Options,
        config: Config,
    ) -> Self {
        let shared = Arc::new(Shared::new(Control::new(config)));
        let on_drop = OnDrop(Arc::clone(&shared));
        Loop {
            source,
            scope,
            desired,
            ledger: Box::new(ledger),
            options,
            callbacks: Callbacks {
                report: Box::new(|_, _| {}),
                subscribe: Box::new(|_| {}),
                drift: Box::new(|_| {}),
                contention: Box::new(|_| {}),
                overrun: Box::new(|_| {}),
            },
            last_reported: None,
            scope_error: None,
            open: None,
            has_begun: false,
            is_listening: false,
            shared,
            _on_drop: on_drop,
        }
    }

    /// Shares a budget with the other loops that have it, in place of the settings' own budget.
    /// Loops whose passes overlap can exceed it by one burst each.
    pub fn with_budget(self, budget: &Budget) -> Self {
        self.shared.control.share_budget(budget);
        self
    }

    /// Sets a callback for every pass, on the loop's thread. It gets the revision of the pass's
    /// desired state, and the report or the reason why the pass could not run. The pass is done
    /// once all callbacks have returned. Only then a forced pass or a pause returns.
    pub fn on_report(
        mut self,
        call: impl FnMut(Revision, Result<&S::Report, &S::Error>) + Send + 'a,
    ) -> Self {
        self.callbacks.report = Box::new(call);
        self
    }

    /// Sets a callback for the subscription, on the loop's thread: for its first result, for a
    /// later failure, and for its recovery, but not for each repeated failure.
    /// [`Handle::subscribed`] returns the same result.
    pub fn on_subscribe(mut self, call: impl FnMut(Subscribed<(), &S::Error>) + Send + 'a) -> Self {
        self.callbacks.subscribe = Box::new(call);
        self
    }

    /// Sets a callback for drift, after [`on_report`](Self::on_report): the report has ops although
    /// an earlier pass over the same desired state converged, so another writer has changed the
    /// system.
    pub fn on_drift(mut self, call: impl FnMut(&S::Report) + Send + 'a) -> Self {
        self.callbacks.drift = Box::new(call);
        self
    }

    /// Sets a callback for contention, after [`on_report`](Self::on_report): another writer removes
    /// or changes our objects repeatedly ([`Report::contended`]).
    pub fn on_contention(mut self, call: impl FnMut(&S::Report) + Send + 'a) -> Self {
        self.callbacks.contention = Box::new(call);
        self
    }

    /// Sets a callback for a loss of events in the subscription, with the number of losses so far.
    /// A full pass follows automatically.
    pub fn on_overrun(mut self, call: impl FnMut(u64) + Send + 'a) -> Self {
        self.callbacks.overrun = Box::new(call);
        self
    }

    /// Returns the loop's controls. They work at once; the loop carries out their requests when it
    /// runs.
    pub fn handle(&self) -> Handle<S> {
        self.shared.handle()
    }

    /// Runs the loop on the calling thread until a handle stops it or the scope is gone.
    ///
    /// A panic of the source, of a callback, of a [change](Handle::change) or of a
    /// [question](Handle::ask) propagates to the caller, and the loop has ended for handles.
    ///
    /// # Errors
    ///
    /// [`ScopeEnded`](ErrorKind::ScopeEnded); [`Os`](ErrorKind::Os) if the operating system refuses
    /// the descriptor that wakes the loop.
    pub fn run(mut self) -> Result<(), Error> {
        let turns = Turns::new().map_err(Error::os)?;
        let member = turns.add(0);
        self.set_waker(member.waker());
        member.wake();
        let mut buffer = Vec::new();
        loop {
            // There is always one, because these turns are not stopped.
            for turn in turns.next(&mut buffer).into_iter().flat_map(|(_, due)| due) {
                match self.turn(turn.is_readable()) {
                    Step::Ended(result) => return result,
                    Step::Rest(rest) if !rest.is_pass_due => self.sleep(turn, rest),
                    _ => turn.again(),
                }
            }
        }
    }

    pub(crate) fn control(&self) -> Arc<Control> {
        Arc::clone(&self.shared.control)
    }

    /// Schedules the next turn of a [`Task`](crate::Task): when the loop's rest ends. A
    /// [wake-up](Self::set_waker) can bring it forward.
    pub fn sleep(&self, turn: Turn<'_>, rest: Rest) {
        turn.sleep(rest.until, self.descriptor().filter(|_| rest.is_listening));
    }

    /// Answers the handles' questions.
    fn answer(&self) {
        let questions = self.shared.mailbox.with(|it| mem::take(&mut it.questions));
        if questions.is_empty() {
            return;
        }
        let control = &*self.shared.control;
        control.begin_calls();
        let backoff = |key: OpKey| control.time_to_retry(key);
        for question in questions.into_values() {
            let mut limits = PassLimits::default();
            if control.has_backoff() {
                limits = limits.with_backoff(&backoff);
            }
            question(LoopView {
                source: &self.source,
                scope: &self.scope,
                desired: &self.desired,
                ledger: &*self.ledger,
                options: &self.options,
                limits,
            });
            control.answered();
        }
    }

    /// Returns the next step, after the drained events. A pass gets the latest desired state at
    /// this moment.
    fn next(&mut self, drained: Option<Events>, may_pass: MayPass) -> Result<Next, u64> {
        let shared = &self.shared;
        let (next, sent) = shared.control.next(drained, may_pass, || {
            shared.mailbox.with(|it| (it.desired.take(), mem::take(&mut it.changes)))
        })?;
        let (declared, changes) = sent.unwrap_or_default();
        if let Some((revision, declared)) = declared {
            self.desired = declared;
            self.note_changed(revision);
        }
        for (revision, change) in changes {
            change(&mut self.desired);
            self.note_changed(revision);
        }
        Ok(next)
    }

    /// Notes the objects that a revision has changed.
    fn note_changed(&mut self, revision: Revision) {
        let keys = self.source.changed_keys(&self.desired, &self.options);
        self.shared.control.changed(keys.as_deref());
        self.shared.board.note_changed(revision, keys);
    }

    fn subscribe(&mut self) {
        match self.source.subscribe(&self.scope, self.shared.subscription_hints()) {
            Subscribed::Active(()) => {
                (self.callbacks.subscribe)(Subscribed::Active(()));
                self.shared.note_subscribed(Subscribed::Active(()));
                self.shared.control.subscribed(match self.source.descriptor() {
                    Some(_) => SubscriptionState::Polled,
                    None => SubscriptionState::Pushed,
                });
            }
            Subscribed::Unsupported => {
                (self.callbacks.subscribe)(Subscribed::Unsupported);
                self.shared.note_subscribed(Subscribed::Unsupported);
                self.shared.control.subscribed(SubscriptionState::Unsupported);
            }
            Subscribed::Failed(error) => {
                self.subscription_failed(error);
                self.shared.control.subscribed(SubscriptionState::Failed);
            }
        }
    }

    fn drain(&mut self) -> Events {
        match self.source.drain() {
            Ok(drained) => Events(Some(drained)),
            Err(error) => {
                self.shared.control.begin_calls();
                self.subscription_failed(error);
                Events(None)
            }
        }
    }

    fn subscription_failed(&mut self, error: S::Error) {
        let error = Arc::new(error);
        let before = self.shared.note_subscribed(Subscribed::Failed(Arc::clone(&error)));
        if !matches!(before, Some(Subscribed::Failed(_))) {
            trace::subscription_failed(&*error);
            (self.callbacks.subscribe)(Subscribed::Failed(&error));
        }
        if S::is_scope_gone(&error) {
            self.shared.note_error(&error);
            self.scope_error = Some(error);
            self.shared.control.stop();
        }
    }

    /// Runs a pass. It stays open if it only looked, and would change something.
    fn run_pass(&mut self, open: OpenPass<S::Report>, asked: &Asked<'_>) -> Step {
        self.shared.control.set_busy(true);
        let step = self.pass_of_source(open, asked);
        self.shared.control.set_busy(false);
        step
    }

    fn pass_of_source(&mut self, open: OpenPass<S::Report>, asked: &Asked<'_>) -> Step {
        let OpenPass { extent, ops, revision, .. } = open;
        let control = &*self.shared.control;
        let should_continue = || control.should_continue() && (asked.should_continue)();
        let backoff = |key: OpKey| control.backoff(key);
        let mut limits = PassLimits::default()
            .with_extent(extent)
            .with_due(&open.due)
            .with_should_continue(&should_continue)
            .with_before_change(asked.before_change);
        if self.last_reported.take() == Some(revision) {
            limits = limits.with_same_desired();
        }
        match (asked.apply, ops) {
            (false, _) => limits = limits.with_ops(0),
            (true, Some(ops)) => limits = limits.with_ops(ops),
            (true, None) => {}
        }
        if control.has_backoff() {
            limits = limits.with_backoff(&backoff);
        }
        let outcome = open.span.within(|| {
            self.source.reconcile(
                PassInput::new(&self.scope, &self.desired, &mut *self.ledger, &self.options)
                    .with_limits(limits),
            )
        });
        match outcome {
            Ok(report) => {
                self.last_reported = Some(revision);
                let mut open = open;
                let statuses = &mut open.statuses;
                report.statuses(&mut |key, status| drop(statuses.insert(key, status.cloned())));
                let is_over = report.converged() || !report.is_truncated();
                open.report = Some(report);
                if !asked.apply && !is_over {
                    // As after any pass that was cut short: the source need not know which objects
                    // it has left.
                    open.extent = Extent::Everything;
                    open.looked = now();
                    self.open = Some(open);
                    return Step::Looked;
                }
                self.finish(open);
            }
            Err(error) => {
                control.source_done();
                open.span.failed(&error);
                let error = Arc::new(error);
                self.shared.note_error(&error);
                let status = Some(Arc::new(scope_status(&*error)));
                self.shared.board.update(vec![(OpKey::SCOPE, status)]);
                open.span.within(|| (self.callbacks.report)(revision, Err(&*error)));
                let is_scope_gone = S::is_scope_gone(&error);
                self.scope_error = is_scope_gone.then_some(error);
                self.shared.control.pass_done(None, is_scope_gone);
                self.shared.forget_converged();
            }
        }
        Step::Passed
    }

    /// Ends a pass that gave a report.
    fn finish(&mut self, open: OpenPass<S::Report>) {
        let OpenPass { span, report, .. } = open;
        let Some(report) = report else { return };
        let control = &*self.shared.control;
        let would_be_drift = control.source_done();
        let is_tracked: &dyn Fn(OpKey) -> bool = &|key| control.is_tracked(key);
        let summary = PassSummary::of(&report, control.has_backoff().then_some(is_tracked));
        span.done(&summary);
        control.outcomes(&summary);
        // A pass has run, so the scope no longer has a status.
        let of_scope = [(OpKey::SCOPE, None)];
        let statuses = open.statuses.into_iter().chain(of_scope);
        self.shared.board.update(statuses.collect());
        let report = Arc::new(report);
        let replaced = self.shared.store_report(&report, summary.converged);
        // A converged pass that applied nothing has only retried what other writers offer.
        let has_drifted = summary.has_applied() || !summary.converged;
        let is_drift = would_be_drift && has_drifted && !summary.ops.is_empty();
        span.within(|| self.call_back(open.revision, &report, is_drift));
        self.shared.control.pass_done(Some(&summary), false);
        if !summary.converged {
            self.shared.forget_converged();
        }
        // Old reports may be large, so they are dropped once no call waits.
        drop(replaced);
    }

    fn call_back(&mut self, revision: Revision, report: &S::Report, is_drift: bool) {
        (self.callbacks.report)(revision, Ok(report));
        if is_drift {
            (self.callbacks.drift)(report);
        }
        if report.contended() > 0 {
            (self.callbacks.contention)(report);
        }
    }
}

/// Returns the scope's status after a pass that could not run.
fn scope_status(error: &(dyn std::error::Error + 'static)) -> Status {
    let condition =
        Condition::Failed { class: ErrorClass::Unknown, errno: None, message: error.to_string() };
    Status::new(Status::SCOPE, "as a whole", condition)
}

/// A caller's limits for a pass.
struct Asked<'a> {
    /// False if the pass may change nothing.
    apply: bool,
    /// The caller's own limit: the pass stops once this returns false.
    should_continue: &'a (dyn Fn() -> bool + Sync),
    /// Called before ops are carried out.
    before_change: BeforeChange<'a>,
}

impl Asked<'_> {
    /// The limits of a pass that may do everything.
    const ALL: Asked<'static> =
        Asked { apply: true, should_continue: &|| true, before_change: &|_| true };
}

/// A pass that has begun.
struct OpenPass<R> {
    span: trace::Pass,
    /// The end of its last look.
    looked: Instant,
    extent: Extent,
    ops: Option<u64>,
    revision: Revision,
    due: Vec<OpKey>,
    /// The statuses that have changed so far.
    statuses: BTreeMap<OpKey, Option<Arc<Status>>>,
    /// Its findings, if it has only looked so far.
    report: Option<R>,
}

/// After this time, a pass that only looked must look again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// The result of [`Loop::poll`] and [`Loop::pass`].
#[derive(Clone, Debug)]
pub enum Step {
    /// No pass ran, and nothing else is due now.
    Rest(Rest),
    /// A pass ran to its end: see [`Handle::last_report`] and [`Handle::last_error`].
    Passed,
    /// A pass with `apply` false would change something. It continues in the next [`Loop::pass`],
    /// and then looks at everything.
    Looked,
    /// The loop has ended, with the result of [`Loop::run`]: drop it.
    Ended(Result<(), Error>),
}

/// The events, besides a wake-up, that a loop waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The time of the next [`Loop::poll`]; `None` if only an event can make one due.
    pub until: Option<Instant>,
    /// True if the caller should also wait for the [descriptor](Loop::descriptor).
    pub is_listening: bool,
    /// When the next pass is due, for [`Loop::pass`], unless a wake-up comes before; `None` if none
    /// is.
    pub pass_at: Option<Instant>,
    /// True if [`Loop::pass`] would run a pass at once. Then `until` is `None`.
    pub is_pass_due: bool,
}

/// Single steps, for a caller that decides when a pass may run.
impl<S: Source> Loop<'_, S> {
    /// Sets the waker for work that is due earlier than the last [`Rest`] said.
    pub fn set_waker(&self, waker: Waker) {
        self.shared.control.set_waker(waker);
    }

    /// Returns the subscription's descriptor, to poll while [`Rest::is_listening`]; `None` without
    /// one.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.source.descriptor()
    }

    /// Does all due work except passes: subscribes, reads events, answers questions. `is_readable`
    /// is true if the descriptor is readable or has failed.
    ///
    /// After a panic of the source or of a callback, drop the loop.
    pub fn poll(&mut self, is_readable: bool) -> Step {
        self.steps(is_readable, MayPass::No, None)
    }

    /// Runs the pass that is due, or the one requested by hints without the rest of its debounce.
    /// If there is none, does nothing unless `is_forced` is true. With `apply` false, the pass
    /// applies no op. The pass begins no further step once `should_continue` returns false, and
    /// asks `before_change` before it carries out ops. Call [`poll`](Self::poll) afterwards.
    ///
    /// After a panic of the source or of a callback, drop the loop.
    pub fn pass(
        &mut self,
        apply: bool,
        is_forced: bool,
        should_continue: &(dyn Fn() -> bool + Sync),
        before_change: BeforeChange<'_>,
    ) -> Step {
        let may_pass = if is_forced { MayPass::Forced } else { MayPass::Requested };
        self.steps(false, may_pass, Some(&Asked { apply, should_continue, before_change }))
    }

    /// Carries out the due work: at most one pass, and its consequences.
    pub(crate) fn turn(&mut self, is_readable: bool) -> Step {
        match self.steps(is_readable, MayPass::Due, Some(&Asked::ALL)) {
            Step::Passed => self.poll(false),
            step => step,
        }
    }

    /// Carries out the next actions, up to a pass, which runs only if `asked`.
    fn steps(
        &mut self,
        is_readable: bool,
        mut may_pass: MayPass,
        asked: Option<&Asked<'_>>,
    ) -> Step {
        if !mem::replace(&mut self.has_begun, true) {
            self.note_changed(Revision::default());
        }
        let is_drained = is_readable && self.is_listening && self.open.is_none();
        let mut drained = is_drained.then(|| self.drain());
        loop {
            self.answer();
            if self.open.is_some() {
                match self.step_of_open(asked) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            match self.next(drained.take(), may_pass) {
                Err(overruns) => {
                    trace::overrun(overruns);
                    (self.callbacks.overrun)(overruns);
                    continue;
                }
                Ok(Next::Do(Action::Subscribe)) => self.subscribe(),
                Ok(Next::Do(Action::Drain)) => drained = Some(self.drain()),
                Ok(Next::Do(Action::Pass { extent, ops, revision })) => {
                    let open = OpenPass {
                        span: trace::Pass::new(extent, revision),
                        looked: now(),
                        extent,
                        ops,
                        revision,
                        due: self.shared.control.due(),
                        statuses: BTreeMap::new(),
                        report: None,
                    };
                    return self.run_pass(open, asked.unwrap_or(&Asked::ALL));
                }
                Ok(Next::Do(Action::End)) => {
                    return Step::Ended(match self.scope_error.take() {
                        None => Ok(()),
                        Some(error) => Err(Error::of_source(ErrorKind::ScopeEnded, error)),
                    });
                }
                Ok(Next::Rest(rest)) => {
                    self.is_listening = rest.is_listening;
                    return Step::Rest(rest);
                }
            }
            if may_pass != MayPass::No {
                // Requested passes are due by now.
                may_pass = MayPass::Due;
            }
        }
    }

    /// Continues the open pass, or ends it with its findings; no other action comes before. If its
    /// desired state is no longer declared, carries out nothing more of it.
    fn step_of_open(&mut self, asked: Option<&Asked<'_>>) -> Option<Step> {
        let control = &self.shared.control;
        let goes_on = control.should_go_on();
        match (self.open.take(), asked) {
            (Some(open), Some(asked)) if goes_on => {
                control.pass_goes_on();
                Some(self.run_pass(open, asked))
            }
            (Some(open), None) if goes_on => {
                let again = open.looked + LOOK_AGAIN;
                self.open = Some(open);
                let is_pass_due = again <= now();
                let until = (!is_pass_due).then_some(again);
                let pass_at = Some(again);
                Some(Step::Rest(Rest { until, is_listening: false, pass_at, is_pass_due }))
            }
            (open, _) => {
                open.into_iter().for_each(|it| self.finish(it));
                None
            }
        }
    }
}

/// Notifies the handles that the loop is dropped: after its end, after a panic, or without a run.
struct OnDrop<S: Source>(Arc<Shared<S>>);

impl<S: Source> Drop for OnDrop<S> {
    fn drop(&mut self) {
        // A panic in the drop of a request, or in a waker, must leave no caller waiting.
        let steps: [&dyn Fn(); 4] = [
            &|| self.0.drop_requests(),
            &|| self.0.board.end(),
            &|| self.0.control.dropped(),
            // Again, for values sent in between; none are accepted from here on.
            &|| self.0.drop_requests(),
        ];
        let panics = steps.map(|step| catch_unwind(AssertUnwindSafe(step)).err());
        // A second panic would end the process.
        if let Some(first) = panics.into_iter().flatten().next()
            && !std::thread::panicking()
        {
            resume_unwind(first);
        }
    }
}

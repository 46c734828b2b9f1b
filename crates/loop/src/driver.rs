//! The loop itself: does what the state machine says, on one thread. Decides nothing.

use std::mem;
use std::sync::Arc;

use trueup_reconcile::{
    Drained, Extent, Ledger, OpKey, PassLimits, Report, Source, Subscribed, Subscription,
};

use crate::control::{Control, Step};
use crate::handle::Shared;
use crate::{Action, Config, Error, ErrorKind, Handle, Hearing, Passed, Revision, trace};

type OnPass<'a, S> = dyn FnMut(Result<&<S as Source>::Report, &<S as Source>::Error>) + Send + 'a;
type OnReport<'a, S> = dyn FnMut(&<S as Source>::Report) + Send + 'a;
type OnSubscribe<'a, S> =
    dyn FnMut(Subscribed<&<S as Source>::Subscription, &<S as Source>::Error>) + Send + 'a;

/// Runs passes of a source until it is told to stop.
///
/// It subscribes, runs the first pass at once, and then a whole one at each interval, and sooner when a hint or a handle asks
/// for one. Each pass is handed the one ledger, in which the loop itself neither reads nor writes. See the crate's contract page
/// for the whole.
pub struct Loop<'a, S: Source> {
    // Dropped in this order: by the time that handles hear of the end, all else is gone.
    source: S,
    scope: S::Scope,
    desired: S::Desired,
    ledger: Box<dyn Ledger + Send + 'a>,
    options: S::Options,
    calls: Calls<'a, S>,
    /// The desired state of the last pass, if that gave a report.
    reported: Option<Revision>,
    /// How the scope ended.
    ended: Option<Arc<S::Error>>,
    shared: Arc<Shared<S>>,
    _end: End<S>,
}

/// What is called, all on the loop's thread.
struct Calls<'a, S: Source> {
    report: Box<OnPass<'a, S>>,
    subscribe: Box<OnSubscribe<'a, S>>,
    drift: Box<OnReport<'a, S>>,
    contention: Box<OnReport<'a, S>>,
    overrun: Box<dyn FnMut(u64) + Send + 'a>,
}

impl<'a, S: Source> Loop<'a, S> {
    /// A loop that has yet to [`run`](Self::run). `ledger` is the source's in this scope: one that outlives the process, or
    /// [`MemoryLedger`](trueup_reconcile::MemoryLedger) where a restart may forget. The loop drops it before it says that it
    /// has ended, so that whoever waited for that may open it again.
    ///
    /// # Errors
    ///
    /// The operating system gives no event descriptor.
    pub fn new(
        source: S,
        scope: S::Scope,
        desired: S::Desired,
        ledger: impl Ledger + Send + 'a,
        options: S::Options,
        config: Config,
    ) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(Control::new(config)?));
        let end = End(Arc::clone(&shared));
        Ok(Loop {
            source,
            scope,
            desired,
            ledger: Box::new(ledger),
            options,
            calls: Calls {
                report: Box::new(|_| {}),
                subscribe: Box::new(|_| {}),
                drift: Box::new(|_| {}),
                contention: Box::new(|_| {}),
                overrun: Box::new(|_| {}),
            },
            reported: None,
            ended: None,
            shared,
            _end: end,
        })
    }

    /// Sets what is called after every pass, on the loop's thread, with the report, or the error of a pass that could not
    /// run. The pass counts as over once it returns, and the other callbacks, so what they did is done before a forced pass or a
    /// pause returns.
    pub fn on_report(
        mut self,
        call: impl FnMut(Result<&S::Report, &S::Error>) + Send + 'a,
    ) -> Self {
        self.calls.report = Box::new(call);
        self
    }

    /// Sets what is called, on the loop's thread, with what became of the subscription: at first, when it fails later, and when it
    /// is there again; not each time that it is asked for in vain. The place to say aloud that it failed; also to be had from
    /// [`Handle::subscribed`].
    pub fn on_subscribe(
        mut self,
        call: impl FnMut(Subscribed<&S::Subscription, &S::Error>) + Send + 'a,
    ) -> Self {
        self.calls.subscribe = Box::new(call);
        self
    }

    /// Sets what is called, after [`on_report`](Self::on_report), with the report of a pass that had ops though an earlier pass over
    /// the same desired state converged: something else has changed the world.
    pub fn on_drift(mut self, call: impl FnMut(&S::Report) + Send + 'a) -> Self {
        self.calls.drift = Box::new(call);
        self
    }

    /// Sets what is called, after [`on_report`](Self::on_report), with a report by which somebody else takes objects from us again and
    /// again ([`Report::contended`]).
    pub fn on_contention(mut self, call: impl FnMut(&S::Report) + Send + 'a) -> Self {
        self.calls.contention = Box::new(call);
        self
    }

    /// Sets what is called when the subscription has lost something on the way, with how often it has by now. A whole pass follows
    /// by itself.
    pub fn on_overrun(mut self, call: impl FnMut(u64) + Send + 'a) -> Self {
        self.calls.overrun = Box::new(call);
        self
    }

    /// The loop's controls. They work at once; what is asked for is done when the loop runs.
    pub fn handle(&self) -> Handle<S> {
        self.shared.handle()
    }

    /// Runs the loop on the calling thread, until a handle stops it or the scope ends.
    ///
    /// A panic of the source, of a callback or of a [change](Handle::change) goes on to the caller; handles then say that the loop
    /// has ended.
    ///
    /// # Errors
    ///
    /// The scope has ended ([`ErrorKind::ScopeEnded`]). The operating system refuses the descriptor
    /// by which the loop is woken.
    pub fn run(mut self) -> Result<(), Error> {
        let control = Arc::clone(&self.shared.control);
        control.begin();
        let mut subscription = None;
        loop {
            match self.step() {
                Step::Do(Action::Subscribe) => {
                    // Two would be told everything twice.
                    drop(subscription.take());
                    subscription = self.subscribe();
                }
                Step::Do(Action::Attend) => self.attend(&mut subscription),
                Step::Do(Action::Pass {
                    extent,
                    ops,
                    revision,
                }) => self.pass(extent, ops, revision),
                Step::Do(Action::End) => break,
                Step::Sleep { until, listening } => {
                    let heard = subscription.as_ref().filter(|_| listening);
                    control.sleep(until, heard.and_then(S::Subscription::descriptor))?;
                }
            }
        }
        drop(subscription);
        match self.ended.take() {
            None => Ok(()),
            Some(error) => Err(Error::of_source(ErrorKind::ScopeEnded, error)),
        }
    }

    /// What to do next. A pass is given the desired state that is the last at this very moment.
    fn step(&mut self) -> Step {
        let mut mail = self.shared.mail();
        let step = self.shared.control.step();
        let (declared, changes) = match step {
            Step::Do(Action::Pass { .. }) => (mail.desired.take(), mem::take(&mut mail.changes)),
            _ => Default::default(),
        };
        // None of the source's or a caller's code runs under the lock.
        drop(mail);
        if let Some(declared) = declared {
            self.desired = declared;
        }
        for change in changes {
            change(&mut self.desired);
        }
        step
    }

    fn subscribe(&mut self) -> Option<S::Subscription> {
        match self.source.subscribe(&self.scope, self.shared.heard()) {
            Subscribed::Active(subscription) => {
                (self.calls.subscribe)(Subscribed::Active(&subscription));
                self.shared.mail().subscribed = Some(Subscribed::Active(()));
                self.shared
                    .control
                    .subscribed(match subscription.descriptor() {
                        Some(_) => Hearing::Polled,
                        None => Hearing::Pushed,
                    });
                Some(subscription)
            }
            Subscribed::Unsupported => {
                (self.calls.subscribe)(Subscribed::Unsupported);
                self.shared.mail().subscribed = Some(Subscribed::Unsupported);
                self.shared.control.subscribed(Hearing::Unsupported);
                None
            }
            Subscribed::Failed(error) => {
                self.subscription_failed(error);
                self.shared.control.subscribed(Hearing::Failed);
                None
            }
        }
    }

    fn attend(&mut self, subscription: &mut Option<S::Subscription>) {
        match subscription.as_mut().map(Subscription::drain) {
            None => drop(self.shared.control.attended(Some(Drained::Nothing))),
            Some(Ok(heard)) => {
                if let Some(count) = self.shared.control.attended(Some(heard)) {
                    trace::overrun(count);
                    (self.calls.overrun)(count);
                }
            }
            Some(Err(error)) => {
                drop(subscription.take());
                self.subscription_failed(error);
                self.shared.control.attended(None);
            }
        }
    }

    fn subscription_failed(&mut self, error: S::Error) {
        let error = Arc::new(error);
        let failed = Some(Subscribed::Failed(Arc::clone(&error)));
        // Nothing is dropped under the lock.
        let before = mem::replace(&mut self.shared.mail().subscribed, failed);
        if !matches!(before, Some(Subscribed::Failed(_))) {
            trace::subscription_failed(&*error);
            (self.calls.subscribe)(Subscribed::Failed(&error));
        }
        if S::is_scope_gone(&error) {
            let replaced = self.shared.mail().error.replace(Arc::clone(&error));
            drop(replaced);
            self.ended = Some(error);
            self.shared.control.stop();
        }
    }

    fn pass(&mut self, extent: Extent, ops: Option<u64>, revision: Revision) {
        let span = trace::Pass::new(extent, revision);
        let control = &*self.shared.control;
        let go_on = || control.go_on();
        let held = |key: OpKey| control.held(key);
        let mut limits = PassLimits::default()
            .with_extent(extent)
            .with_should_continue(&go_on);
        if self.reported.take() == Some(revision) {
            limits = limits.with_same_desired();
        }
        if let Some(ops) = ops {
            limits = limits.with_ops(ops);
        }
        if control.may_hold() {
            limits = limits.with_backoff(&held);
        }
        let outcome = span.within(|| {
            self.source.reconcile_within(
                &self.scope,
                &self.desired,
                &mut *self.ledger,
                &self.options,
                &limits,
            )
        });
        let would_be_drift = control.source_over();
        match outcome {
            Ok(report) => {
                let tracked = |key: OpKey| control.is_tracked(key);
                let tracked = control.may_hold().then_some(&tracked as _);
                let passed = Passed::of(&report, tracked);
                span.over(&passed);
                self.reported = Some(revision);
                let report = Arc::new(report);
                let replaced = self.keep(&report, passed.converged);
                let drift = would_be_drift && !passed.ops.is_empty();
                span.within(|| self.tell(&report, drift));
                self.shared.control.pass_over(Some(&passed), false);
                if !passed.converged {
                    self.shared.forget_converged();
                }
                // They may be large: nobody waits for that.
                drop(replaced);
            }
            Err(error) => {
                span.failed(&error);
                let error = Arc::new(error);
                let replaced = self.shared.mail().error.replace(Arc::clone(&error));
                drop(replaced);
                span.within(|| (self.calls.report)(Err(&error)));
                let end = S::is_scope_gone(&error);
                self.ended = end.then_some(error);
                self.shared.control.pass_over(None, end);
                self.shared.forget_converged();
            }
        }
    }

    fn tell(&mut self, report: &S::Report, drift: bool) {
        (self.calls.report)(Ok(report));
        if drift {
            (self.calls.drift)(report);
        }
        if report.contended() > 0 {
            (self.calls.contention)(report);
        }
    }

    /// Gives what was kept before, as nothing is dropped under the lock.
    fn keep(&self, report: &Arc<S::Report>, converged: bool) -> impl Sized + use<S> {
        let mut mail = self.shared.mail();
        let settled = converged.then(|| mail.converged.replace(Arc::clone(report)));
        let replaced = mail.report.replace(Arc::clone(report));
        let mended = mail.error.take();
        (settled, replaced, mended)
    }
}

/// Tells the handles that the loop is gone, whichever way it went: end, panic, or never run.
struct End<S: Source>(Arc<Shared<S>>);

impl<S: Source> Drop for End<S> {
    fn drop(&mut self) {
        let clear = || {
            let mut mail = self.0.mail();
            let unused = (mail.desired.take(), mem::take(&mut mail.changes));
            drop(mail);
            drop(unused);
        };
        clear();
        self.0.control.gone();
        // What came in between, unless it was stopped before; from here on nothing does.
        clear();
    }
}

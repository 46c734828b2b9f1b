//! The loop itself: does what the state machine says, on one thread. Decides nothing.

use std::sync::Arc;

use trueup_reconcile::{Ledger, Source, Subscribed};

use crate::control::{Control, Step};
use crate::handle::Shared;
use crate::{Action, Config, Error, Handle};

type OnReport<'a, S> = dyn FnMut(Result<&<S as Source>::Report, &<S as Source>::Error>) + Send + 'a;
type OnSubscribe<'a, S> =
    dyn FnMut(Subscribed<&<S as Source>::Subscription, &<S as Source>::Error>) + Send + 'a;

/// Runs passes of a source until it is told to stop.
///
/// It subscribes, runs the first pass at once, and then one at each interval, counted from the end of a pass, or sooner
/// when a hint or a handle asks for it. Each pass is handed the one ledger, in which the loop itself neither reads nor
/// writes. See the crate's contract page for the whole.
pub struct Loop<'a, S: Source> {
    // Dropped in this order: by the time that handles hear of the end, all else is gone.
    source: S,
    scope: S::Scope,
    desired: S::Desired,
    ledger: Box<dyn Ledger + Send + 'a>,
    options: S::Options,
    on_report: Box<OnReport<'a, S>>,
    on_subscribe: Box<OnSubscribe<'a, S>>,
    shared: Arc<Shared<S>>,
    _end: End,
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
        let end = End(Arc::clone(&shared.control));
        Ok(Loop {
            source,
            scope,
            desired,
            ledger: Box::new(ledger),
            options,
            on_report: Box::new(|_| {}),
            on_subscribe: Box::new(|_| {}),
            shared,
            _end: end,
        })
    }

    /// Sets what is called after every pass, on the loop's thread, with the report, or the error of a pass that could not
    /// run. The pass counts as over once it returns, so what it did is done before a forced pass or a pause returns.
    pub fn on_report(
        mut self,
        call: impl FnMut(Result<&S::Report, &S::Error>) + Send + 'a,
    ) -> Self {
        self.on_report = Box::new(call);
        self
    }

    /// Sets what is called once, on the loop's thread, with what became of the subscription. The place to say aloud that
    /// it failed; also to be had from [`Handle::subscribed`].
    pub fn on_subscribe(
        mut self,
        call: impl FnMut(Subscribed<&S::Subscription, &S::Error>) + Send + 'a,
    ) -> Self {
        self.on_subscribe = Box::new(call);
        self
    }

    /// The loop's controls. They work at once; what is asked for is done when the loop runs.
    pub fn handle(&self) -> Handle<S> {
        self.shared.handle()
    }

    /// Runs the loop on the calling thread, until a handle stops it.
    ///
    /// A panic of the source or of a callback goes on to the caller; handles then say that the loop has ended.
    ///
    /// # Errors
    ///
    /// The operating system refuses to wait.
    pub fn run(mut self) -> Result<(), Error> {
        let control = Arc::clone(&self.shared.control);
        control.begin();
        let mut subscription = None;
        loop {
            match control.step() {
                Step::Do(Action::Subscribe) => {
                    subscription = self.subscribe();
                    control.subscribed();
                }
                Step::Do(Action::Pass) => {
                    self.pass();
                    control.pass_over();
                }
                Step::Do(Action::End) => break,
                Step::Sleep(until) => control.sleep(until)?,
            }
        }
        drop(subscription);
        Ok(())
    }

    fn subscribe(&mut self) -> Option<S::Subscription> {
        let answer = self.source.subscribe(&self.scope, self.shared.hints());
        (self.on_subscribe)(answer.as_ref());
        let (told, subscription) = match answer {
            Subscribed::Active(subscription) => (Subscribed::Active(()), Some(subscription)),
            Subscribed::Unsupported => (Subscribed::Unsupported, None),
            Subscribed::Failed(error) => (Subscribed::Failed(Arc::new(error)), None),
        };
        self.shared.mail().subscribed = Some(told);
        subscription
    }

    fn pass(&mut self) {
        let desired = self.shared.mail().desired.take();
        if let Some(desired) = desired {
            self.desired = desired;
        }
        let outcome =
            self.source
                .reconcile(&self.scope, &self.desired, &mut *self.ledger, &self.options);
        self.shared.control.source_over();
        // Nothing is dropped under the lock.
        match outcome.map(Arc::new).map_err(Arc::new) {
            Ok(report) => {
                let mut mail = self.shared.mail();
                let replaced = mail.report.replace(Arc::clone(&report));
                let mended = mail.error.take();
                drop(mail);
                drop((replaced, mended));
                (self.on_report)(Ok(&report));
            }
            Err(error) => {
                let replaced = self.shared.mail().error.replace(Arc::clone(&error));
                drop(replaced);
                (self.on_report)(Err(&error));
            }
        }
    }
}

/// Tells the handles that the loop is gone, whichever way it went: end, panic, or never run.
struct End(Arc<Control>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.gone();
    }
}

//! A source that notes its writes, and the set-up of a model.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Condvar;
use shuttle::thread;
use trueup_reconcile::{
    Claim, ErrorClass, Hints, Ledger, LedgerError, MemoryLedger, OpKey, Outcome, PassInput, Report,
    ReportedOp, Source, Subscribed,
};

use crate::{Config, Handle, Loop, Runner, sync};

/// A time limit that no wait of the model reaches.
pub(crate) const LONG: Duration = Duration::from_secs(36_000);

/// The desired state that is never reached.
pub(crate) const WRONG: u32 = 999;

/// The events so far. Its lock comes from the standard library, so the checker does not switch
/// threads at it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The number of passes that began to write.
    pub(crate) begun: u32,
    /// The number of passes that ended, including their callback.
    pub(crate) over: u32,
    /// True if nothing may be written.
    pub(crate) forbidden: bool,
    /// True if the source was dropped.
    dropped: bool,
}

pub(crate) struct Noting {
    seen: Arc<Mutex<Seen>>,
    /// The number of begun passes, for threads that wait for one.
    pub(crate) begun: Arc<(shuttle::sync::Mutex<u32>, Condvar)>,
}

/// A pass's report: its number in the order of starts, and its desired state.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) number: u32,
    pub(crate) desired: u32,
    /// True if it only looked, and would have written.
    has_looked: bool,
}

impl Report for Pass {
    fn converged(&self) -> bool {
        self.desired != WRONG && !self.has_looked
    }

    fn is_truncated(&self) -> bool {
        self.has_looked
    }

    /// One op always fails, so there is something to retry.
    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        tell(ReportedOp::new("thing", Outcome::Declined(ErrorClass::Invalid), &|| OpKey(0)));
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        // Lets other threads run during the drop.
        thread::yield_now();
        self.seen.lock().unwrap().dropped = true;
    }
}

impl Source for Noting {
    type Scope = ();
    type Desired = u32;
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = LedgerError;

    /// A source that asks the loop between its steps, on the loop's thread, while other threads
    /// call the loop too.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Pass, LedgerError> {
        let PassInput { desired, ledger, limits, .. } = input;
        let _ = limits.should_continue();
        if limits.ops() == 0 {
            return Ok(Pass { number: 0, desired: *desired, has_looked: true });
        }
        let number = {
            let mut seen = self.seen.lock().unwrap();
            let earlier = ledger.owned()?.len();
            assert_eq!(earlier, seen.begun as usize, "each pass has the one ledger");
            assert_eq!(seen.begun, seen.over, "one pass at a time");
            assert!(!seen.forbidden, "a write after a pause or a stop");
            seen.begun += 1;
            seen.begun
        };
        let (count, changed) = &*self.begun;
        *count.lock().unwrap() = number;
        changed.notify_all();
        // Lets other threads run during the write, except in the tests of a thread that lags
        // behind.
        if *desired != WRONG {
            thread::yield_now();
        }
        assert!(!self.seen.lock().unwrap().forbidden, "a write after a pause or a stop");
        let key = number.to_be_bytes().to_vec();
        ledger.commit_outcomes(BTreeMap::from([(key, Claim::Ours(Vec::new()))]))?;
        let _ = limits.backoff(OpKey(0));
        Ok(Pass { number, desired: *desired, has_looked: false })
    }

    fn subscribe(&mut self, (): &(), _: Hints) -> Subscribed<(), LedgerError> {
        Subscribed::Unsupported
    }
}

/// A loop that runs on a thread of the model, or with a runner.
pub(crate) struct Model {
    pub(crate) handle: Handle<Noting>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    pub(crate) begun: Arc<(shuttle::sync::Mutex<u32>, Condvar)>,
    runs: Runs,
}

enum Runs {
    Alone(thread::JoinHandle<()>),
    On(Runner),
}

/// Starts a loop. Unless `ticks`, only requests make passes due.
pub(crate) fn start(ticks: bool) -> Model {
    let (it, seen, begun) = make(ticks);
    let handle = it.handle();
    let over = Arc::clone(&seen);
    let it = it.on_report(move |_, _| over.lock().unwrap().over += 1);
    let runs = if thread_rng().r#gen::<bool>() {
        Runs::Alone(thread::spawn(move || it.run().unwrap()))
    } else {
        let threads = NonZeroUsize::MIN.saturating_add(thread_rng().gen_range(0..2));
        let runner = Runner::start("loops", threads).unwrap();
        let (other, ..) = make(false);
        runner.add(other, Result::unwrap).unwrap();
        runner.add(it, Result::unwrap).unwrap();
        Runs::On(runner)
    };
    Model { handle, seen, begun, runs }
}

type Begun = Arc<(shuttle::sync::Mutex<u32>, Condvar)>;

/// Creates a loop that does not run yet.
pub(crate) fn make(ticks: bool) -> (Loop<'static, Noting>, Arc<Mutex<Seen>>, Begun) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let begun = Begun::default();
    let source = Noting { seen: Arc::clone(&seen), begun: Arc::clone(&begun) };
    let interval = if ticks { Config::MIN_INTERVAL } else { Duration::from_millis(2 * sync::FAR) };
    // Nothing is retried within the model's time.
    let config = Config::default()
        .with_interval(interval)
        .with_backoff(Config::MAX_BACKOFF, Config::MAX_BACKOFF);
    (Loop::new(source, (), 0, MemoryLedger::default(), (), config), seen, begun)
}

impl Model {
    /// Stops the loop and waits for its end.
    pub(crate) fn end(self) {
        self.handle.stop();
        let may_begin = self.seen.lock().unwrap().begun + 1;
        self.handle.wait_ended(LONG).unwrap();
        assert!(self.handle.is_ended());
        assert!(self.seen.lock().unwrap().dropped, "all is, by then");
        match self.runs {
            Runs::Alone(driver) => driver.join().unwrap(),
            Runs::On(runner) if thread_rng().r#gen::<bool>() => block_on(runner.stopped()),
            Runs::On(runner) => runner.stop(LONG).unwrap(),
        }
        let seen = self.seen.lock().unwrap();
        assert!(seen.begun <= may_begin, "a stop ends it within the running pass");
        assert_eq!(seen.begun, seen.over);
    }
}

/// Runs a model under `orders` interleavings: half of them random, half by a scheduler that looks
/// for rare ones.
pub(crate) fn check(orders: usize, model: fn()) {
    run(RandomScheduler::new_from_seed(1, orders / 2), model);
    run(PctScheduler::new_from_seed(1, 3, orders / 2), model);
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    shuttle::Runner::new(scheduler, shuttle::Config::new()).run(move || {
        sync::reset();
        model();
    });
}

//! Our side: a loop on its own thread, and its reports.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::{Config, Handle, Loop, Running};
use trueup_net::Desired;
use trueup_reconcile::{Report as _, Source};
use trueup_rtnl::{MemoryLedger, Namespace, Options, OwnershipRule, Report, Rtnl};

/// The time limit of a wait unless another is given.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// The rtnetlink source, or a source around it.
pub(crate) trait Rtnetlink:
    Source<Scope = Namespace, Desired = Desired, Options = Options, Report = Report> + Send + 'static
{
}

impl<S> Rtnetlink for S where
    S: Source<Scope = Namespace, Desired = Desired, Options = Options, Report = Report>
        + Send
        + 'static
{
}

pub(crate) struct Agent<S: Rtnetlink = Rtnl> {
    running: Running<S>,
    record: Arc<Mutex<Recorded>>,
    gate: Arc<Mutex<()>>,
}

/// The loop's reports so far.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) passes: Vec<Pass>,
    /// The number in each report of an overrun.
    pub(crate) overruns: Vec<u64>,
    pub(crate) contentions: u64,
}

/// A pass's report.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) converged: bool,
    /// True if a dump was incomplete.
    pub(crate) suspect: bool,
    pub(crate) applied: usize,
    /// The remaining delay for contended objects.
    pub(crate) held: Option<Duration>,
    pub(crate) error: Option<String>,
}

impl<S: Rtnetlink> Agent<S> {
    pub(crate) fn start(source: S, scope: Namespace, desired: Desired, config: Config) -> Agent<S> {
        let (record, gate) = <(Arc<Mutex<Recorded>>, Arc<Mutex<()>>)>::default();
        let options = Options::default();
        let ledger = MemoryLedger::default();
        let it = Loop::new(source, scope, desired, ledger, options, config);
        let on = || Arc::clone(&record);
        let (report, contention, overrun, closed) = (on(), on(), on(), Arc::clone(&gate));
        let it = it
            .on_report(move |_, result| {
                report.lock().unwrap().passes.push(Pass::of(result));
                drop(closed.lock());
            })
            .on_contention(move |_| contention.lock().unwrap().contentions += 1)
            .on_overrun(move |count| overrun.lock().unwrap().overruns.push(count));
        let running = it.spawn("agent").unwrap();
        Agent { running, record, gate }
    }

    pub(crate) fn handle(&self) -> &Handle<S> {
        self.running.handle()
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Recorded> {
        self.record.lock().unwrap()
    }

    pub(crate) fn passes(&self) -> usize {
        self.record().passes.len()
    }

    /// Returns a guard: while it is held, the next recorded pass does not end.
    pub(crate) fn gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap()
    }

    /// Waits until the loop has converged to its first desired state, with no announcement since.
    #[track_caller]
    pub(crate) fn converges(&self) {
        let handle = self.handle();
        if let Err(error) = handle.wait_converged(handle.stats().desired, BOUND) {
            let record = self.record();
            let last = &record.passes[record.passes.len().saturating_sub(5)..];
            panic!("did not converge: {error}\n{:#?}\n{last:#?}", handle.stats());
        }
    }

    /// Ends the loop, and checks that no pass had an error.
    #[track_caller]
    pub(crate) fn stop(self) {
        self.running.stop(BOUND).unwrap();
        let record = self.record.lock().unwrap();
        assert!(record.passes.iter().all(|pass| pass.error.is_none()), "{record:?}");
    }

    /// Waits until the loop has ended because its namespace has, and checks that its error says so.
    #[track_caller]
    pub(crate) fn ends_with_its_scope(self) {
        self.handle().wait_ended(BOUND).unwrap();
        let error = self.running.stop(BOUND).unwrap_err();
        assert!(error.is_scope_ended(), "{error}");
    }
}

impl Pass {
    fn of(outcome: Result<&Report, &impl ToString>) -> Pass {
        match outcome {
            Ok(report) => Pass {
                converged: report.converged(),
                suspect: !report.doubts().is_empty(),
                applied: report.applied().count(),
                held: report.findings().find_map(|(rule, ..)| match rule {
                    OwnershipRule::Contention { left, .. } => Some(left),
                    _ => None,
                }),
                error: None,
            },
            Err(error) => Pass {
                converged: false,
                suspect: false,
                applied: 0,
                held: None,
                error: Some(error.to_string()),
            },
        }
    }
}

/// Repeats `done` until it returns true, for at most [`BOUND`].
#[track_caller]
pub(crate) fn until(what: &str, done: impl FnMut() -> bool) {
    within(BOUND, what, done);
}

/// Repeats `done` until it returns true, for at most `bound`.
#[track_caller]
pub(crate) fn within(bound: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + bound;
    while !done() {
        assert!(Instant::now() < end, "waited {bound:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

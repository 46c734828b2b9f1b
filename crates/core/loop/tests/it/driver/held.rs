//! A source whose every pass the test controls, with its helpers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use trueup_loop::{Config, Error, ErrorKind, Handle, Loop, Running};
use trueup_reconcile::{Claim, Hints, Ledger, MemoryLedger, PassInput, Report, Source, Subscribed};
use trueup_testkit::InterceptedLedger;

/// A time limit longer than any test needs.
pub(crate) const LONG: Duration = Duration::from_secs(30);
/// A time longer than any test: timer and debounce do not end within it.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);
pub(crate) const SHORT: Duration = Duration::from_millis(5);

#[derive(Debug, PartialEq)]
pub(crate) struct Pass {
    pub(crate) number: u32,
}

impl Report for Pass {
    fn converged(&self) -> bool {
        true
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Oops;

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("oops")
    }
}

impl std::error::Error for Oops {}

/// A pass's inputs.
#[derive(Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) desired: &'static str,
    /// The number in the ledger, from the last pass that gave a report.
    pub(crate) kept: u32,
}

/// The result that the test chooses for a pass.
pub(crate) enum Verdict {
    Report(u32),
    Fail,
    Panic,
}

/// A source that notifies the test of each pass and waits for its verdict. Once the test has
/// dropped its end, passes succeed.
pub(crate) struct Held {
    pub(crate) given: Sender<Given>,
    pub(crate) verdicts: Receiver<Verdict>,
    pub(crate) subscribe: Subscribed<Sender<Hints>, Oops>,
    pub(crate) dropped: Sender<&'static str>,
}

/// The test's end of a [`Held`] source.
pub(crate) struct Test {
    pub(crate) given: Receiver<Given>,
    pub(crate) verdicts: Sender<Verdict>,
    pub(crate) hints: Receiver<Hints>,
    pub(crate) dropped: Receiver<&'static str>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.dropped.send("source");
    }
}

impl Source for Held {
    type Scope = ();
    type Desired = &'static str;
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = Oops;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Pass, Oops> {
        let PassInput { desired, ledger, .. } = input;
        let _ = self.given.send(Given { desired, kept: kept(ledger) });
        match self.verdicts.recv() {
            Ok(Verdict::Report(number)) => {
                keep(ledger, number);
                Ok(Pass { number })
            }
            Ok(Verdict::Fail) => Err(Oops),
            Ok(Verdict::Panic) => panic!("as the test asked"),
            Err(_) => Ok(Pass { number: u32::MAX }),
        }
    }

    fn subscribe(&mut self, _: &(), hints: Hints) -> Subscribed<(), Oops> {
        match &self.subscribe {
            Subscribed::Active(to) => {
                to.send(hints).unwrap();
                Subscribed::Active(())
            }
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(error) => Subscribed::Failed(error.clone()),
        }
    }
}

/// Returns the number in a ledger.
fn kept(ledger: &dyn Ledger) -> u32 {
    let owned = ledger.owned().unwrap();
    u32::from_be_bytes(owned[&b"number"[..]].as_slice().try_into().unwrap())
}

fn keep(ledger: &mut dyn Ledger, number: u32) {
    let claim = Claim::Ours(number.to_be_bytes().to_vec());
    ledger.commit_outcomes(BTreeMap::from([(b"number".to_vec(), claim)])).unwrap();
}

/// Returns a ledger with that number in it.
pub(crate) fn keeping(number: u32) -> MemoryLedger {
    let mut ledger = MemoryLedger::default();
    keep(&mut ledger, number);
    ledger
}

/// Sends its name when it is dropped.
struct Dropped(&'static str, Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.1.send(self.0);
    }
}

impl Test {
    pub(crate) fn given(&self) -> Given {
        self.given.recv_timeout(LONG).unwrap()
    }

    pub(crate) fn verdict(&self, verdict: Verdict) {
        self.verdicts.send(verdict).unwrap();
    }

    /// Checks a pass's inputs, and lets it report `report`.
    pub(crate) fn pass(&self, desired: &'static str, kept: u32, report: u32) {
        assert_eq!(self.given(), Given { desired, kept });
        self.verdict(Verdict::Report(report));
    }
}

pub(crate) fn held(interval: Duration, debounce: Duration) -> (Loop<'static, Held>, Test) {
    held_with(Config::default().with_interval(interval).with_debounce(debounce), Subscribed::Active)
}

pub(crate) fn held_with(
    config: Config,
    subscribe: impl FnOnce(Sender<Hints>) -> Subscribed<Sender<Hints>, Oops>,
) -> (Loop<'static, Held>, Test) {
    let (given, given_to) = channel();
    let (verdicts, verdicts_to) = channel();
    let (hints, hints_to) = channel();
    let (dropped, dropped_to) = channel();
    let of_ledger = Dropped("ledger", dropped.clone());
    let ledger = InterceptedLedger::new(keeping(7), move |ledger: &mut MemoryLedger, claims| {
        let _ = &of_ledger;
        ledger.commit_outcomes(claims)
    });
    let source = Held { given, verdicts: verdicts_to, subscribe: subscribe(hints), dropped };
    let test = Test { given: given_to, verdicts, hints: hints_to, dropped: dropped_to };
    (Loop::new(source, (), "first", ledger, (), config), test)
}

pub(crate) fn start(it: Loop<'static, Held>) -> (Running<Held>, Handle<Held>) {
    let running = it.spawn("loop under test").unwrap();
    let handle = running.handle().clone();
    (running, handle)
}

/// Runs `call` on another thread and returns a receiver for its answer.
pub(crate) fn aside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (answer, to) = channel();
    thread::spawn(move || answer.send(call()));
    to
}

pub(crate) fn kind<T: fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

//! The tests' sources, with their reports and subscriptions.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use trueup_loop::{Config, Handle, Loop};
use trueup_reconcile::{
    Claim, Condition, Drained, Extent, Hints, Ledger, MemoryLedger, OpKey, Outcome, PassInput,
    PassLimits, Report, ReportedOp, Source, Status, Subscribed,
};

/// A time limit longer than any test needs.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// A time longer than any test: timer and debounce do not end within it.
pub(crate) const NEVER: Duration = Duration::from_secs(36_000);
pub(crate) const SHORT: Duration = Duration::from_millis(2);

/// Settings with which only requests cause a pass.
pub(crate) fn quiet() -> Config {
    Config::default()
        .with_interval(NEVER)
        .with_debounce(Duration::ZERO)
        .with_backoff(NEVER, NEVER)
        .with_jitter(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oops {
    /// True if the error ends the scope.
    pub(crate) end: bool,
}

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.end { "it is gone" } else { "oops" })
    }
}

impl std::error::Error for Oops {}

/// A pass's inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) number: u32,
    pub(crate) scope: &'static str,
    pub(crate) desired: u32,
    pub(crate) options: &'static str,
    pub(crate) owned: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) extent: Extent,
    pub(crate) ops: u64,
}

/// The result that a test sets for a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report1 {
    pub(crate) number: u32,
    pub(crate) converged: bool,
    pub(crate) cut: bool,
    /// True if not everything could be read.
    pub(crate) incomplete: bool,
    pub(crate) contended: usize,
    pub(crate) outcomes: Vec<(u64, Outcome)>,
    /// Changed statuses: the object, and the reason why it waits; `None` if it no longer does.
    pub(crate) statuses: Vec<(u64, Option<&'static str>)>,
}

impl Report for Report1 {
    fn converged(&self) -> bool {
        self.converged
    }

    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        for &(key, outcome) in &self.outcomes {
            tell(ReportedOp::new("thing", outcome, &|| OpKey(key)));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        for &(key, why) in &self.statuses {
            let pending = |why: &str| Condition::Pending { why: why.to_owned() };
            let status =
                why.map(|why| Arc::new(Status::new("thing", key.to_string(), pending(why))));
            visit(OpKey(key), status.as_ref());
        }
    }

    fn is_truncated(&self) -> bool {
        self.cut
    }

    fn is_seen_whole(&self) -> bool {
        !self.incomplete
    }

    fn contended(&self) -> usize {
        self.contended
    }
}

type Work = dyn FnMut(&Given, &mut dyn Ledger, &PassLimits<'_>) -> Result<Report1, Oops> + Send;
type Subscribe = dyn FnMut(Hints) -> Subscribed<Listener, Oops> + Send;

/// A source whose passes run the test's function, and that sends their inputs to the test.
pub(crate) struct Scripted {
    given: Sender<Given>,
    number: u32,
    work: Box<Work>,
    subscribe: Box<Subscribe>,
    listener: Option<Listener>,
    changed: fn(u32) -> Option<Vec<OpKey>>,
}

impl Scripted {
    pub(crate) fn new(
        work: impl FnMut(&Given, &mut dyn Ledger, &PassLimits<'_>) -> Result<Report1, Oops>
        + Send
        + 'static,
    ) -> (Scripted, Receiver<Given>) {
        let (given, passes) = channel();
        let source = Scripted {
            given,
            number: 0,
            work: Box::new(work),
            subscribe: Box::new(|_| Subscribed::Unsupported),
            listener: None,
            // The object's key is the desired number.
            changed: |desired| Some(vec![OpKey(u64::from(desired))]),
        };
        (source, passes)
    }

    pub(crate) fn subscribed(
        mut self,
        subscribe: impl FnMut(Hints) -> Subscribed<Listener, Oops> + Send + 'static,
    ) -> Scripted {
        self.subscribe = Box::new(subscribe);
        self
    }

    /// Sets the objects that a change to a desired number concerns.
    pub(crate) fn changing(mut self, changed: fn(u32) -> Option<Vec<OpKey>>) -> Scripted {
        self.changed = changed;
        self
    }
}

/// Returns a source that always succeeds, and records its last desired state in the ledger.
pub(crate) fn keeping() -> (Scripted, Receiver<Given>) {
    Scripted::new(|given, ledger, _| {
        let claim = Claim::Ours(given.desired.to_be_bytes().to_vec());
        ledger.commit_outcomes(BTreeMap::from([(b"it".to_vec(), claim)])).unwrap();
        Ok(converged(given))
    })
}

pub(crate) fn converged(given: &Given) -> Report1 {
    Report1 { number: given.number, converged: true, ..Report1::default() }
}

/// Returns a source that always fails.
pub(crate) fn failing() -> (Scripted, Receiver<Given>) {
    Scripted::new(|_, _, _| Err(Oops { end: false }))
}

/// Returns a slow source: each pass lasts until the test sends a message, or drops the sender.
pub(crate) fn slow() -> (Scripted, Receiver<Given>, Sender<()>) {
    let (go, wait) = channel::<()>();
    let (source, passes) = Scripted::new(move |given, _, _| {
        let _ = wait.recv();
        Ok(converged(given))
    });
    (source, passes, go)
}

impl Source for Scripted {
    type Scope = &'static str;
    type Desired = u32;
    type Options = &'static str;
    type Report = Report1;
    type Observed = ();
    type Error = Oops;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Report1, Oops> {
        let PassInput { scope, desired, ledger, options, limits } = input;
        self.number += 1;
        let given = Given {
            number: self.number,
            scope,
            desired: *desired,
            options,
            owned: ledger.owned().unwrap(),
            extent: limits.extent(),
            ops: limits.ops(),
        };
        let _ = self.given.send(given.clone());
        (self.work)(&given, ledger, &limits)
    }

    fn changed_keys(&mut self, desired: &u32, _: &&'static str) -> Option<Vec<OpKey>> {
        (self.changed)(*desired)
    }

    fn is_scope_gone(error: &Oops) -> bool {
        error.end
    }

    fn subscribe(&mut self, _: &&'static str, hints: Hints) -> Subscribed<(), Oops> {
        self.listener = None;
        match (self.subscribe)(hints) {
            Subscribed::Active(listener) => {
                self.listener = Some(listener);
                Subscribed::Active(())
            }
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(error) => Subscribed::Failed(error),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref()?.readable.as_ref().map(AsFd::as_fd)
    }

    fn drain(&mut self) -> Result<Drained, Oops> {
        let listener = self.listener.as_mut().unwrap();
        listener.drain().inspect_err(|_| self.listener = None)
    }
}

/// A subscription with a descriptor that the test makes readable, and the results of draining it;
/// or a pushed one, with neither.
pub(crate) struct Listener {
    readable: Option<OwnedFd>,
    heard: Arc<Mutex<Ear>>,
    attended: Sender<()>,
}

/// The results of draining that are waiting.
#[derive(Default)]
pub(crate) struct Ear {
    pub(crate) next: Vec<Result<Drained, Oops>>,
    /// True if the descriptor stays readable whatever is read, as after a failure.
    pub(crate) stuck: bool,
}

/// The test's end of a descriptor.
pub(crate) struct Voice {
    readable: OwnedFd,
    heard: Arc<Mutex<Ear>>,
    /// Receives a message each time the descriptor was drained.
    pub(crate) attended: Receiver<()>,
}

impl Voice {
    /// Makes the descriptor readable, and sets the result of draining it.
    pub(crate) fn say(&self, heard: Result<Drained, Oops>) {
        self.heard.lock().unwrap().next.push(heard);
        rustix::io::write(&self.readable, &1u64.to_ne_bytes()).unwrap();
    }

    pub(crate) fn stick(&self) {
        self.heard.lock().unwrap().stuck = true;
        rustix::io::write(&self.readable, &1u64.to_ne_bytes()).unwrap();
    }
}

/// Returns the two ends of a descriptor.
pub(crate) fn descriptor() -> (Listener, Voice) {
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let heard = Arc::new(Mutex::new(Ear::default()));
    let (attended, attends) = channel();
    let listener = Listener {
        readable: Some(event.try_clone().unwrap()),
        heard: Arc::clone(&heard),
        attended,
    };
    let voice = Voice { readable: event, heard, attended: attends };
    (listener, voice)
}

/// Returns a subscription without a descriptor: its hints are pushed.
pub(crate) fn pushed() -> Listener {
    Listener { readable: None, heard: Arc::default(), attended: channel().0 }
}

impl Listener {
    fn drain(&mut self) -> Result<Drained, Oops> {
        let readable = self
            .readable
            .as_ref()
            .unwrap_or_else(|| panic!("only what has a descriptor is attended to"));
        let mut ear = self.heard.lock().unwrap();
        if !ear.stuck {
            match rustix::io::read(readable, &mut [0; 8]) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        let all = std::mem::take(&mut ear.next);
        drop(ear);
        let _ = self.attended.send(());
        let mut loudest = Drained::Nothing;
        for heard in all {
            loudest = match (loudest, heard?) {
                (Drained::Lost, _) | (_, Drained::Lost) => Drained::Lost,
                (Drained::Hint, _) | (_, Drained::Hint) => Drained::Hint,
                _ => Drained::Nothing,
            };
        }
        Ok(loudest)
    }
}

/// Returns a loop over a source, in an arbitrary scope and without options.
pub(crate) fn looped(source: Scripted, config: Config) -> Loop<'static, Scripted> {
    Loop::new(source, "scope", 1, MemoryLedger::default(), "options", config)
}

/// Waits for the next pass to begin, and returns its inputs.
pub(crate) fn next(passes: &Receiver<Given>) -> Given {
    passes.recv_timeout(LONG).unwrap()
}

/// Stops a loop and returns the remaining passes.
pub(crate) fn rest(handle: &Handle<Scripted>, passes: &Receiver<Given>) -> Vec<Given> {
    handle.stop();
    handle.wait_ended(LONG).unwrap();
    passes.try_iter().collect()
}

//! A source as a vertex.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use trueup_graph::{Driver, SourceVertex, VertexSpec};
use trueup_loop::{Config, Loop};
use trueup_reconcile::{
    Claim, ErrorClass, EventCoverage, Extent, Hints, Ledger, LedgerError, MemoryLedger, OpKey,
    Outcome, PassInput, Report, ReportedOp, Source, Subscribed,
};

use crate::support::{BOUND, start, until};

/// The system that a source manages: keys with values.
#[derive(Default)]
struct System {
    values: BTreeMap<String, u8>,
    /// Each pass's extent, and true if it could apply ops.
    passes: Vec<(Extent, bool)>,
    hints: Option<Hints>,
    refused: bool,
}

struct Values<const ANNOUNCES: bool>(Arc<Mutex<System>>);

struct Pass {
    is_converged: bool,
    is_truncated: bool,
    outcomes: Vec<Outcome>,
}

impl Report for Pass {
    fn converged(&self) -> bool {
        self.is_converged
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        let key = || OpKey(0);
        let outcomes = self.outcomes.iter();
        outcomes.for_each(|it| visit(ReportedOp::new("value", *it, &key)));
    }

    fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    fn coverage(&self) -> EventCoverage {
        EventCoverage::Everything
    }
}

impl<const ANNOUNCES: bool> Source for Values<ANNOUNCES> {
    type Scope = ();
    type Desired = BTreeMap<String, u8>;
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = LedgerError;

    const ANNOUNCES: bool = ANNOUNCES;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Pass, LedgerError> {
        let PassInput { desired, ledger, limits, .. } = input;
        let mut system = self.0.lock().unwrap();
        system.passes.push((limits.extent(), limits.ops() > 0));
        let mut outcomes = Vec::new();
        let owned = ledger.owned()?.into_keys();
        let owned: Vec<_> = owned.map(|it| String::from_utf8(it).unwrap()).collect();
        let wrong = desired.iter().map(|(key, value)| (key.clone(), Some(*value)));
        let left = owned.iter().filter(|it| !desired.contains_key(*it));
        for (key, value) in wrong.chain(left.map(|it| (it.clone(), None))) {
            if system.values.get(&key).copied() == value {
                continue;
            }
            let may_change = limits.ops() > 0 && limits.may_change(["value"]);
            if system.refused || !may_change {
                outcomes.push(match limits.ops() {
                    0 => Outcome::Pending(()),
                    _ => Outcome::Failed(ErrorClass::Permission),
                });
                continue;
            }
            let claim = match value {
                Some(value) => {
                    system.values.insert(key.clone(), value);
                    Claim::Ours(vec![value])
                }
                None => {
                    system.values.remove(&key);
                    Claim::NotOurs
                }
            };
            ledger.commit_outcomes([(key.into_bytes(), claim)].into())?;
            outcomes.push(Outcome::Applied);
        }
        let is_converged = outcomes.iter().all(|it| *it == Outcome::Applied);
        Ok(Pass { is_converged, is_truncated: outcomes.contains(&Outcome::Pending(())), outcomes })
    }

    fn subscribe(&mut self, _: &(), hints: Hints) -> Subscribed<(), LedgerError> {
        self.0.lock().unwrap().hints = Some(hints);
        Subscribed::Active(())
    }
}

fn run_counted(system: &Arc<Mutex<System>>, notifies: bool) -> (Driver, Arc<AtomicUsize>) {
    run_source(Values::<false>(Arc::clone(system)), notifies)
}

fn run_source<const ANNOUNCES: bool>(
    source: Values<ANNOUNCES>,
    notifies: bool,
) -> (Driver, Arc<AtomicUsize>) {
    let desired = BTreeMap::from([("a".to_owned(), 1)]);
    // The interval is too long to cause a pass within a test.
    let config = Config::default().with_interval(Duration::from_secs(3_600));
    let passes = Loop::new(source, (), desired, MemoryLedger::default(), (), config);
    let vertex = SourceVertex::of_loop(passes).with_reversed(BTreeMap::new());
    let spec = VertexSpec::new("values").with_retry(0, BOUND);
    let mut service = VertexSpec::new("service").after("values");
    if notifies {
        service = service.refreshed_by_kind("values", "value");
    }
    let count = Arc::new(AtomicUsize::new(0));
    let driver =
        start(2, [(spec, Box::new(vertex) as _), crate::support::counted(service, &count)]);
    (driver, count)
}

fn run(system: &Arc<Mutex<System>>, notifies: bool) -> Driver {
    run_counted(system, notifies).0
}

#[test]
fn a_source_is_brought_right_looks_at_what_is_dirty_and_is_undone_when_it_leaves() {
    let system = Arc::new(Mutex::new(System::default()));
    system.lock().unwrap().values.insert("foreign".to_owned(), 7);
    let driver = run(&system, false);
    driver.wait_converged(BOUND).unwrap();
    let take = || std::mem::take(&mut system.lock().unwrap().passes);
    // The record is written between the check and the run that applies.
    assert_eq!(take(), [(Extent::Everything, false), (Extent::Everything, true)]);
    let hints = system.lock().unwrap().hints.clone().unwrap();
    system.lock().unwrap().values.remove("a");
    hints.request_pass();
    until("it is restored", || system.lock().unwrap().values.contains_key("a"));
    assert_eq!(take(), [(Extent::Dirty, true)], "the record is there");
    driver.replace([]).unwrap();
    driver.wait_converged(BOUND).unwrap();
    let values = system.lock().unwrap().values.clone();
    assert_eq!(values, BTreeMap::from([("foreign".to_owned(), 7)]));
    hints.request_pass();
    assert!(driver.is_converged() || driver.wait_converged(Duration::from_secs(9)).is_ok());
}

#[test]
fn a_source_that_notifies_checks_first_and_fails_by_the_class_of_its_ops() {
    let system = Arc::new(Mutex::new(System::default()));
    system.lock().unwrap().refused = true;
    let driver = run(&system, true);
    until("it fails", || driver.explain("values").unwrap().attempts > 0);
    let explained = driver.explain("values").unwrap();
    assert_eq!(explained.last, Some(Err(ErrorClass::Permission)));
    let message = explained.message.unwrap();
    assert!(message.contains("0 ops applied, 1 failed"), "{message}");
    let passes = std::mem::take(&mut system.lock().unwrap().passes);
    assert_eq!(passes, [(Extent::Everything, false), (Extent::Everything, true)]);
    system.lock().unwrap().refused = false;
    driver.event("values").unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(system.lock().unwrap().values["a"], 1);
}

#[test]
fn a_source_that_notifies_restores_with_a_look_before_and_refreshes_once() {
    let system = Arc::new(Mutex::new(System::default()));
    let (driver, count) = run_counted(&system, true);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let take = || std::mem::take(&mut system.lock().unwrap().passes);
    take();
    let hints = system.lock().unwrap().hints.clone().unwrap();
    system.lock().unwrap().values.remove("a");
    hints.request_pass();
    until("it is refreshed", || count.load(Ordering::SeqCst) == 2);
    assert_eq!(take(), [(Extent::Dirty, false), (Extent::Everything, true)]);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(driver.explain("service").unwrap().refreshes, 0);
}

#[test]
fn a_source_that_announces_restores_with_one_pass_and_refreshes_once() {
    let system = Arc::new(Mutex::new(System::default()));
    let (driver, count) = run_source(Values::<true>(Arc::clone(&system)), true);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let take = || std::mem::take(&mut system.lock().unwrap().passes);
    // The record is written between the check and the run that applies.
    assert_eq!(take(), [(Extent::Everything, false), (Extent::Everything, true)]);
    let hints = system.lock().unwrap().hints.clone().unwrap();
    system.lock().unwrap().values.remove("a");
    hints.request_pass();
    until("it is refreshed", || count.load(Ordering::SeqCst) == 2);
    assert_eq!(take(), [(Extent::Dirty, true)]);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(driver.explain("service").unwrap().refreshes, 0);
}

#[test]
fn a_source_that_fails_is_tried_again_by_its_loop_and_at_once_after_a_hint() {
    let system = Arc::new(Mutex::new(System::default()));
    system.lock().unwrap().refused = true;
    let driver = run(&system, false);
    let hints = || system.lock().unwrap().hints.clone();
    until("it is watched", || hints().is_some());
    for _ in 0..3 {
        let before = system.lock().unwrap().passes.len();
        hints().unwrap().request_pass();
        until("it is tried again", || system.lock().unwrap().passes.len() > before);
    }
    system.lock().unwrap().refused = false;
    hints().unwrap().request_pass();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(system.lock().unwrap().values["a"], 1);
}

#[test]
fn a_pause_of_the_graph_lets_no_pass_begin() {
    let system = Arc::new(Mutex::new(System::default()));
    let driver = run(&system, false);
    driver.wait_converged(BOUND).unwrap();
    driver.pause(BOUND).unwrap();
    let hints = system.lock().unwrap().hints.clone().unwrap();
    system.lock().unwrap().values.remove("a");
    hints.request_pass();
    until("the event is there", || driver.explain("values").unwrap().cause.is_some());
    assert!(!system.lock().unwrap().values.contains_key("a"));
    driver.resume();
    until("it is restored", || system.lock().unwrap().values.contains_key("a"));
}

#[test]
fn a_loop_that_is_stopped_through_its_handle_ends_in_the_graph() {
    let system = Arc::new(Mutex::new(System::default()));
    let source = Values::<false>(Arc::clone(&system));
    let vertex = SourceVertex::new(source, (), BTreeMap::new(), MemoryLedger::default(), ());
    let driver = start(1, [(VertexSpec::new("values"), Box::new(vertex.clone()) as _)]);
    driver.wait_converged(BOUND).unwrap();
    assert!(vertex.ended().is_none());
    let asked = vertex.handle().ask(|view| view.desired.len(), BOUND);
    assert_eq!(asked.unwrap(), 0, "a question is answered without a pass");
    vertex.handle().stop();
    vertex.handle().wait_ended(BOUND).unwrap();
    assert!(vertex.ended().unwrap().is_ok());
    driver.stop(BOUND).unwrap();
}

#[test]
fn a_waker_that_the_end_of_a_loop_calls_may_ask_for_its_result() {
    struct Asks(SourceVertex<Values<false>>, Sender<bool>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let _ = self.1.send(self.0.ended().is_some_and(|it| it.is_ok()));
        }
    }
    let source = Values::<false>(Arc::default());
    let vertex = SourceVertex::new(source, (), BTreeMap::new(), MemoryLedger::default(), ());
    let driver = start(1, [(VertexSpec::new("values"), Box::new(vertex.clone()) as _)]);
    driver.wait_converged(BOUND).unwrap();
    let (sender, results) = channel();
    let waker = Waker::from(Arc::new(Asks(vertex.clone(), sender)));
    let mut ended = Box::pin(vertex.handle().ended());
    assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    vertex.handle().stop();
    // The request to stop wakes the task, too.
    while !results.recv_timeout(BOUND).unwrap() {
        if ended.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            break;
        }
    }
    assert!(vertex.ended().unwrap().is_ok());
}

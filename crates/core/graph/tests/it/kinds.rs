//! Edges for some kinds of change, and vertices that announce their changes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_graph::{Driver, Failure, RunContext, Verdict, Vertex, VertexSpec};
use trueup_reconcile::{Ledger as _, LedgerError, MemoryLedger};
use trueup_testkit::{Claims, InterceptedLedger};

use crate::support::{BOUND, Declared, SharedLedger, config, start, until, vertex};

/// The pending changes, by kind.
type Due = Arc<Mutex<Vec<&'static str>>>;

/// A vertex that announces the pending changes, and makes them.
struct Announcing {
    due: Due,
    /// The only kind that it reports as changed; `None` if it reports nothing.
    changed: Option<&'static str>,
}

impl Vertex for Announcing {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        assert!(apply, "it is not checked before");
        let due = self.due.lock().unwrap().clone();
        if due.is_empty() {
            return Ok(Verdict::InPlace);
        }
        context.will_change(due)?;
        self.due.lock().unwrap().clear();
        if let Some(changed) = self.changed {
            context.has_changed([changed]);
        }
        Ok(Verdict::Changed)
    }

    fn announces(&self) -> bool {
        true
    }
}

fn announcing(due: &Due, changed: Option<&'static str>) -> Declared {
    let spec = VertexSpec::new("network").with_retry(0, Duration::ZERO);
    (spec, Box::new(Announcing { due: Arc::clone(due), changed }))
}

/// Declares a vertex that counts its refreshes.
fn refreshed(spec: VertexSpec, count: &Arc<AtomicU32>) -> Declared {
    let count = Arc::clone(count);
    vertex(spec, move |context, _| {
        count.fetch_add(context.refreshes(), Ordering::SeqCst);
        Ok(Verdict::InPlace)
    })
}

/// Lets a vertex change these kinds. Returns the number of refreshes of three children: by routes,
/// by rules and addresses, and by all kinds.
fn refreshes(due: &[&'static str], changed: Option<&'static str>) -> [u32; 3] {
    let due = Arc::new(Mutex::new(due.to_vec()));
    let counts: [Arc<AtomicU32>; 3] = Default::default();
    let spec = |name| VertexSpec::new(name);
    let others = spec("others").refreshed_by_kind("network", "rule");
    let driver = start(
        2,
        [
            announcing(&due, changed),
            refreshed(spec("route").refreshed_by_kind("network", "route"), &counts[0]),
            refreshed(others.refreshed_by_kind("network", "address"), &counts[1]),
            refreshed(spec("all").refreshed_by("network"), &counts[2]),
        ],
    );
    driver.wait_converged(BOUND).unwrap();
    counts.map(|it| it.load(Ordering::SeqCst))
}

#[test]
fn an_edge_passes_on_the_kinds_of_change_that_it_names() {
    assert_eq!(refreshes(&[], None), [0, 0, 0]);
    assert_eq!(refreshes(&["route"], None), [1, 0, 1]);
    assert_eq!(refreshes(&["address"], None), [0, 1, 1]);
    assert_eq!(refreshes(&["link"], None), [0, 0, 1]);
    assert_eq!(refreshes(&["address", "route", "rule"], None), [1, 1, 1], "once for both kinds");
    assert_eq!(refreshes(&["route", "rule"], Some("rule")), [0, 1, 1], "it says what it was");
}

#[test]
fn a_vertex_that_does_not_say_what_it_changes_changes_every_kind() {
    let count = Arc::default();
    let mut is_changed = false;
    let file = vertex(VertexSpec::new("file"), move |_, apply| {
        Ok(match (std::mem::replace(&mut is_changed, apply), apply) {
            (true, _) => Verdict::InPlace,
            (false, true) => Verdict::Changed,
            (false, false) => Verdict::WouldChange,
        })
    });
    let spec = VertexSpec::new("command").refreshed_by_kind("file", "content");
    let driver = start(2, [file, refreshed(spec, &count)]);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn what_is_announced_is_recorded_before_it_is_changed_and_names_those_alone_that_it_refreshes() {
    let ledger = Arc::new(Mutex::new(MemoryLedger::default()));
    let seen = Arc::clone(&ledger);
    struct Looking<F>(F);
    impl<F: FnMut(&RunContext) -> Result<(), Failure> + Send + 'static> Vertex for Looking<F> {
        fn check_apply(&mut self, context: &RunContext, _: bool) -> Result<Verdict, Failure> {
            (self.0)(context)?;
            Ok(Verdict::Changed)
        }

        fn announces(&self) -> bool {
            true
        }
    }
    let mut is_done = false;
    let network = Looking(move |context: &RunContext| {
        if std::mem::replace(&mut is_done, true) {
            return Ok(());
        }
        let intent = || {
            let records = seen.lock().unwrap().owned().unwrap();
            let record = records.get(&b"network"[..]).cloned().unwrap_or_default();
            trueup_graph::Record::from_bytes(&record).map(|it| it.intent.join(" "))
        };
        assert_eq!(intent(), None, "nothing is written before");
        context.will_change(["route"])?;
        assert_eq!(intent().as_deref(), Some("route"));
        context.will_change(["rule"])?;
        assert_eq!(intent().as_deref(), Some("route rule"));
        Ok(())
    });
    let child = |name: &str| {
        let spec = VertexSpec::new(name).refreshed_by_kind("network", name);
        refreshed(spec, &Arc::default())
    };
    let spec = VertexSpec::new("network").with_retry(0, Duration::ZERO);
    let vertices = [(spec, Box::new(network) as _), child("route"), child("rule"), child("link")];
    let driver = Driver::start(config(1), vertices, Box::new(SharedLedger(ledger))).unwrap();
    driver.wait_converged(BOUND).unwrap();
}

#[test]
fn an_announcement_that_cannot_be_recorded_changes_nothing_and_ends_with_a_pause() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let broken = Arc::clone(&is_broken);
    let write = move |ledger: &mut MemoryLedger, claims: Claims| match broken.load(Ordering::SeqCst)
    {
        true => Err(LedgerError::new("the disk is full")),
        false => ledger.commit_outcomes(claims),
    };
    let ledger = InterceptedLedger::new(MemoryLedger::default(), write);
    let due = Arc::new(Mutex::new(vec!["route"]));
    let count = Arc::default();
    let command = VertexSpec::new("command").refreshed_by_kind("network", "route");
    let vertices = [announcing(&due, None), refreshed(command, &count)];
    let settings = config(1).with_persist_delay(Duration::from_millis(1));
    let driver = Driver::start(settings, vertices, Box::new(ledger)).unwrap();
    let waits = || driver.explain("network").unwrap().to_string();
    until("it waits", || waits().contains("waits for the journal"));
    // The write is retried without end; only the run ends.
    driver.pause(Duration::from_millis(1)).unwrap_err();
    until("the run ends", || !driver.explain("network").unwrap().running);
    assert_eq!(*due.lock().unwrap(), ["route"]);
    assert_eq!(driver.explain("network").unwrap().attempts, 0, "an interruption is no failure");
    is_broken.store(false, Ordering::SeqCst);
    driver.resume();
    driver.wait_converged(BOUND).unwrap();
    assert!(due.lock().unwrap().is_empty());
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

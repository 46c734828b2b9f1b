//! Values that vertices send to each other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use trueup_graph::{Driver, ErrorKind, Failure, RunContext, Verdict, VertexSpec, Wait};
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::support::{BOUND, Declared, config, start, until, vertex};

/// The values that a receiver saw, in order, each with true if it was new.
type Seen = Arc<Mutex<Vec<(u32, bool)>>>;

/// Declares a vertex that sends the number, unless it is 0.
fn sender(spec: VertexSpec, value: &Arc<AtomicU32>) -> Declared {
    let value = Arc::clone(value);
    vertex(spec.sends::<u32>("number"), move |context, _| {
        match value.load(Ordering::SeqCst) {
            0 => {}
            value => context.send("number", value)?,
        }
        Ok(Verdict::InPlace)
    })
}

fn receiver(spec: VertexSpec, seen: &Seen) -> Declared {
    let seen = Arc::clone(seen);
    vertex(spec, move |context, _| {
        let (number, is_changed) = context.received::<u32>("in")?;
        seen.lock().unwrap().push((*number, is_changed));
        Ok(Verdict::InPlace)
    })
}

fn pair(value: &Arc<AtomicU32>, seen: &Seen) -> [Declared; 2] {
    let spec = VertexSpec::new("b").receives::<u32>("in", "a", "number");
    [sender(VertexSpec::new("a"), value), receiver(spec, seen)]
}

fn take(seen: &Seen) -> Vec<(u32, bool)> {
    std::mem::take(&mut seen.lock().unwrap())
}

#[test]
fn a_value_is_received_and_is_new_only_if_it_differs() {
    let (value, seen) = (Arc::new(AtomicU32::new(7)), Seen::default());
    let driver = start(2, pair(&value, &seen));
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(take(&seen), [(7, true)]);
    for (next, is_changed) in [(7, false), (8, true), (0, false)] {
        value.store(next, Ordering::SeqCst);
        driver.event("a").unwrap();
        driver.wait_converged(BOUND).unwrap();
        let expected = if next == 0 { 8 } else { next };
        assert_eq!(take(&seen), [(expected, is_changed)]);
    }
}

#[test]
fn a_receiver_waits_for_the_first_value_says_so_and_is_not_quiet() {
    let (value, seen) = (Arc::new(AtomicU32::new(0)), Seen::default());
    let after = VertexSpec::new("c").after("b");
    let in_place = |_: &RunContext, _: bool| Ok(Verdict::InPlace);
    let vertices = pair(&value, &seen).into_iter();
    let driver = start(2, vertices.chain([vertex(after, in_place)]));
    until("a has run", || driver.are_converged(&["a"]).unwrap());
    let explained = driver.explain("b").unwrap();
    let (sender, port) = ("a".to_owned(), "number".to_owned());
    assert_eq!(explained.waits, [Wait::Value { sender, port }]);
    assert_eq!(explained.to_string(), "b: dirty (new); waits for a to send number; has not run");
    assert!(!driver.is_converged() && !driver.are_converged(&["c"]).unwrap());
    assert!(take(&seen).is_empty());
    value.store(1, Ordering::SeqCst);
    driver.event("a").unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(take(&seen), [(1, true)]);
}

#[test]
fn what_a_failed_run_sends_is_dropped_and_a_failed_receiver_sees_it_as_new_again() {
    let (step, seen) = (Arc::new(AtomicU32::new(1)), Seen::default());
    let failed = || Failure::new(ErrorClass::Busy, "on purpose");
    let spec = VertexSpec::new("a").sends::<u32>("number").with_retry(0, BOUND);
    let at = Arc::clone(&step);
    let sender = vertex(spec, move |context, _| match at.load(Ordering::SeqCst) {
        1 => {
            context.send("number", 11u32)?;
            Err(failed())
        }
        2 => Ok(Verdict::InPlace),
        _ => {
            context.send("number", 12u32)?;
            Ok(Verdict::InPlace)
        }
    });
    let (inner, at) = (Arc::clone(&seen), Arc::clone(&step));
    let spec = VertexSpec::new("b").receives::<u32>("in", "a", "number");
    let receiver = vertex(spec.with_retry(0, BOUND), move |context, _| {
        let (number, is_changed) = context.received::<u32>("in")?;
        inner.lock().unwrap().push((*number, is_changed));
        match at.load(Ordering::SeqCst) {
            3 => Err(failed()),
            _ => Ok(Verdict::InPlace),
        }
    });
    let driver = start(2, [sender, receiver]);
    until("a fails", || driver.explain("a").unwrap().attempts > 0);
    step.store(2, Ordering::SeqCst);
    driver.event("a").unwrap();
    until("a succeeds", || driver.are_converged(&["a"]).unwrap());
    let explained = driver.explain("b").unwrap().to_string();
    assert!(explained.contains("waits for a to send number"), "{explained}");
    step.store(3, Ordering::SeqCst);
    driver.event("a").unwrap();
    until("b fails", || driver.explain("b").unwrap().attempts > 0);
    assert_eq!(take(&seen), [(12, true)]);
    step.store(4, Ordering::SeqCst);
    driver.event("b").unwrap();
    until("b is tried again", || !seen.lock().unwrap().is_empty());
    assert_eq!(take(&seen), [(12, true)]);
}

#[test]
fn a_replaced_sender_keeps_its_value_and_one_that_leaves_does_not() {
    let (value, seen) = (Arc::new(AtomicU32::new(7)), Seen::default());
    let driver = start(2, pair(&value, &seen));
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(take(&seen), [(7, true)]);
    // The new vertex sends nothing.
    let spec = |revision| VertexSpec::new("a").with_revision(revision);
    let [_, kept] = pair(&value, &seen);
    driver.replace([sender(spec(1), &Arc::default()), kept]).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(take(&seen), [(7, false)]);
    let [_, alone] = pair(&value, &seen);
    let error = driver.replace([alone]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Port);
    assert_eq!(error.to_string(), "vertex b: port in receives number of a, which is not declared");
    driver.replace([]).unwrap();
    let [_, again] = pair(&value, &seen);
    driver.replace([sender(spec(2), &Arc::default()), again]).unwrap();
    until("a has run", || driver.are_converged(&["a"]).unwrap());
    assert!(driver.explain("b").unwrap().to_string().contains("waits for a to send"));
    assert!(take(&seen).is_empty());
}

#[test]
fn several_senders_are_merged_once_each_has_a_value() {
    let values = [0, 2].map(|it| Arc::new(AtomicU32::new(it)));
    let seen = Seen::default();
    let senders = [("a", "number"), ("b", "number")];
    let sum = |values: &[Arc<u32>]| values.iter().map(|it| **it).sum::<u32>();
    let spec = VertexSpec::new("sum").receives_merged("in", &senders, sum);
    let driver = start(
        2,
        [
            sender(VertexSpec::new("a"), &values[0]),
            sender(VertexSpec::new("b"), &values[1]),
            receiver(spec, &seen),
        ],
    );
    until("all but the sum is there", || driver.are_converged(&["a", "b"]).unwrap());
    assert!(take(&seen).is_empty());
    let send = |at: usize, value, name: &str| {
        values[at].store(value, Ordering::SeqCst);
        driver.event(name).unwrap();
        driver.wait_converged(BOUND).unwrap();
        take(&seen)
    };
    assert_eq!(send(0, 1, "a"), [(3, true)]);
    assert_eq!(send(0, 2, "a"), [(4, true)]);
    driver.pause(BOUND).unwrap();
    values[0].store(3, Ordering::SeqCst);
    driver.event("a").unwrap();
    values[1].store(1, Ordering::SeqCst);
    driver.event("b").unwrap();
    driver.resume();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(take(&seen), [(4, false)], "the sum is the same");
}

#[test]
fn ports_and_types_are_checked_when_the_graph_is_built() {
    let built = |vertices: Vec<VertexSpec>| {
        let error = trueup_graph::validate(vertices).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Port, "{error}");
        error.to_string()
    };
    let a = VertexSpec::new("a").sends::<u32>("number");
    let b = VertexSpec::new("b");
    assert_eq!(
        built(vec![a.clone(), b.clone().receives::<String>("in", "a", "number")]),
        "vertex b: port in receives number of a as alloc::string::String, which sends u32; \
         use one type"
    );
    assert_eq!(
        built(vec![a.clone(), b.clone().receives::<u32>("in", "a", "other")]),
        "vertex b: port in receives other of a, which does not send it"
    );
    let twice = b.receives::<u32>("in", "a", "number").receives::<u32>("in", "a", "number");
    assert_eq!(
        built(vec![a.clone(), twice]),
        "vertex b: port in is declared twice; rename one, or use `receives_merged` for several \
         senders"
    );
    let own = a.receives::<u32>("in", "a", "number");
    let error = trueup_graph::validate([own]).unwrap_err();
    assert!(error.is_cycle(), "{error}");
}

#[test]
fn a_run_that_uses_a_port_otherwise_than_declared_fails_and_says_so() {
    let wrong = |context: &RunContext, _: bool| {
        let errors = [
            context.send("other", 1u32).unwrap_err(),
            context.send("number", "text").unwrap_err(),
            context.received::<u32>("in").unwrap_err(),
        ];
        let texts = errors.map(|it| it.to_string()).join("; ");
        Err(Failure::new(ErrorClass::Invalid, texts))
    };
    let driver = start(1, [vertex(VertexSpec::new("a").sends::<u32>("number"), wrong)]);
    until("it fails", || driver.explain("a").unwrap().attempts > 0);
    assert_eq!(
        driver.explain("a").unwrap().message.unwrap(),
        "port other: the vertex does not send by it; declare `sends`; \
         port number: sent as &str, declared as u32; use one type; \
         port in: the vertex does not receive by it; declare `receives`"
    );
}

#[test]
fn after_a_restart_a_receiver_waits_for_the_first_run_of_its_sender() {
    let seen = Seen::default();
    let begin = |value: u32| {
        let vertices = pair(&Arc::new(AtomicU32::new(value)), &seen);
        Driver::start(config(2), vertices, Box::new(MemoryLedger::default())).unwrap()
    };
    let driver = begin(7);
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
    let driver = begin(8);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(take(&seen), [(7, true), (8, true)]);
    driver.stop(BOUND).unwrap();
}

#[test]
fn a_check_passes_values_on_and_says_who_waits_for_one() {
    let receiver = |name: &str, port: &str| {
        let spec = VertexSpec::new(name).receives::<u32>("in", "a", port);
        vertex(spec, |context, _| {
            let (number, _) = context.received::<u32>("in")?;
            Ok(match *number {
                7 => Verdict::InPlace,
                _ => Verdict::WouldChange,
            })
        })
    };
    let spec = VertexSpec::new("a").sends::<u32>("number").sends::<u32>("none");
    let sender = vertex(spec, |context, _| {
        context.send("number", 7u32)?;
        Ok(Verdict::InPlace)
    });
    let below = vertex(VertexSpec::new("d").after("c"), |_, _| Ok(Verdict::InPlace));
    let vertices = [sender, receiver("b", "number"), receiver("c", "none"), below];
    let snapshot = trueup_graph::check(vertices, &MemoryLedger::default()).unwrap();
    let text = snapshot.to_string();
    for line in [
        "b: settled; last run: in place",
        "c: settled; waits for a to send none; has not run",
        "d: settled; waits for c; has not run",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

//! Calls of a group.

use std::any::Any;
use std::sync::{Arc, Mutex};

use trueup_graph::{Failure, RunContext, Verdict, Vertex, VertexSpec, Wait, check};
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::support::{BOUND, Declared, counted, start, until};

/// The ways in which a group answers a call.
#[derive(Clone, Copy)]
enum Call {
    Together,
    Alone,
    Panic,
    TooFew,
}

struct Member {
    number: u32,
    call: Call,
    /// The members of each call.
    calls: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Vertex for Member {
    fn check_apply(&mut self, _: &RunContext, _: bool) -> Result<Verdict, Failure> {
        self.calls.lock().unwrap().push(vec![self.number]);
        Ok(Verdict::InPlace)
    }

    fn check_apply_group(
        &mut self,
        others: &mut [&mut dyn Vertex],
        contexts: &[RunContext],
        _: bool,
    ) -> Option<Vec<Result<Verdict, Failure>>> {
        assert_eq!(contexts.len(), others.len() + 1);
        let mut numbers = vec![self.number];
        for other in others {
            let other: &mut dyn Any = *other;
            numbers.push(other.downcast_mut::<Self>()?.number);
        }
        let odd = |number: &u32| match number % 2 {
            0 => Ok(Verdict::InPlace),
            _ => Err(Failure::new(ErrorClass::Invalid, "the number is odd")),
        };
        let results = numbers.iter().map(odd).collect();
        match self.call {
            Call::Together => {}
            Call::Alone => return None,
            Call::Panic => panic!("on purpose"),
            Call::TooFew => return Some(Vec::new()),
        }
        self.calls.lock().unwrap().push(numbers);
        Some(results)
    }
}

/// Declares a group whose members begin together, after another vertex.
fn declare(call: Call, calls: &Arc<Mutex<Vec<Vec<u32>>>>) -> Vec<Declared> {
    let members = (0..4).map(|number| -> Declared {
        let spec = VertexSpec::new(&number.to_string()).unwatched();
        let spec = spec.with_group("g").after("first").with_retry(0, BOUND);
        let calls = Arc::clone(calls);
        let member = Member { number, call, calls };
        (spec, Box::new(member))
    });
    let first = counted(VertexSpec::new("first").unwatched(), &Arc::default());
    members.chain([first]).collect()
}

#[test]
fn a_group_is_one_call_and_each_has_its_own_result() {
    let calls = Arc::default();
    let driver = start(4, declare(Call::Together, &calls));
    until("the odd ones fail", || {
        let failed = ["1", "3"].map(|it| driver.explain(it).unwrap().message);
        failed.iter().all(|it| it.as_deref() == Some("the number is odd"))
    });
    until("the others are in place", || driver.are_converged(&["first", "0", "2"]).unwrap());
    assert_eq!(*calls.lock().unwrap(), [[0, 1, 2, 3]]);
    driver.stop(BOUND).unwrap();
}

#[test]
fn vertices_that_cannot_be_called_together_are_called_one_after_the_other() {
    let calls = Arc::default();
    let driver = start(4, declare(Call::Alone, &calls));
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(*calls.lock().unwrap(), [[0], [1], [2], [3]]);
    // A closure has another type.
    let mut mixed = declare(Call::Together, &calls);
    let spec = VertexSpec::new("closure").unwatched().with_group("g");
    mixed.push(counted(spec.after("first"), &Arc::default()));
    calls.lock().unwrap().clear();
    let driver = start(4, mixed);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(*calls.lock().unwrap(), [[0], [1], [2], [3]]);
}

#[test]
fn a_group_that_panics_or_returns_too_few_results_fails_whole() {
    for (call, message) in [
        (Call::Panic, "the vertex panicked: on purpose"),
        (Call::TooFew, "the group's results are not one for each vertex"),
    ] {
        let driver = start(4, declare(call, &Arc::default()));
        for name in ["0", "1", "2", "3"] {
            let found = || driver.explain(name).unwrap().message.unwrap_or_default();
            until("it fails", || found().starts_with(message));
        }
        driver.stop(BOUND).unwrap();
    }
}

#[test]
fn a_check_calls_those_of_a_group_together_unless_they_depend_on_each_other() {
    let calls = Arc::default();
    let mut declared = declare(Call::Together, &calls);
    for (number, parent) in [(4, "0"), (5, "1"), (6, "2")] {
        let spec = VertexSpec::new(&number.to_string()).with_group("g");
        let calls = Arc::clone(&calls);
        let call = Call::Together;
        let member = Member { number, call, calls };
        declared.push((spec.after(parent), Box::new(member)));
    }
    let found = check(declared, &MemoryLedger::default()).unwrap();
    assert_eq!(*calls.lock().unwrap(), [vec![0, 1, 2, 3], vec![4, 6]]);
    let vertex = |name: &str| found.vertices.iter().find(|it| it.name == name).unwrap();
    assert_eq!(vertex("0").last, Some(Ok(Verdict::InPlace)));
    assert_eq!(vertex("0").group.as_deref(), Some("g"));
    assert_eq!(vertex("3").last, Some(Err(ErrorClass::Invalid)));
    let skipped = vertex("5");
    let waits = [Wait::FailedAncestors(vec!["1".to_owned()])];
    assert_eq!((skipped.last, &skipped.waits[..]), (None, &waits[..]));
}

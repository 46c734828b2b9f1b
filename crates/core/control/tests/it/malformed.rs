//! Nonsensical answers of a backend, panics, and answers too long to be recorded.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use trueup_control::{
    Action, Backend, Config, Engine, Error, ErrorClass, Fixed, Found, Object, Objects, Observed,
    Started, Task, Wait,
};
use trueup_journal::Journal;
use trueup_reconcile::{MemoryLedger, PassInput, Report as _, Source as _};

use crate::world::{Sim, fixed};

/// Gives odd answers until it is switched off.
#[derive(Clone)]
struct Odd(Arc<Mutex<State>>);

struct State {
    now: u64,
    objects: Objects,
    odd: Option<Case>,
}

#[derive(Clone)]
struct Case {
    started: Started,
    task: Task,
    found: Found,
    observed: Observed,
    panics: &'static str,
}

impl Odd {
    fn odd(&self, call: &str) -> Option<Case> {
        let odd = self.0.lock().unwrap().odd.clone();
        assert!(odd.as_ref().is_none_or(|odd| odd.panics != call), "{call}");
        odd
    }
}

impl Backend for Odd {
    fn observe(&self) -> Result<Observed, Error> {
        let odd = self.odd("observe");
        let mut observed = Observed::new(self.0.lock().unwrap().objects.clone());
        observed.unread = odd.map(|odd| odd.observed.unread).unwrap_or_default();
        Ok(observed)
    }

    fn lane(&self, key: &str) -> String {
        self.odd("lane");
        key.to_owned()
    }

    fn is_benign(&self, _: &Action, _: Option<&Object>) -> bool {
        self.odd("is_benign");
        true
    }

    fn start(&self, action: &Action, _: &str) -> Started {
        if let Some(odd) = self.odd("start") {
            return odd.started;
        }
        let mut state = self.0.lock().unwrap();
        let object = state.objects.remove(&action.key);
        let object = action.apply_to(object).unwrap_or_default();
        state.objects.insert(action.key.clone(), object);
        Started::Done
    }

    fn task(&self, _: &str) -> Result<Task, Error> {
        Ok(self.odd("task").map_or(Task::Unknown, |odd| odd.task))
    }

    fn find(&self, _: &str) -> Result<Found, Error> {
        Ok(self.odd("find").map_or(Found::Never, |odd| odd.found))
    }
}

#[test]
fn whatever_a_backend_answers_once_it_answers_well_all_is_done() {
    // Longer than the journal accepts.
    let long = || "ä".repeat(10 << 20);
    let case = Case {
        started: Started::Done,
        task: Task::Succeeded,
        found: Found::NotSaid,
        observed: Observed::default(),
        panics: "",
    };
    let started = |started| Case { started, ..case.clone() };
    let refused = |class, message| Started::Refused { class, message };
    let lost = || Started::Indeterminate { message: long() };
    let task = |task| Case { started: Started::Task("7".to_owned()), task, ..case.clone() };
    let found = |found| Case {
        started: Started::Indeterminate { message: "no answer".to_owned() },
        task: Task::Running { progress: None },
        found,
        ..case.clone()
    };
    let panics = |panics| Case {
        started: Started::Task("7".to_owned()),
        task: Task::Unknown,
        panics,
        ..case.clone()
    };
    let unread =
        |key: &str| Case { observed: Observed::default().with_unread(key, long()), ..case.clone() };
    let mut cases: Vec<_> =
        ErrorClass::ALL.map(|class| started(refused(class, "no".to_owned()))).into();
    cases.extend([
        started(refused(ErrorClass::Busy, long())),
        // The backend did nothing.
        case.clone(),
        started(lost()),
        started(Started::Task(String::new())),
        started(Started::Task("\0\n".to_owned())),
        started(Started::Task("7".repeat(1 << 20))),
        task(Task::Running { progress: Some(long()) }),
        task(Task::Failed(long())),
        task(Task::Unknown),
        found(Found::Done),
        found(Found::Never),
        found(Found::Repeatable),
        found(Found::Task(String::new())),
        found(Found::Task("7".repeat(1 << 20))),
        unread("a"),
        unread(""),
    ]);
    let calls = ["observe", "lane", "is_benign", "start", "task", "find"];
    cases.extend(calls.map(panics));
    for (number, odd) in cases.into_iter().enumerate() {
        for restarts in [false, true] {
            run(&format!("case {number}"), odd.clone(), restarts);
        }
    }
}

fn run(what: &str, odd: Case, restarts: bool) {
    let backend = Odd(Arc::new(Mutex::new(State {
        now: 1_000_000,
        objects: Objects::from([("a".to_owned(), Object::new().with("memory", "1"))]),
        odd: Some(odd),
    })));
    let clock = backend.clone();
    let config = Config::default().with_create().with_clock(move || {
        SystemTime::UNIX_EPOCH + Duration::from_secs(clock.0.lock().unwrap().now)
    });
    let desired = fixed([("a", "2"), ("b", "1")]);
    let journal: Journal = Sim::new().journal();
    let engine = || -> Engine<Odd, Fixed> {
        Engine::new(backend.clone(), desired.clone(), &journal, config.clone()).unwrap()
    };
    let (mut it, mut ledger) = (engine(), MemoryLedger::default());
    for round in 0..12 {
        match it.reconcile(PassInput::new(&(), &(), &mut ledger, &())) {
            Ok(report) => {
                // Each op has one outcome, and every text is bounded.
                let keys: Vec<_> = report.ops().iter().map(|op| op.to_string()).collect();
                assert!(keys.iter().all(|text| text.len() < 10_000), "{what}");
                assert!(keys.len() <= 2, "{what}: {keys:?}");
                assert!(!report.converged(), "{what}: {report:?}");
            }
            Err(error) => assert!(error.is_retryable(), "{what}: {error}"),
        }
        for operation in it.handle().operations().unwrap() {
            if let Wait::Running { task, .. } = operation.state {
                assert!(!task.is_empty(), "{what}");
            }
        }
        if restarts && round % 4 == 3 {
            drop(it);
            it = engine();
        }
        backend.0.lock().unwrap().now += 61;
    }
    backend.0.lock().unwrap().odd = None;
    let converges = (0..20).any(|_| {
        backend.0.lock().unwrap().now += 601;
        let report = it.reconcile(PassInput::new(&(), &(), &mut ledger, &())).unwrap();
        report.converged()
    });
    let left = it.handle().operations().unwrap();
    assert!(converges, "{what}, restarts: {restarts}: {left:?}");
    assert!(left.is_empty(), "{what}");
    assert_eq!(backend.0.lock().unwrap().objects.len(), 2);
}

//! Inputs of an agent with a backend: tokens, a desired state in a file, and its own records.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use trueup_control::{
    Action, Approval, Backend, Config, Engine, Error, ErrorKind, Gate, JournalId, Objects,
    Observed, Started, Task, Wait, parse_json, plan,
};
use trueup_journal::{Journal, Start};
use trueup_reconcile::{MemoryLedger, PassInput, Source as _};

use crate::journal::Disk;

/// A token has only one text, and no unsigned token passes.
pub fn token(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match text.parse::<Approval>() {
        Ok(approval) => assert_eq!(approval.to_string(), text),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed),
    }
    let gate = Gate::new("agent", |_, _| false);
    let journal = JournalId::from_bytes([0; 16]);
    assert!(gate.check(text, journal, SystemTime::UNIX_EPOCH).is_err());
    if let Ok(approval) = text.parse::<Approval>() {
        all_signed(text, &approval);
    }
}

/// Checks tokens with a good signature: only the right journal and time pass.
fn all_signed(text: &str, approval: &Approval) {
    let gate = Gate::new("agent", |_, _| true);
    let terms = approval.terms();
    let other = JournalId::from_bytes(terms.journal.as_bytes().map(|byte| !byte));
    let check = |journal, now| gate.check(text, journal, now);
    assert!(check(other, terms.issued).is_err());
    assert!(check(terms.journal, terms.expires).is_err());
    let lifetime = terms.expires.duration_since(terms.issued);
    let day = Duration::from_secs(24 * 60 * 60);
    let is_valid = lifetime.is_ok_and(|it| !it.is_zero() && it <= day);
    assert_eq!(check(terms.journal, terms.issued).is_ok(), is_valid);
}

/// If a desired state can be parsed, and is in place, nothing is left to do.
pub fn desired(data: &[u8]) {
    match parse_json(data) {
        Ok(objects) => {
            let config = Config::default().with_create().with_destroy();
            let owned = objects.keys().cloned().collect();
            assert!(plan(&objects, &objects, &owned, &config).is_in_place());
            let all = plan(&objects, &Objects::new(), &owned, &config);
            assert_eq!(all.actions.len(), objects.len());
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Provider),
    }
}

/// A backend that answers no request, and counts requests for changes.
#[derive(Default)]
struct Silent(Mutex<u32>);

impl Backend for &'static Silent {
    fn observe(&self) -> Result<Observed, Error> {
        Ok(Observed::default())
    }

    fn start(&self, _: &Action, _: &str) -> Started {
        *self.0.lock().expect("no test panics with it") += 1;
        Started::Done
    }

    fn task(&self, _: &str) -> Result<Task, Error> {
        Ok(Task::Unknown)
    }
}

static SILENT: Silent = Silent(Mutex::new(0));

/// Any record of an operation in flight: recovery ends and begins nothing, and the operation is
/// ended, waits, or is in doubt.
pub fn operation(data: &[u8]) {
    let disk = Disk::default();
    Journal::create_on(disk.clone()).expect("an empty disk");
    let journal = Journal::open_on(disk).expect("it was just made");
    let start = Start::new("control/vm7", data);
    drop(journal.begin(start).expect("a good disk"));
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let config = Config::default().with_lanes(std::num::NonZeroUsize::MIN).with_clock(move || now);
    let mut engine = Engine::new(&SILENT, None, &journal, config).expect("a thread");
    let mut ledger = MemoryLedger::default();
    let report = engine.reconcile(PassInput::new(&(), &(), &mut ledger, &())).expect("a good disk");
    assert!(!report.is_known());
    assert_eq!(*SILENT.0.lock().expect("no test panics with it"), 0);
    let found = journal.operation("control/vm7").expect("a good disk");
    let has_ended = found.is_some_and(|found| found.ended.is_some());
    let left = engine.handle().operations().expect("a good disk");
    assert_eq!(left.len(), usize::from(!has_ended));
    for operation in left {
        assert!(!matches!(operation.state, Wait::Running { .. }));
    }
}

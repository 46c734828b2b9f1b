//! The output of the feature `tracing`: starts and ends, without secrets.

use std::fmt::{self, Write as _};
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use trueup_control::{Fixed, Object, Objects, Value};
use trueup_reconcile::MemoryLedger;

use crate::engine::pass;
use crate::world::{Mode, Sim};

static LINES: Mutex<String> = Mutex::new(String::new());

struct Lines;

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut lines = LINES.lock().unwrap();
        event.record(&mut Line(&mut lines));
        lines.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn starts_and_ends_are_events_and_secrets_are_not_in_them() {
    // Lanes have their own threads, so the subscriber is global for all tests.
    tracing::subscriber::set_global_default(Lines).unwrap();
    for (mode, end) in [(Mode::Done, "succeeded"), (Mode::TaskFails(0), "no space")] {
        let sim = Sim::new();
        sim.world().mode = mode;
        let key = format!("traced {end}");
        let object = Object::new().with("password", Value::secret("hunter2"));
        let desired = Fixed::new(Objects::from([(key.clone(), object)]));
        pass(&mut sim.engine(desired), &mut MemoryLedger::default());
        let lines = LINES.lock().unwrap().clone();
        let of_it: Vec<_> = lines.lines().filter(|line| line.contains(&key)).collect();
        assert_eq!(of_it.len(), 2, "{lines}");
        assert!(of_it[0].contains("started") && of_it[0].contains("<secret>"), "{lines}");
        assert!(of_it[1].contains(end), "{lines}");
        assert!(!lines.contains("hunter2"));
    }
}

//! The output of the feature `tracing`: an event for each job that panics.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::*;

/// A collector that records its events.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("trueup_queue")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_job_that_panics_is_an_event() {
    let queue = queue(1);
    let held = hold(&queue, 1);
    let ticket = queue.submit(1, || panic!("on purpose")).unwrap();
    drop(held);
    let _: trueup_queue::Outcome<()> = ticket.wait(LONG).unwrap();
    // If a caller runs the job, the events come from the caller's thread.
    let held = hold(&queue, 1);
    let ticket = queue.submit(1, || panic!("at the end")).unwrap();
    let unfinished = queue.close_within(std::time::Duration::ZERO).unwrap();
    drop(held);
    let notes = Notes::default();
    tracing::subscriber::with_default(notes.clone(), || {
        for (_, jobs) in unfinished.unrun {
            jobs.into_iter().for_each(trueup_queue::UnrunJob::run);
        }
    });
    let _: trueup_queue::Outcome<()> = ticket.wait(LONG).unwrap();
    let notes = notes.0.lock().unwrap();
    assert_eq!(*notes, ["WARN message=a job of the queue panicked panic=\"at the end\""]);
}

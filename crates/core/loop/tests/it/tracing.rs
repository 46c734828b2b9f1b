//! The output of the feature `tracing`: a span for each pass with its result, and events for other
//! failures.

use std::fmt::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use trueup_loop::{Config, Loop};
use trueup_reconcile::{
    Drained, Hints, MemoryLedger, OpKey, Outcome, PassInput, Report, ReportedOp, Source, Subscribed,
};

/// A collector that records its spans and events.
#[derive(Clone, Default)]
struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Notes {
    fn note(&self, what: impl Into<String>, record: impl FnOnce(&mut Fields)) {
        let mut fields = Fields(what.into());
        record(&mut fields);
        self.lines.lock().unwrap().push(fields.0);
    }
}

impl Subscriber for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata().name(), |fields| span.record(fields));
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.note("...", |fields| values.record(fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.note("event", |fields| event.record(fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A source whose subscription loses events after the first pass and fails after the second; the
/// third pass fails.
#[derive(Default)]
struct Unlucky {
    passes: u32,
    events: Option<OwnedFd>,
    drains: u32,
}

struct Pass;

impl Report for Pass {
    fn converged(&self) -> bool {
        true
    }

    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        for outcome in [Outcome::Applied, Outcome::Pending(())] {
            tell(ReportedOp::new("thing", outcome, &|| OpKey(0)));
        }
    }
}

impl Source for Unlucky {
    type Scope = ();
    type Desired = ();
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = fmt::Error;

    fn reconcile(&mut self, _: PassInput<'_, Self>) -> Result<Pass, fmt::Error> {
        self.passes += 1;
        match self.passes {
            1 | 2 => Ok(Pass),
            _ => Err(fmt::Error),
        }
    }

    fn subscribe(&mut self, (): &(), _: Hints) -> Subscribed<(), fmt::Error> {
        (self.events, self.drains) = (Some(eventfd(0, EventfdFlags::CLOEXEC).unwrap()), 0);
        Subscribed::Active(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }

    fn drain(&mut self) -> Result<Drained, fmt::Error> {
        self.drains += 1;
        match self.drains {
            1 => Ok(Drained::Lost),
            _ => {
                self.events = None;
                Err(fmt::Error)
            }
        }
    }
}

#[test]
fn a_span_for_each_pass_and_an_event_for_what_goes_wrong() {
    let notes = Notes::default();
    let config =
        Config::default().with_interval(Duration::from_secs(3600)).with_debounce(Duration::ZERO);
    let it = Loop::new(Unlucky::default(), (), (), MemoryLedger::default(), (), config);
    let handle = it.handle();
    let it = it.on_report(|_, result| {
        if result.is_err() {
            handle.stop();
        }
    });
    tracing::subscriber::with_default(notes.clone(), || it.run().unwrap());
    let lines = notes.lines.lock().unwrap();
    let expected = [
        "pass extent=\"everything\" revision=0",
        "... converged=true",
        "... truncated=false",
        "... tried=1",
        "... pending=1",
        "event message=the subscription lost events: a full pass follows count=1",
        "pass extent=\"everything\" revision=0",
        "... converged=true",
        "... truncated=false",
        "... tried=1",
        "... pending=1",
        "event message=the subscription failed: passes run by timer only error=an error occurred when formatting an argument",
        "pass extent=\"everything\" revision=0",
        "... error=an error occurred when formatting an argument",
    ];
    assert_eq!(*lines, expected);
}

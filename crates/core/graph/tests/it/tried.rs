//! Vertices that run once a parent was tried: on real threads, in a check, and drawn.

use std::io::{PipeReader, Read as _, Write as _, pipe};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;
use std::time::{Duration, Instant};

use trueup_graph::{EdgeKind, Failure, RunContext, Turn, Verdict, Vertex, VertexSpec, Wait, check};
use trueup_reconcile::{ErrorClass, Hints, MemoryLedger};

use crate::support::{BOUND, Declared, counted, start, until, vertex};

fn failing(spec: VertexSpec) -> Declared {
    vertex(spec, |_, _| Err(Failure::new(ErrorClass::Invalid, "no such setting")))
}

fn declared(count: &Arc<AtomicUsize>) -> [Declared; 4] {
    [
        failing(VertexSpec::new("setting")),
        counted(VertexSpec::new("route").after_tried("setting"), count),
        counted(VertexSpec::new("command").refreshed_by("route"), count),
        counted(VertexSpec::new("other").after("setting"), count),
    ]
}

#[test]
fn a_vertex_runs_after_one_that_failed_and_the_graph_is_not_converged() {
    let count = Arc::new(AtomicUsize::new(0));
    let driver = start(2, declared(&count));
    driver.wait_idle(BOUND).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 2);
    let text = driver.explain("other").unwrap().to_string();
    assert!(text.contains("skipped because setting failed"), "{text}");
    let short = Duration::from_millis(1);
    let error = driver.wait_converged(short).unwrap_err();
    assert!(error.is_timed_out(), "{error}");
    driver.stop(BOUND).unwrap();
}

/// A vertex whose watch cannot begin.
struct Deaf;

impl Vertex for Deaf {
    fn check_apply(&mut self, _: &RunContext, _: bool) -> Result<Verdict, Failure> {
        Ok(Verdict::InPlace)
    }

    fn watch(&mut self, _: Hints, _: Waker) -> Result<bool, Failure> {
        Err(Failure::new(ErrorClass::Busy, "no answer"))
    }
}

#[test]
fn a_vertex_runs_although_one_before_it_cannot_be_watched() {
    let count = Arc::new(AtomicUsize::new(0));
    let deaf = VertexSpec::new("deaf").with_retry(0, BOUND);
    let vertices = [
        (deaf, Box::new(Deaf) as Box<dyn Vertex>),
        counted(VertexSpec::new("other").after_tried("deaf"), &count),
    ];
    let driver = start(1, vertices);
    until("it runs", || count.load(Ordering::SeqCst) == 1);
    driver.stop(BOUND).unwrap();
}

#[test]
fn a_check_goes_on_behind_one_that_fails_and_the_edge_is_dotted() {
    let count = Arc::new(AtomicUsize::new(0));
    let snapshot = check(declared(&count), &MemoryLedger::default()).unwrap();
    let at = |name: &str| snapshot.vertices.iter().position(|it| it.name == name);
    let found = |name: &str| &snapshot.vertices[at(name).unwrap()];
    assert_eq!(found("setting").last, Some(Err(ErrorClass::Invalid)));
    assert!(found("route").last.is_some_and(|it| it.is_ok()));
    let skipped = [Wait::FailedAncestors(vec!["setting".to_owned()])];
    assert_eq!(found("other").waits, skipped);
    let edge = |one, other, kind| {
        let edge = (at(one).unwrap(), at(other).unwrap(), kind);
        assert!(snapshot.edges.contains(&edge), "{edge:?}");
    };
    edge("setting", "route", EdgeKind::AfterTried);
    edge("setting", "other", EdgeKind::After);
    edge("route", "command", EdgeKind::RefreshedBy);
    let count = |text: &str, part: &str| text.matches(part).count();
    let (dot, svg) = (snapshot.to_dot(), snapshot.to_svg());
    assert_eq!(count(&dot, " -> "), 3, "{dot}");
    assert_eq!(count(&dot, "[style=dotted]"), 1, "{dot}");
    assert_eq!(count(&dot, "[style=dashed]"), 1, "{dot}");
    assert_eq!(count(&svg, "stroke-dasharray=\"1 3\""), 1, "{svg}");
    assert_eq!(count(&svg, "stroke-dasharray=\"5 3\""), 1, "{svg}");
}

/// A vertex that reads a descriptor; each event waits at a gate before the vertex sees it.
struct Piped {
    name: &'static str,
    reader: PipeReader,
    /// Receives one message for each event to let through; `None` lets all through.
    gate: Option<Receiver<()>>,
    ran: Sender<&'static str>,
}

impl Vertex for Piped {
    fn check_apply(&mut self, _: &RunContext, _: bool) -> Result<Verdict, Failure> {
        self.ran.send(self.name).unwrap();
        Ok(Verdict::InPlace)
    }

    fn watch(&mut self, _: Hints, _: Waker) -> Result<bool, Failure> {
        Ok(true)
    }

    fn events(&mut self, turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        let mut due = None;
        if turn.is_readable() {
            self.reader.read_exact(&mut [0]).unwrap();
            match &self.gate {
                Some(gate) => gate.recv_timeout(BOUND).unwrap(),
                None => due = Some(Instant::now()),
            }
        }
        turn.sleep(None, Some(self.reader.as_fd()));
        Ok(due)
    }
}

#[test]
fn events_that_come_together_run_in_order() {
    let (ran, all) = channel();
    let (open, gate) = channel();
    let mut writers = Vec::new();
    let mut piped = |name, gate| {
        let (reader, writer) = pipe().unwrap();
        writers.push(writer);
        let ran = ran.clone();
        let vertex = Piped { name, reader, gate, ran };
        Box::new(vertex) as Box<dyn Vertex>
    };
    let spec = VertexSpec::new;
    let vertices = [
        (spec("gate"), piped("gate", Some(gate))),
        (spec("a"), piped("a", None)),
        (spec("b").after_tried("a"), piped("b", None)),
    ];
    let driver = start(2, vertices);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(all.try_iter().count(), 3);
    for _ in 0..1000 {
        for writer in &mut writers {
            writer.write_all(&[0]).unwrap();
        }
        open.send(()).unwrap();
        let next = || all.recv_timeout(BOUND).unwrap();
        assert_eq!([next(), next()], ["a", "b"]);
    }
    driver.stop(BOUND).unwrap();
}

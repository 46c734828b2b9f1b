//! Vertices that run once a parent was tried, on real threads, in a check, and drawn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trueup_graph::{EdgeKind, Failure, Verdict, VertexSpec, Wait, check};
use trueup_reconcile::{ErrorClass, MemoryLedger};

use crate::support::{BOUND, Declared, counted, start, until, vertex};

fn failing(spec: VertexSpec) -> Declared {
    vertex(spec, |_, _| {
        Err(Failure::new(ErrorClass::Invalid, "no such setting"))
    })
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

impl trueup_graph::Vertex for Deaf {
    fn check_apply(&mut self, _: &trueup_graph::RunContext, _: bool) -> Result<Verdict, Failure> {
        Ok(Verdict::InPlace)
    }

    fn watch(&mut self, _: trueup_reconcile::Hints) -> Result<trueup_graph::Watch, Failure> {
        Err(Failure::new(ErrorClass::Busy, "no answer"))
    }
}

#[test]
fn a_vertex_runs_although_one_before_it_cannot_be_watched() {
    let count = Arc::new(AtomicUsize::new(0));
    let deaf = VertexSpec::new("deaf").with_retry(0, BOUND);
    let vertices = [
        (deaf, Box::new(Deaf) as Box<dyn trueup_graph::Vertex>),
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

//! Vertices that run once a parent was tried, even if the parent failed.

use super::*;

fn spec(name: &str) -> VertexSpec {
    VertexSpec::new(name).with_retry(1, seconds(10))
}

/// `a`, a child of `a`, and a child of that child.
fn chain() -> [VertexSpec; 3] {
    [spec("a"), spec("b").after_tried("a"), spec("c").after("b")]
}

const BUSY: Result<Verdict, ErrorClass> = Err(ErrorClass::Busy);
const GOOD: Result<Verdict, ErrorClass> = Ok(Verdict::InPlace);

#[test]
fn a_child_waits_for_the_first_try_and_not_for_the_retries() {
    let mut driver = Driver::new(3, chain());
    assert_eq!(driver.ran(), ["a"]);
    let text = "b: dirty (new); waits for a; has not run";
    assert_eq!(driver.explain("b"), text);
    driver.end("a", BUSY);
    assert_eq!(driver.ran(), ["b"], "at once");
    driver.end("b", GOOD);
    driver.end("c", GOOD);
    // Its retry fails for good, and makes none of the others run.
    driver.wait(seconds(10));
    driver.end("a", BUSY);
    assert_eq!(driver.ran(), ["c", "a"]);
    assert_eq!(driver.explain("b"), "b: settled; last run: in place", "no ancestor holds it back");
    // Its success makes none of the others run, either.
    driver.event("a");
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a"]);
}

#[test]
fn a_child_waits_for_a_parent_that_is_to_run_too_whichever_was_first() {
    let mut driver = Driver::new(3, chain());
    driver.end_all(&[]);
    driver.ran();
    // Only an event of its own makes it run.
    driver.event("a");
    driver.end("a", Ok(Verdict::Changed));
    assert_eq!(driver.ran(), ["a"]);
    for first in ["a", "b"] {
        let then = if first == "a" { "b" } else { "a" };
        driver.state.handle_pause(driver.now);
        driver.event(first);
        driver.event(then);
        driver.state.handle_resume();
        driver.drive();
        assert_eq!(driver.ran(), ["a"]);
        driver.end("a", BUSY);
        driver.end_all(&[]);
        assert_eq!(driver.ran(), ["b", "c"]);
        driver.wait(seconds(10));
        driver.end_all(&[]);
        assert_eq!(driver.ran(), ["a"]);
    }
}

#[test]
fn a_child_that_is_due_waits_while_its_parent_is_tried_again() {
    let mut driver = Driver::new(3, chain());
    driver.end("a", BUSY);
    driver.end("b", GOOD);
    driver.end("c", GOOD);
    driver.wait(seconds(10));
    driver.event("b");
    assert_eq!(driver.ran(), ["a", "b", "c", "a"]);
    driver.end("a", BUSY);
    assert_eq!(driver.ran(), ["b"]);
}

#[test]
fn a_parent_that_is_held_back_by_a_failure_lets_its_child_run() {
    let vertices = [spec("a"), spec("b").after("a"), spec("c").after_tried("b")];
    let mut driver = Driver::new(3, vertices);
    driver.end("a", BUSY);
    assert_eq!(driver.ran(), ["a", "c"]);
    let text = "b: dirty (new); waits for a; skipped because a failed; has not run";
    assert_eq!(driver.explain("b"), text);
    driver.end("c", GOOD);
    driver.wait(seconds(10));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a", "b"]);
}

#[test]
fn a_failure_of_what_a_parent_only_runs_after_is_none_of_the_parent() {
    let vertices = [spec("a"), spec("b").after_tried("a"), spec("c").after_tried("b")];
    let mut driver = Driver::new(3, vertices);
    driver.end("a", BUSY);
    assert_eq!(driver.ran(), ["a", "b"], "the last one waits for the second");
    driver.end("b", BUSY);
    assert_eq!(driver.ran(), ["c"]);
}

#[test]
fn a_child_waits_for_a_parent_that_waits_for_its_turn() {
    let vertices = [
        spec("holder").with_semaphore("s", 1),
        spec("limited").with_semaphore("s", 1).with_rate(seconds(60), 1),
        spec("child").after_tried("limited"),
    ];
    let mut driver = Driver::new(3, vertices);
    assert_eq!(driver.ran(), ["holder"]);
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["limited", "child"]);
    driver.event("limited");
    driver.event("child");
    assert!(driver.ran().is_empty(), "the rate allows no run");
    driver.wait(seconds(60));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["limited", "child"]);
}

#[test]
fn a_parent_whose_watch_fails_lets_its_child_run_until_it_is_watched_again() {
    let mut driver = Driver::new(3, chain());
    let (now, a) = (driver.now, driver.id("a"));
    driver.end_all(&[]);
    driver.ran();
    driver.state.handle_unwatched(now, a, seconds(5));
    driver.event("b");
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["b", "c"]);
    driver.wait(seconds(5));
    driver.event("b");
    assert_eq!(driver.ran(), ["a"], "it is to run again");
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["b", "c"]);
}

#[test]
fn of_two_edges_the_one_that_holds_back_counts() {
    let both = |child: VertexSpec| [spec("a"), child];
    let mut failing = vec![
        both(spec("b").after("a").after_tried("a")),
        both(spec("b").after_tried("a").refreshed_by("a")),
    ];
    for vertices in failing.drain(..) {
        let mut driver = Driver::new(3, vertices);
        driver.end("a", Err(ErrorClass::Invalid));
        assert_eq!(driver.ran(), ["a"]);
        let explained = driver.explain("b");
        assert!(explained.contains("skipped because a failed"), "{explained}");
    }
    let kind = |other: VertexSpec| {
        let graph = Graph::new([spec("a"), other]).unwrap();
        graph.children(graph.find("a").unwrap()).map(|it| it.1).collect::<Vec<_>>()
    };
    let tried = spec("b").after_tried("a");
    assert_eq!(kind(tried.clone()), [EdgeKind::AfterTried]);
    assert_eq!(kind(tried.refreshed_by("a")), [EdgeKind::RefreshedBy]);
}

#[test]
fn an_edge_from_a_vertex_that_may_fail_is_part_of_a_cycle() {
    let vertices = [spec("a").after("b"), spec("b").after_tried("a")];
    let error = Graph::new(vertices).unwrap_err();
    let text = "cycle: b -> a -> b; remove one of these edges";
    assert_eq!(error.to_string(), text);
    let unknown = Graph::new([spec("a").after_tried("x")]).unwrap_err();
    let text = "vertex a: runs after x, which is not declared";
    assert_eq!(unknown.to_string(), text);
}

#[test]
fn a_vertex_that_stays_runs_before_that_which_it_was_tried_after_is_undone() {
    let mut driver = Driver::new(3, chain());
    driver.end_all(&[]);
    driver.ran();
    let alone = || [spec("b").with_revision(1), spec("c").after("b")];
    driver.replace(alone());
    assert_eq!(driver.ran(), ["b"]);
    driver.end("b", BUSY);
    assert!(driver.ran().is_empty(), "it may still need it");
    driver.wait(seconds(10));
    driver.end("b", GOOD);
    driver.end_all(&[]);
    let mut ran = driver.ran();
    ran.sort();
    assert_eq!(ran, ["a", "b", "c"]);
}

#[test]
fn a_failed_parent_that_stays_at_a_replacement_holds_back_and_makes_run_no_child() {
    let mut driver = Driver::new(3, chain());
    driver.end("a", BUSY);
    driver.end("b", GOOD);
    driver.end("c", GOOD);
    driver.ran();
    driver.replace(chain());
    assert!(driver.ran().is_empty());
    let [a, b, c] = chain();
    driver.replace([a, b.with_revision(1), c]);
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["b", "c"]);
    // With another edge, and back.
    driver.replace([spec("a"), spec("b").with_revision(1), spec("c").after("b")]);
    driver.wait(seconds(10));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a"]);
    let [a, b, c] = chain();
    driver.replace([a.with_revision(1), b.with_revision(2), c]);
    assert_eq!(driver.ran(), ["a"]);
    driver.end("a", BUSY);
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["b", "c"]);
}

#[test]
fn a_noop_that_fails_holds_back_no_child() {
    let mut driver = Driver::new(3, [spec("a").with_noop(), spec("b").after_tried("a")]);
    driver.end("a", BUSY);
    driver.end("b", GOOD);
    driver.wait(seconds(10));
    driver.end("a", Ok(Verdict::WouldChange));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a", "b", "a"]);
}

#[test]
fn a_child_that_checks_still_applies_while_its_parent_is_tried_again() {
    let vertices = [spec("a"), spec("b").after_tried("a"), spec("c").refreshed_by("b")];
    let mut driver = Driver::new(3, vertices);
    driver.end("a", BUSY);
    driver.wait(seconds(10));
    assert_eq!(driver.ran(), ["a", "b", "a"]);
    driver.end("b", Ok(Verdict::WouldChange));
    assert_eq!(driver.ran(), ["b"], "it applies");
    driver.end("b", Ok(Verdict::Changed));
    assert_eq!(driver.ran(), ["c"]);
    driver.end("a", GOOD);
    driver.end_all(&[]);
    assert!(driver.ran().is_empty(), "nothing is new to it");
}

#[test]
fn a_child_whose_intent_is_still_being_written_waits_while_its_parent_is_tried_again() {
    let vertices = || [spec("a"), spec("b").after_tried("a"), spec("c").refreshed_by("b")];
    let record = Record { refreshes: 1, ..Record::default() };
    let journal = BTreeMap::from([("b".into(), record)]);
    let mut driver = Driver::restarted(3, vertices(), journal);
    driver.is_journal_broken = true;
    driver.end("a", BUSY);
    driver.wait(seconds(10));
    driver.is_journal_broken = false;
    driver.wait(seconds(10));
    assert_eq!(driver.ran(), ["a", "a"]);
    driver.end("a", BUSY);
    assert_eq!(driver.ran(), ["b"]);
}

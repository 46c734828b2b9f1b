//! Settings, order, replacement, explanations and size.

use super::*;

#[test]
fn a_diamond_runs_once_for_an_event_even_if_its_sides_differ_in_length() {
    let mut driver = Driver::new(
        4,
        [
            VertexSpec::new("top"),
            VertexSpec::new("short").after("top"),
            VertexSpec::new("long").after("top"),
            VertexSpec::new("longer").after("long"),
            VertexSpec::new("bottom").after("short").after("longer"),
        ],
    );
    driver.end_all(&[]);
    driver.ran();
    driver.event("top");
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["top", "short", "long", "longer", "bottom"]);
}

#[test]
fn noop_changes_nothing_notifies_nobody_and_keeps_a_refresh() {
    let vertices = |noop: bool| {
        let service = VertexSpec::new("service").refreshed_by("file");
        let service = if noop { service.with_noop() } else { service };
        [VertexSpec::new("file"), service, VertexSpec::new("after").refreshed_by("service")]
    };
    let mut driver = Driver::new(1, vertices(true));
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    driver.end("service", Ok(Verdict::WouldChange));
    driver.end_all(&[]);
    assert!(driver.ran.iter().all(|it| it.0 == "file" || it.0 == "after" || !it.1.apply));
    assert_eq!(driver.refreshes("after"), [0]);
    driver.replace(vertices(false));
    driver.end_all(&["service"]);
    assert_eq!(driver.refreshes("service"), [1]);
}

#[test]
fn retries_are_counted_wait_and_end_and_a_permanent_error_is_not_repeated() {
    let mut driver = Driver::new(1, [VertexSpec::new("a").with_retry(2, seconds(5))]);
    for _ in 0..3 {
        driver.end("a", Err(ErrorClass::Busy));
        driver.event("a");
        driver.wait(seconds(4));
        driver.wait(seconds(1));
    }
    assert_eq!(driver.ran().len(), 4, "an event after the last one begins anew");
    driver.end("a", Err(ErrorClass::Permission));
    driver.wait(seconds(100));
    assert!(driver.ran().is_empty());
    assert!(!driver.state.is_converged(driver.now));
}

#[test]
fn a_failure_holds_back_its_descendants_alone_and_they_say_why() {
    let mut driver = Driver::new(
        2,
        [
            VertexSpec::new("a"),
            VertexSpec::new("b").after("a"),
            VertexSpec::new("c").after("b"),
            VertexSpec::new("other"),
        ],
    );
    driver.end("a", Err(ErrorClass::Invalid));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a", "other"]);
    let a = "a: dirty (failed); failed for good, waits for an event; \
             last run: failed (invalid), 1 in a row";
    assert_eq!(driver.explain("a"), a);
    let c = "c: dirty (new); waits for b; skipped because a failed; has not run";
    assert_eq!(driver.explain("c"), c);
    assert_eq!(driver.explain("other"), "other: settled; last run: in place");
    driver.event("a");
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a", "b", "c"]);
}

#[test]
fn explanations_name_what_is_waited_for() {
    let mut driver = Driver::new(
        1,
        [
            VertexSpec::new("a").with_semaphore("s", 1),
            VertexSpec::new("b").with_semaphore("s", 1),
            VertexSpec::new("c"),
            VertexSpec::new("d").after("c").with_rate(seconds(9), 1),
        ],
    );
    assert_eq!(driver.explain("a"), "a: running; has not run");
    let b = "b: dirty (new); waits for semaphore s, held by a; has not run";
    assert_eq!(driver.explain("b"), b);
    assert_eq!(driver.explain("c"), "c: dirty (new); waits for a worker; has not run");
    driver.end_all(&[]);
    driver.event("c");
    assert_eq!(driver.explain("d"), "d: dirty because of c; waits for c; last run: in place");
    driver.end_all(&[]);
    let d = "d: dirty because of c; waits for 9s; last run: in place";
    assert_eq!(driver.explain("d"), d);
    driver.state.handle_pause(driver.now);
    driver.event("c");
    assert_eq!(driver.explain("c"), "c: dirty (event); paused; last run: in place");
}

#[test]
fn nothing_runs_before_its_watch_is_ready() {
    let now = Instant::now();
    let graph = Graph::new([VertexSpec::new("a")]).unwrap();
    let vertex = graph.find("a").unwrap();
    let mut state = State::new(config(1), graph, [], now);
    assert_eq!(state.poll_action(now), Some(Action::Watch { vertex }));
    state.handle_event(now, vertex);
    assert_eq!(state.poll_action(now), None);
    assert!(state.explain(now, vertex).unwrap().waits.contains(&Wait::Watch));
    state.handle_ready(now, vertex);
    assert!(matches!(state.poll_action(now), Some(Action::Run { .. })));
}

#[test]
fn equal_vertices_go_on_undisturbed_and_keep_their_retries() {
    let vertices = |revision| {
        [
            VertexSpec::new("failing").with_retry(2, seconds(9)),
            VertexSpec::new("running"),
            VertexSpec::new("changed").with_revision(revision),
            VertexSpec::new("child").after("changed"),
            VertexSpec::new("idle"),
        ]
    };
    let mut driver = Driver::new(5, vertices(1));
    driver.end("failing", Err(ErrorClass::Busy));
    driver.end("changed", Ok(Verdict::InPlace));
    driver.end("child", Ok(Verdict::InPlace));
    driver.end("idle", Ok(Verdict::InPlace));
    driver.ran();
    let replaced = driver.replace(vertices(2));
    assert_eq!((replaced.kept.len(), replaced.changed.len()), (4, 1));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["changed", "child"]);
    driver.wait(seconds(9));
    assert_eq!(driver.ran(), ["failing"]);
    assert!(driver.explain("failing").ends_with("1 in a row"));
}

#[test]
fn a_journal_that_fails_holds_up_what_depends_on_it_and_is_tried_again() {
    let mut driver = Driver::new(1, [VertexSpec::new("a"), VertexSpec::new("b").refreshed_by("a")]);
    driver.is_journal_broken = true;
    driver.end("a", Ok(Verdict::WouldChange));
    assert_eq!(driver.explain("a"), "a: running; waits for the journal; has not run");
    assert_eq!(driver.state.poll_timeout(), Some(driver.now + seconds(1)));
    driver.ran();
    driver.is_journal_broken = false;
    driver.wait(seconds(1));
    assert_eq!(driver.ran(), ["a"]);
}

#[test]
fn needs_become_edges_and_wrong_declarations_are_named() {
    let graph = Graph::new([
        VertexSpec::new("b").needs("x").wants("y"),
        VertexSpec::new("a").provides("x"),
    ]);
    let graph = graph.unwrap();
    let names = graph.order().map(|it| graph.vertex(it).unwrap().name());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "b"]);
    let message = |vertices: [VertexSpec; 2]| Graph::new(vertices).unwrap_err().to_string();
    let [a, b] = ["a", "b"].map(VertexSpec::new);
    assert_eq!(
        message([a.clone(), b.clone().after("c")]),
        "vertex b: runs after c, which is not declared"
    );
    assert_eq!(
        message([a.clone(), b.clone().needs("dir:/ect")]),
        "vertex b: needs dir:/ect, which no vertex provides"
    );
    assert_eq!(message([a.clone(), a.clone()]), "vertex a: declared twice; rename one");
    assert_eq!(
        message([a.clone().with_semaphore("s", 1), b.clone().with_semaphore("s", 2)]),
        "semaphore s: count 1 at a, 2 at b; use one count"
    );
    assert_eq!(
        message([a.clone(), b.with_semaphore("s", 0)]),
        "vertex b: semaphore s has the count 0"
    );
    assert_eq!(
        message([a.clone().after("a"), VertexSpec::new("c")]),
        "cycle: a -> a; remove one of these edges"
    );
}

#[test]
fn a_class_of_errors_has_retries_and_a_delay_of_its_own() {
    let vertex = VertexSpec::new("a")
        .with_retry(5, seconds(100))
        .with_class_retry(ErrorClass::Busy, 1, seconds(2))
        .with_class_retry(ErrorClass::Permission, 9, seconds(7));
    let mut driver = Driver::new(1, [vertex]);
    driver.end("a", Err(ErrorClass::Permission));
    driver.wait(seconds(6));
    assert_eq!(driver.ran(), ["a"]);
    driver.wait(seconds(1));
    assert_eq!(driver.ran(), ["a"], "also of a permanent class, if declared");
    driver.end("a", Err(ErrorClass::Busy));
    driver.wait(seconds(1_000));
    assert!(driver.ran().is_empty(), "the second failure, and one retry");
}

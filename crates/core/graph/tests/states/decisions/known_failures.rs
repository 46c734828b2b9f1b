//! Failures of comparable systems. Each test names the system and its report.

use super::*;

fn file_and_service() -> [VertexSpec; 2] {
    [
        VertexSpec::new("file"),
        VertexSpec::new("service").refreshed_by("file").with_retry(0, seconds(1)),
    ]
}

#[test]
fn ansible_10498_a_refresh_outlives_the_failure_of_another_vertex_and_the_exit() {
    let vertices = || file_and_service().into_iter().chain([VertexSpec::new("other")]);
    let mut driver = Driver::new(1, vertices());
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    driver.end("other", Err(ErrorClass::Invalid));
    let mut driver = Driver::restarted(1, vertices(), driver.journal);
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("service"), [1]);
    assert!(driver.journal.is_empty(), "and it is due no more");
}

#[test]
fn ansible_784_a_refresh_outlives_a_kill_between_the_change_and_its_record() {
    let mut driver = Driver::new(1, file_and_service());
    driver.end("file", Ok(Verdict::WouldChange));
    // The process is killed after it has changed the file.
    let mut driver = Driver::restarted(1, file_and_service(), driver.journal);
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("service"), [1]);
}

#[test]
fn salt_4142_a_refresh_outlives_the_failure_of_its_sender_after_the_change() {
    let mut driver = Driver::new(1, file_and_service());
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Err(ErrorClass::Unknown));
    driver.wait(seconds(1));
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("service"), [1]);
}

#[test]
fn salt_62408_no_refresh_is_sent_though_nothing_changed() {
    let mut driver = Driver::new(1, file_and_service());
    driver.end_all(&[]);
    driver.event("file");
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("service"), [0, 0]);
    assert!(driver.journal.is_empty());
}

#[test]
fn puppet_5956_a_refresh_that_fails_stays_pending() {
    let mut driver = Driver::new(1, file_and_service());
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    driver.end("service", Err(ErrorClass::Busy));
    assert_eq!(driver.journal["service"].refreshes, 1);
    assert!(!driver.state.is_converged(driver.now + seconds(9)));
    driver.event("service");
    driver.end("service", Ok(Verdict::Changed));
    assert_eq!(driver.refreshes("service"), [1, 1]);
    assert!(driver.state.is_converged(driver.now + seconds(1)));
}

#[test]
fn systemd_39338_a_cycle_is_found_when_the_graph_is_built_and_named_without_the_innocent() {
    let error = Graph::new([
        VertexSpec::new("root"),
        VertexSpec::new("a").after("root").after("c"),
        VertexSpec::new("b").after("a"),
        VertexSpec::new("c").after("b"),
        VertexSpec::new("leaf").after("c"),
    ])
    .unwrap_err();
    assert!(error.is_cycle());
    let message = error.to_string();
    let cycles = ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"];
    let messages = cycles.map(|it| format!("cycle: {it}; remove one of these edges"));
    assert!(messages.contains(&message), "{message}");
}

#[test]
fn terraform_36154_an_edge_that_turns_round_while_a_vertex_between_leaves_is_no_cycle() {
    let mut driver = Driver::new(
        1,
        [VertexSpec::new("a"), VertexSpec::new("b").after("a"), VertexSpec::new("c").after("b")],
    );
    driver.end_all(&[]);
    driver.ran();
    driver.replace([VertexSpec::new("c"), VertexSpec::new("a").after("c")]);
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["b"], "c is in place, and the rest undisturbed");
}

#[test]
fn terraform_2359_what_leaves_is_undone_children_first() {
    let chain = ["a", "b", "c"].into_iter().zip([None, Some("a"), Some("b")]);
    let chain = chain.map(|(name, parent)| {
        parent.iter().fold(VertexSpec::new(name), |it, parent| it.after(parent))
    });
    let mut driver = Driver::new(2, chain);
    driver.end_all(&[]);
    driver.ran();
    driver.replace([]);
    driver.end_all(&[]);
    assert!(driver.ran.iter().all(|it| it.1.reverse));
    assert_eq!(driver.ran(), ["c", "b", "a"]);
    driver.wait(seconds(1));
    assert!(driver.state.is_converged(driver.now));
}

#[test]
fn salsa_976_a_run_that_ends_by_a_panic_gives_its_semaphores_back() {
    let with = |name| VertexSpec::new(name).with_semaphore("s", 1);
    let mut driver = Driver::new(2, [with("a"), with("b")]);
    assert_eq!(driver.ran(), ["a"]);
    // The driver catches the panic.
    driver.end("a", Err(ErrorClass::Unknown));
    assert_eq!(driver.ran(), ["b"]);
}

#[test]
fn mgmt_one_semaphore_named_twice_by_a_vertex_is_no_deadlock() {
    let twice = VertexSpec::new("a").with_semaphore("s", 1).with_semaphore("s", 1);
    let mut driver = Driver::new(2, [twice]);
    assert_eq!(driver.ran(), ["a"]);
}

#[test]
fn mgmt_a_refresh_that_arrives_while_an_earlier_one_is_consumed_stays_pending() {
    let mut driver = Driver::new(2, file_and_service());
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    driver.event("file");
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    driver.end("service", Ok(Verdict::Changed));
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("service"), [1, 1]);
}

#[test]
fn mgmt_a_rate_leaves_no_debt() {
    let mut driver = Driver::new(1, [VertexSpec::new("a").with_rate(seconds(10), 2)]);
    driver.end_all(&[]);
    for _ in 0..100_000 {
        driver.event("a");
    }
    driver.end_all(&[]);
    assert_eq!(driver.ran().len(), 2, "the burst, and events share a run");
    driver.event("a");
    driver.event("a");
    driver.wait(seconds(9));
    assert!(driver.ran().is_empty());
    driver.wait(seconds(1));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a"], "one token after one interval, whatever came");
    driver.wait(seconds(1_000));
    for _ in 0..3 {
        driver.event("a");
        driver.end_all(&[]);
    }
    assert_eq!(driver.ran().len(), 2, "and no more than the burst is saved");
}

#[test]
fn opentofu_1559_building_takes_time_linear_in_vertices_and_edges() {
    // A star exposes a quadratic step.
    let leaves = (0..72_000).map(|at| VertexSpec::new(&at.to_string()).after("hub"));
    let vertices: Vec<_> = leaves.chain([VertexSpec::new("hub")]).collect();
    let begin = Instant::now();
    let graph = Graph::new(vertices).unwrap();
    let mut state = State::new(config(1), graph, [], begin);
    while let Some(Action::Watch { vertex }) = state.poll_action(begin) {
        state.handle_ready(begin, vertex);
    }
    assert!(begin.elapsed() < seconds(20), "{:?}", begin.elapsed());
}

#[test]
fn a_vertex_that_failed_for_good_runs_again_after_a_run_of_a_parent_that_leaves_before_it_settles()
{
    let child = || VertexSpec::new("c").after("b");
    let all = |a: u64, b: u64| {
        let a = VertexSpec::new("a").with_revision(a);
        [a, VertexSpec::new("b").after("a").with_revision(b), child()]
    };
    let mut driver = Driver::new(2, all(0, 0));
    driver.end("a", Ok(Verdict::InPlace));
    driver.end("b", Ok(Verdict::InPlace));
    driver.end("c", Err(ErrorClass::Invalid));
    driver.replace(all(0, 1));
    // The vertex is to run once more after the other one, and leaves before that.
    driver.replace(all(1, 1));
    driver.end("b", Ok(Verdict::Changed));
    driver.ran();
    driver.replace([VertexSpec::new("a").with_revision(1), VertexSpec::new("c")]);
    driver.end_all(&[]);
    assert!(driver.ran().contains(&"c".to_owned()));
    assert!(driver.explain("c").starts_with("c: settled"));
}

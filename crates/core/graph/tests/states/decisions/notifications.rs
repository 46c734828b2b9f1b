//! Refreshes that must arrive although a vertex or an edge leaves or comes meanwhile.

use super::*;
use crate::edge::Kinds;

#[test]
fn a_vertex_that_leaves_while_it_changes_something_still_notifies() {
    let pair = || [VertexSpec::new("file"), VertexSpec::new("service").refreshed_by("file")];
    let alone = || [VertexSpec::new("service")];
    // The vertex leaves during its run: before a kill, and before the run's end.
    for is_killed in [false, true] {
        let mut driver = Driver::new(2, pair());
        driver.end("file", Ok(Verdict::WouldChange));
        driver.replace(alone());
        if is_killed {
            driver = Driver::restarted(2, alone(), driver.journal);
        } else {
            driver.end_all(&["file"]);
        }
        driver.end_all(&[]);
        assert_eq!(driver.refreshes("service").last(), Some(&1), "killed: {is_killed}");
        assert!(driver.journal.is_empty(), "{:?}", driver.journal);
    }
}

#[test]
fn an_edge_that_is_new_while_its_parent_runs_is_in_the_intent() {
    let edge = || [VertexSpec::new("file"), VertexSpec::new("service").refreshed_by("file")];
    let mut driver = Driver::new(2, [VertexSpec::new("file"), VertexSpec::new("service")]);
    driver.end("service", Ok(Verdict::InPlace));
    // It applies at once, because it refreshes no other vertex.
    driver.replace(edge());
    assert_eq!(driver.journal["file"].intent, ["service".into()]);
    let mut driver = Driver::restarted(2, edge(), driver.journal);
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("service"), [1]);
}

#[test]
fn a_refresh_survives_the_replacement_of_its_edge_and_its_vertices() {
    let vertices = |is_edge: bool, revision| {
        let service = VertexSpec::new("service").with_revision(revision).with_retry(0, seconds(1));
        let service = if is_edge { service.refreshed_by("file") } else { service };
        [VertexSpec::new("file").with_revision(revision), service]
    };
    let mut driver = Driver::new(1, vertices(true, 1));
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    driver.end("service", Err(ErrorClass::Invalid));
    driver.replace(vertices(false, 1));
    driver.replace(vertices(true, 2));
    driver.refreshes("");
    driver.end_all(&["service"]);
    driver.end_all(&["service"]);
    assert_eq!(driver.refreshes("service"), [1]);
    assert!(driver.journal.is_empty());
}

#[test]
fn a_change_of_which_many_are_notified_takes_time_linear_in_them() {
    let services = (0..30_000).map(|at| VertexSpec::new(&at.to_string()).refreshed_by("file"));
    let mut driver = Driver::new(1, services.chain([VertexSpec::new("file")]));
    let begin = Instant::now();
    driver.end("file", Ok(Verdict::WouldChange));
    driver.end("file", Ok(Verdict::Changed));
    assert_eq!(driver.journal.len(), 30_000);
    assert!(begin.elapsed() < seconds(20), "{:?}", begin.elapsed());
}

#[test]
fn of_two_edges_the_one_that_passes_on_all_counts() {
    let [a, b] = ["a", "b"].map(VertexSpec::new);
    let kinds = |b: VertexSpec| {
        let graph = Graph::new([a.clone(), b]).unwrap();
        let (a, b) = (graph.find("a").unwrap(), graph.find("b").unwrap());
        let kinds = graph.kinds.get(&(a.0, b.0)).into_iter().flat_map(Kinds::names);
        let kinds: Vec<_> = kinds.map(str::to_owned).collect();
        (graph.children(a).map(|it| it.1).collect::<Vec<_>>(), kinds.join(" "))
    };
    let some = b.after("a").refreshed_by_kind("a", "x").refreshed_by_kind("a", "y");
    assert_eq!(kinds(some.clone()), (vec![EdgeKind::RefreshedByKinds], "x y".to_owned()));
    assert_eq!(kinds(some.refreshed_by("a")), (vec![EdgeKind::RefreshedBy], String::new()));
}

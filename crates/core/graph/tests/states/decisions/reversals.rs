//! Records of vertices' work, and its undoing later.

use std::collections::BTreeSet;

use super::*;
use crate::{Made, Records};

fn varying(name: &str) -> VertexSpec {
    VertexSpec::new(name).with_records(Records::Varying)
}

fn made(place: u64, after: &[&str]) -> Record {
    let made = Made {
        place,
        after: after.iter().map(|it| Arc::from(*it)).collect(),
        undo: b"thing"[..].into(),
    };
    Record { made: Some(made), ..Record::default() }
}

fn journal(records: &[(&str, Record)]) -> BTreeMap<Arc<str>, Record> {
    let records = records.iter().cloned();
    records.map(|(name, it)| (name.into(), it)).collect()
}

/// Starts with vertices, and with reversals of these names.
fn restored(
    vertices: impl IntoIterator<Item = VertexSpec>,
    journal: BTreeMap<Arc<str>, Record>,
    names: &[&str],
) -> Driver {
    let records: Vec<_> = journal.clone().into_iter().collect();
    let graph = Graph::new(vertices).unwrap();
    let graph = graph.restore(&records, names.iter().map(|it| VertexSpec::new(it)));
    Driver::resumed(1, graph.unwrap(), journal)
}

#[test]
fn what_was_made_last_is_undone_first_and_a_child_before_its_parents() {
    // c was made again after its child d.
    let records =
        [("a", made(1, &[])), ("b", made(2, &[])), ("c", made(4, &["a"])), ("d", made(3, &["c"]))];
    let mut driver = restored([], journal(&records), &["a", "b", "c", "d"]);
    driver.end_all(&[]);
    assert!(driver.ran.iter().all(|it| it.1.reverse));
    assert_eq!(driver.ran(), ["d", "b", "c", "a"]);
    assert!(driver.journal.is_empty());
}

#[test]
fn records_that_go_round_in_a_circle_are_undone_in_the_order_of_making() {
    let records = [("a", made(1, &["b"])), ("b", made(2, &["a"]))];
    let mut driver = restored([], journal(&records), &["a", "b"]);
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["b", "a"]);
}

#[test]
fn what_fails_holds_back_what_it_was_made_after_and_nothing_else() {
    let records = [("a", made(1, &[])), ("b", made(2, &["a"])), ("other", made(3, &[]))];
    let mut driver = restored([], journal(&records), &["a", "b", "other"]);
    driver.end("other", Ok(Verdict::Changed));
    driver.end("b", Err(ErrorClass::Permission));
    driver.wait(seconds(100));
    assert_eq!(driver.ran(), ["other", "b"]);
    assert_eq!(driver.journal.len(), 2, "they are kept");
    assert!(!driver.state.is_converged(driver.now));
}

#[test]
fn a_constant_record_needs_no_check_once_it_is_in_the_journal() {
    let vertex = || [VertexSpec::new("a").with_records(Records::Constant)];
    let mut driver = Driver::new(1, vertex());
    driver.undo.insert("a", "");
    driver.end_all(&["a"]);
    driver.event("a");
    driver.end_all(&["a"]);
    let applies: Vec<_> = driver.ran.iter().map(|it| it.1.apply).collect();
    assert_eq!(applies, [false, true, true]);
}

#[test]
fn what_is_in_place_writes_no_record_and_noop_keeps_one() {
    let mut driver = Driver::new(1, [varying("a")]);
    driver.undo.insert("a", "thing");
    driver.end_all(&[]);
    assert!(driver.journal.is_empty());
    driver.event("a");
    driver.end_all(&["a"]);
    assert_eq!(driver.journal.len(), 1);
    driver.replace([varying("a").with_noop()]);
    driver.end_all(&["a"]);
    driver.replace([]);
    driver.end_all(&[]);
    assert_eq!(driver.journal.len(), 1);
}

#[test]
fn a_vertex_that_has_left_and_is_undone_names_no_ancestor_of_a_record_any_more() {
    let mut driver = Driver::new(1, [varying("a"), varying("b").after("a")]);
    driver.undo.extend([("a", "thing"), ("b", "thing")]);
    driver.end_all(&["a", "b"]);
    let after = |driver: &Driver| driver.journal["b"].made.clone().unwrap().after;
    assert_eq!(after(&driver), ["a".into()]);
    driver.replace([varying("b")]);
    driver.end_all(&[]);
    assert!(!driver.journal.contains_key("a"));
    driver.event("b");
    driver.end_all(&[]);
    assert!(after(&driver).is_empty());
}

#[test]
fn a_new_vertex_waits_for_an_old_one_that_cannot_be_undone_and_says_why() {
    let vertex = |revision| [varying("a").with_revision(revision).with_retry(0, seconds(1))];
    let mut driver = Driver::new(1, vertex(0));
    driver.undo.insert("a", "old");
    driver.end_all(&["a"]);
    driver.ran();
    let refused = BTreeSet::from(["a".into()]);
    let graph = Graph::new(vertex(1)).unwrap();
    let replaced = driver.state.replace(driver.now, graph, &refused);
    assert_eq!(replaced.unwrap().removed.len(), 1);
    driver.drive();
    driver.end("a", Err(ErrorClass::Busy));
    driver.wait(seconds(100));
    assert_eq!(driver.ran(), ["a"]);
    assert_eq!(
        driver.explain("a"),
        "a: dirty (new); waits for the reversal of a; skipped because the reversal of a failed; \
         has not run"
    );
    // The first declaration is back, and adopts the work.
    driver.replace(vertex(0));
    driver.end_all(&[]);
    assert_eq!(driver.refreshes("a"), [0]);
    assert!(driver.state.is_converged(driver.now + seconds(9)));
    assert_eq!(driver.journal.len(), 1);
}

use super::*;

#[test]
fn changes_beyond_the_bound_are_not_known() {
    let mut log = ChangeLog::new();
    let first = log.now();
    log.add(1, 2);
    let second = log.now();
    log.add(2, 2);
    log.add(3, 2);
    assert!(log.since(first).is_none());
    let after: Option<Vec<u8>> = log.since(second).map(|changes| changes.copied().collect());
    assert_eq!(after, Some(vec![2, 3]));
}

#[test]
fn a_revision_of_another_collection_is_not_known() {
    let (mut log, other) = (ChangeLog::new(), ChangeLog::<u8>::new());
    log.add(1, 9);
    assert!(log.since(other.now()).is_none());
}

use super::*;

#[test]
fn a_writer_that_answers_each_time_is_not_fought_at_its_pace() {
    let mut allowance = Allowance::new();
    let begun = allowance.since;
    let mut taken = |at| (0..1_000).filter(|_| allowance.take(at)).count();
    assert_eq!(taken(begun), AT_ONCE as usize);
    assert_eq!(taken(begun + EVERY - Duration::from_millis(1)), 0);
    assert_eq!(taken(begun + EVERY), 1);
    assert_eq!(taken(begun + 3 * EVERY), 2);
    assert_eq!(taken(begun + 1_000 * EVERY), AT_ONCE as usize, "and no more");
}

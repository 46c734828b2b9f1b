use trueup_net::{Family, Nexthop, NexthopTarget};

use super::*;

/// Makes a row with a key and a value.
fn row(key: u32, value: u8) -> Nexthop {
    Nexthop::new(key, NexthopTarget::Blackhole(Family::Inet)).with_protocol(value)
}

#[test]
fn of_one_key_what_was_seen_last_counts() {
    let mut seen = Vec::new();
    merge_rows(&mut seen, vec![row(1, 1), row(3, 1), row(3, 2), row(5, 1)]);
    merge_rows(&mut seen, vec![row(2, 2), row(3, 3), row(5, 2), row(5, 3)]);
    let all = [row(1, 1), row(2, 2), row(3, 3), row(5, 2), row(5, 3)];
    assert_eq!(seen, all);
    merge_rows(&mut seen, Vec::new());
    assert_eq!(seen, all);
}

#[test]
fn a_row_that_comes_again_among_others_of_its_key_is_seen() {
    let mut rows = vec![row(1, 1), row(2, 1), row(2, 2)];
    assert!(!remove_repeated(&mut rows));
    let once = rows.clone();
    rows.extend([row(2, 1), row(2, 3)]);
    assert!(remove_repeated(&mut rows));
    assert_eq!(rows, [once, vec![row(2, 3)]].concat());
}

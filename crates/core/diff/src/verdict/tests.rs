use super::Found::{AsDesired, Different, Nothing};
use super::*;

/// Every combination, written out.
#[test]
fn the_table_is_this() {
    let table = [
        (true, Nothing, Nothing, Verdict::Create),
        (true, Nothing, AsDesired, Verdict::Satisfied),
        (true, Nothing, Different, Verdict::Conflict),
        (true, AsDesired, Nothing, Verdict::Keep),
        (true, AsDesired, AsDesired, Verdict::Keep),
        (true, AsDesired, Different, Verdict::Keep),
        (true, Different, Nothing, Verdict::Change),
        (true, Different, AsDesired, Verdict::Conflict),
        (true, Different, Different, Verdict::Conflict),
        (false, Nothing, Nothing, Verdict::Leave),
        (false, Nothing, AsDesired, Verdict::Leave),
        (false, Nothing, Different, Verdict::Leave),
        (false, AsDesired, Nothing, Verdict::Delete),
        (false, AsDesired, AsDesired, Verdict::Delete),
        (false, AsDesired, Different, Verdict::Delete),
        (false, Different, Nothing, Verdict::Delete),
        (false, Different, AsDesired, Verdict::Delete),
        (false, Different, Different, Verdict::Delete),
    ];
    for (is_desired, ours, foreign, verdict) in table {
        let decided = decide(is_desired, ours, foreign);
        assert_eq!(decided, verdict, "desired {is_desired}, {ours:?}, {foreign:?}");
    }
}

/// These rules hold for any table.
#[test]
fn no_verdict_touches_a_foreign_item_or_deletes_a_desired_one() {
    let all = [Nothing, AsDesired, Different];
    for is_desired in [true, false] {
        for (ours, foreign) in all.iter().flat_map(|ours| all.map(|foreign| (*ours, foreign))) {
            match decide(is_desired, ours, foreign) {
                Verdict::Create => assert!(is_desired && (ours, foreign) == (Nothing, Nothing)),
                Verdict::Change => {
                    assert!(is_desired && (ours, foreign) == (Different, Nothing));
                }
                Verdict::Delete => assert!(!is_desired && ours != Nothing),
                Verdict::Keep => assert!(is_desired && ours == AsDesired),
                Verdict::Satisfied => {
                    assert!(is_desired && (ours, foreign) == (Nothing, AsDesired));
                }
                Verdict::Conflict => assert!(is_desired && foreign != Nothing),
                Verdict::Leave => assert!(!is_desired && ours == Nothing),
            }
        }
    }
}

#[test]
fn the_best_of_several_items_is_one_as_desired() {
    assert_eq!(Found::best([]), Nothing);
    assert_eq!(Found::best([false, false]), Different);
    assert_eq!(Found::best([false, true, false]), AsDesired);
}

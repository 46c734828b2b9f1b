//! Tests of reports' summaries.

use trueup_reconcile::{ErrorClass, ReportedOp};

use super::*;

struct Done<'a>(&'a [(u64, &'static str, Outcome)]);

impl Report for Done<'_> {
    fn converged(&self) -> bool {
        true
    }

    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        for &(key, kind, outcome) in self.0 {
            let key = &|| OpKey(key);
            tell(ReportedOp::new(kind, outcome, key));
        }
    }
}

const BUSY: Outcome = Outcome::Failed(ErrorClass::Busy);
const DONE: Outcome = Outcome::Failed(ErrorClass::DoneAlready);

#[test]
fn what_failed_is_told_and_of_the_rest_what_is_tracked() {
    let ops = Done(&[
        (1, "route", BUSY),
        (2, "route", Outcome::Applied),
        (3, "rule", DONE),
        (4, "route", Outcome::Pending(())),
        (5, "rule", Outcome::Applied),
    ]);
    let passed = PassSummary::of(&ops, None);
    assert_eq!(passed.objects, [(OpKey(1), BUSY)].into());
    assert_eq!((passed.tried(), passed.pending()), (4, 1));
    let counts = ["route", "rule"].map(|kind| {
        let Ops { applied, failed, pending, .. } = passed.ops[kind];
        [applied, failed, pending]
    });
    assert_eq!(counts, [[1, 1, 1], [2, 0, 0]]);
    let passed = PassSummary::of(&ops, Some(&|key: OpKey| key.0 >= 3));
    let keys: Vec<_> = passed.objects.keys().map(|key| key.0).collect();
    assert_eq!(keys, [1, 3, 4, 5]);
}

#[test]
fn what_has_failed_has_not_converged_whatever_the_report_says() {
    let declined = Outcome::Declined(ErrorClass::Dependency);
    for (outcome, converged, tried) in
        [(BUSY, false, true), (declined, true, true), (DONE, true, false)]
    {
        let passed = PassSummary::of(&Done(&[(1, "route", outcome)]), None);
        assert_eq!(passed.converged, converged, "{outcome:?}");
        assert_eq!(passed.objects.contains_key(&OpKey(1)), tried, "{outcome:?}");
    }
}

#[test]
fn of_several_ops_on_an_object_the_one_that_failed_is_told_and_then_the_one_not_tried() {
    let all = [Outcome::Applied, DONE, Outcome::Pending(()), BUSY];
    for first in all {
        for second in all {
            let ops = [(1, "thing", first), (1, "thing", second)];
            let passed = PassSummary::of(&Done(&ops), Some(&|_| true));
            let expected = if rank(second) > rank(first) { second } else { first };
            assert_eq!(passed.objects, [(OpKey(1), expected)].into());
        }
    }
    assert!(rank(BUSY) > rank(Outcome::Pending(())));
    assert!(rank(Outcome::Pending(())) > rank(DONE));
    assert_eq!(rank(DONE), rank(Outcome::Applied));
}

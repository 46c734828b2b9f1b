//! What the decisions rest on of a completed pass. Not the report itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use trueup_reconcile::{OpKey, Outcome, Report};

use crate::Ops;
use crate::state::MOST;

/// What [`State`](crate::State) is told of a pass that gave a report.
///
/// A copy, so that no code of a source runs while anybody waits for the state; and a small one, however many ops there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// [`Report::converged`].
    pub converged: bool,
    /// [`Report::is_truncated`].
    pub cut: bool,
    /// [`Report::requeue_after`].
    pub requeue_after: Option<Duration>,
    /// The ops by the kind of their objects.
    pub ops: BTreeMap<&'static str, Ops>,
    /// What became of objects: of those on which an op failed, up to 65,536 that did not fail before, and of those that are
    /// [tracked](crate::State::is_tracked) because they did. Of several ops on an object, one that failed is told, or else one that
    /// was not tried.
    pub objects: BTreeMap<OpKey, Outcome>,
}

impl Passed {
    /// What a report says, with the outcomes of the objects that are tracked; none: no object is, so that what succeeded or was
    /// not tried need not be named.
    ///
    /// Goes through the outcomes once.
    pub fn of(report: &impl Report, tracked: Option<&dyn Fn(OpKey) -> bool>) -> Passed {
        let mut passed = Passed {
            converged: report.converged(),
            cut: report.is_truncated(),
            requeue_after: report.requeue_after(),
            ..Passed::default()
        };
        // Ops of a kind come together, so that what they are counted under need not be found for each.
        let mut run = ("", Ops::default());
        let mut fresh = 0;
        report.outcomes(&mut |op| {
            if op.kind != run.0 {
                passed.add(std::mem::replace(&mut run, (op.kind, Ops::default())));
            }
            run.1.count(op.outcome);
            let may_be_new = fails(op.outcome) && fresh < MOST;
            if !may_be_new && tracked.is_none() {
                return;
            }
            let key = op.key();
            let is_tracked = tracked.is_some_and(|tracked| tracked(key));
            if may_be_new || is_tracked {
                let is_new = passed.tell(key, op.outcome);
                fresh += usize::from(is_new && !is_tracked);
            }
        });
        passed.add(run);
        passed
    }

    /// How many ops were tried.
    pub fn tried(&self) -> u64 {
        self.ops.values().map(|ops| ops.applied + ops.failed).sum()
    }

    /// How many ops were not tried.
    pub fn pending(&self) -> u64 {
        self.ops.values().map(|ops| ops.pending).sum()
    }

    fn add(&mut self, (kind, ops): (&'static str, Ops)) {
        if ops != Ops::default() {
            *self.ops.entry(kind).or_default() += ops;
        }
    }

    /// Whether it was not told of before.
    fn tell(&mut self, key: OpKey, outcome: Outcome) -> bool {
        match self.objects.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(outcome);
                true
            }
            Entry::Occupied(mut entry) => {
                if rank(outcome) > rank(*entry.get()) {
                    entry.insert(outcome);
                }
                false
            }
        }
    }
}

/// It failed, and not because it was so already.
pub(crate) fn fails(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Failed(class) if !class.is_done())
}

fn rank(outcome: Outcome) -> u8 {
    match outcome {
        _ if fails(outcome) => 2,
        Outcome::Pending => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use trueup_reconcile::{ErrorClass, ReportedOp};

    use super::*;

    struct Ops<'a>(&'a [(u64, &'static str, Outcome)]);

    impl Report for Ops<'_> {
        fn converged(&self) -> bool {
            false
        }

        fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
            for &(key, kind, outcome) in self.0 {
                let key = &|| OpKey(key);
                tell(ReportedOp { kind, outcome, key });
            }
        }
    }

    const BUSY: Outcome = Outcome::Failed(ErrorClass::Busy);
    const DONE: Outcome = Outcome::Failed(ErrorClass::DoneAlready);

    #[test]
    fn what_failed_is_told_and_of_the_rest_what_is_tracked() {
        let ops = Ops(&[
            (1, "route", BUSY),
            (2, "route", Outcome::Applied),
            (3, "rule", DONE),
            (4, "route", Outcome::Pending),
            (5, "rule", Outcome::Applied),
        ]);
        let passed = Passed::of(&ops, None);
        assert_eq!(passed.objects, [(OpKey(1), BUSY)].into());
        assert_eq!((passed.tried(), passed.pending()), (4, 1));
        let counts = |ops: &crate::Ops| [ops.applied, ops.failed, ops.pending];
        assert_eq!(counts(&passed.ops["route"]), [1, 1, 1]);
        assert_eq!(counts(&passed.ops["rule"]), [2, 0, 0]);
        let tracked = |key: OpKey| key.0 >= 3;
        let passed = Passed::of(&ops, Some(&tracked));
        let keys: Vec<_> = passed.objects.keys().map(|key| key.0).collect();
        assert_eq!(keys, [1, 3, 4, 5]);
    }

    #[test]
    fn of_several_ops_on_an_object_the_one_that_failed_is_told_and_then_the_one_not_tried() {
        let all = [Outcome::Applied, DONE, Outcome::Pending, BUSY];
        let tracked = |_| true;
        for first in all {
            for second in all {
                let ops = [(1, "thing", first), (1, "thing", second)];
                let passed = Passed::of(&Ops(&ops), Some(&tracked));
                let expected = if rank(second) > rank(first) {
                    second
                } else {
                    first
                };
                assert_eq!(passed.objects, [(OpKey(1), expected)].into());
            }
        }
        assert!(rank(BUSY) > rank(Outcome::Pending));
        assert!(rank(Outcome::Pending) > rank(DONE));
        assert_eq!(rank(DONE), rank(Outcome::Applied));
    }
}

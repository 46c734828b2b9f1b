//! The end of a pass: passes its findings to the ledger, the history, the subscription and the
//! report.

use std::collections::BTreeSet;
use std::time::Duration;

use trueup_net::{Object, Routes};
use trueup_reconcile::Ledger;

use super::Pass;
use super::baseline::Baseline;
use super::plan::PassPlan;
use crate::history::History;
use crate::ownership::ledger_view::commit;
use crate::ownership::record::Record;
use crate::ownership::record_key::{RecordKey, link_names, name_of};
use crate::report::Report;
use crate::round::Rounds;
use crate::status::{undone, unknown};

impl Pass<'_> {
    /// Concludes a pass. `left` is the plan of the last observation, or `None` if nothing could be
    /// read after the last change.
    pub(super) fn conclude(
        mut self,
        history: &mut History,
        mut rounds: Rounds,
        left: Option<PassPlan>,
        mut overwritten: Vec<Object>,
        ledger: &mut dyn Ledger,
    ) -> (Report, Option<Baseline>) {
        let seen = left.is_some();
        let mut last = left.unwrap_or_default();
        let mut adopted = Vec::new();
        let has_doubts = !last.seen.snapshot.is_complete();
        let statuses = if seen {
            adopted = self.note_ownership(&mut last, &mut overwritten);
            let routes = self.desired.routes.as_ref();
            let offered = routes.map_or(const { &BTreeSet::new() }, Routes::offered);
            let left = undone(&last.plan, &rounds.done, offered);
            let complete = last.seen.snapshot.observed.complete;
            if !has_doubts {
                for round in &mut rounds.done {
                    round.settle(|id| left.contains_key(id));
                }
            }
            for round in &mut rounds.done {
                round.decline(|id| left.get(id).is_some_and(|left| left.is_declined));
            }
            history.end_pass(self.desired, &self.mode.keys, complete, left)
        } else {
            history.end_unknown(unknown(&rounds.done))
        };
        // Nothing is left undone, on the keys or elsewhere.
        let is_done = !seen || history.is_all_done();
        // If the kernel refuses routes that other hosts offer, the declaration here is still
        // converged.
        let is_converged = !has_doubts && (!seen || history.is_done_but_declined());
        if let Err(error) = commit(ledger, &self.uncommitted) {
            self.trouble.get_or_insert(error.to_string());
        }
        let is_exceeded = self.is_exceeded_by(&last);
        let is_complete = !has_doubts
            && (self.is_over_everything()
                || self.baseline.as_ref().is_some_and(|before| before.is_complete));
        let (mut next_baseline, mut is_covered) = (None, false);
        if let Some(events) = self.events.take()
            && seen
            && self.trouble.is_none()
            && !is_exceeded
        {
            let is_unchanged = rounds.done.is_empty();
            let baseline = Baseline::of(&mut self, &mut last, is_complete, is_unchanged);
            // While others write constantly, hardly a pass is complete, but changes to their
            // objects still do not matter.
            let is_quiet = is_done && baseline.has_dependencies;
            let is_heard = events.set_scope(baseline.watch_scope(&self), is_quiet);
            is_covered = is_heard && is_complete;
            next_baseline = Some(baseline);
        }
        let PassPlan { plan, seen: observation } = last;
        let report = Report {
            converged: self.trouble.is_none() && is_converged && is_complete && !is_exceeded,
            rounds: rounds.done,
            conflicts: plan.conflicts,
            devices: plan.devices,
            notices: plan.notices,
            doubts: observation.snapshot.incomplete,
            trouble: self.trouble.take(),
            seen,
            adopted,
            overwritten,
            statuses,
            is_covered,
            requeue_after: is_exceeded.then_some(Duration::ZERO),
        };
        (report, next_baseline)
    }

    /// Records the owners of the objects in the last observation. Returns the adopted ones.
    fn note_ownership(
        &mut self,
        last: &mut PassPlan,
        overwritten: &mut Vec<Object>,
    ) -> Vec<Object> {
        let PassPlan { plan, seen } = last;
        let observed = &seen.snapshot.observed;
        let adopted = std::mem::take(&mut plan.adopted);
        // The records cover the whole part.
        let single = self.mode.keys.objects();
        let (released, rewritten) =
            self.ledger_view.release(observed, &self.policy, |key| match (single, key) {
                (None, _) => true,
                (Some(single), RecordKey::Route(key)) => single.routes.contains(key),
                // A kind with records is not tracked.
                (Some(_), _) => false,
            });
        self.uncommitted.extend(released);
        for object in rewritten {
            if !overwritten.contains(&object) {
                overwritten.push(object);
            }
        }
        let names = link_names(observed);
        for object in &adopted {
            if let Some(key) = RecordKey::of(object, |dev| name_of(dev, &names)) {
                let record = Record { object: object.clone(), former: None };
                self.uncommitted.insert(key, Some(record));
            }
        }
        adopted
    }
}

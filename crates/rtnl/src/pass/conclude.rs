//! The end of a pass: what it found out goes to the ledger, to the history, to the subscription and
//! into the report.

use std::time::Duration;

use trueup_diff::{Dev, Object};
use trueup_reconcile::Ledger;

use super::Pass;
use super::baseline::Baseline;
use super::pass_plan::PassPlan;
use super::rounds::Rounds;
use crate::Planned;
use crate::history::History;
use crate::location::link_names;
use crate::object_id::object_id;
use crate::ownership::ledger_view::commit;
use crate::ownership::record::Record;
use crate::ownership::record_key::RecordKey;
use crate::ownership::record_key::location;
use crate::report::Report;

impl Pass<'_> {
    /// Concludes a pass. `last` is what is left to do, as of the last observation; `None` where
    /// nothing could be read after the last change.
    pub(super) fn conclude(
        mut self,
        history: &mut History,
        baseline: Option<Baseline>,
        rounds: Rounds,
        last: Option<PassPlan>,
        mut overwritten: Vec<Object>,
        ledger: &mut dyn Ledger,
    ) -> (Report, Option<Baseline>) {
        let seen = last.is_some();
        let mut last = last.unwrap_or_default();
        let mut adopted = Vec::new();
        // Whether nothing is left undone, in the scope or elsewhere.
        let mut is_done = true;
        if seen {
            adopted = self.note_ownership(&mut last.planned, &mut overwritten);
            is_done = self.note_undone(history, &last.planned);
        } else {
            history.forget_desired();
        }
        if let Err(error) = commit(ledger, &self.uncommitted) {
            self.trouble.get_or_insert(error.to_string());
        }
        let is_exceeded = self.scope.is_exceeded_by(&last.planned.plan);
        let was_complete = || baseline.as_ref().is_some_and(|before| before.is_complete);
        let is_complete =
            last.planned.doubts.is_empty() && (self.scope.is_everything() || was_complete());
        let mut next_baseline = None;
        if let Some(monitor) = &self.monitor
            && seen
            && self.trouble.is_none()
            && !is_exceeded
        {
            let is_unchanged = rounds.done.is_empty();
            let baseline = Baseline::of(&self, &last, baseline, is_complete, is_unchanged);
            // While others write all the time hardly a pass is complete, and still what happens to
            // their objects does not matter.
            let is_quiet = is_done && baseline.has_dependencies;
            monitor.set_scope(baseline.watch_scope(&self, is_quiet));
            next_baseline = Some(baseline);
        }
        let planned = last.planned;
        let report = Report {
            converged: self.trouble.is_none()
                && planned.is_converged()
                && is_done
                && is_complete
                && !is_exceeded,
            rounds: rounds.done,
            conflicts: planned.plan.conflicts,
            devices: planned.plan.devices,
            doubts: planned.doubts,
            trouble: self.trouble.take(),
            seen,
            adopted,
            overwritten,
            requeue_after: is_exceeded.then_some(Duration::ZERO),
        };
        (report, next_baseline)
    }

    /// Notes whose the objects of the last observation are. Returns those that are adopted.
    fn note_ownership(
        &mut self,
        planned: &mut Planned,
        overwritten: &mut Vec<Object>,
    ) -> Vec<Object> {
        let Planned { plan, observed, .. } = planned;
        let adopted = std::mem::take(&mut plan.adopted);
        let (released, rewritten) = self.ledger_view.release(observed, self.policy);
        self.uncommitted.extend(released);
        let known = |object: &Object| overwritten.contains(object);
        let news: Vec<Object> = rewritten.into_iter().filter(|it| !known(it)).collect();
        overwritten.extend(news);
        let names = link_names(observed);
        for object in &adopted {
            let name = |dev: Dev| names.get(&dev.as_index()?).copied();
            if let Some(key) = RecordKey::of(object, name) {
                let (object, former) = (object.clone(), None);
                let record = Record { object, former };
                self.uncommitted.insert(key, Some(record));
            }
        }
        adopted
    }

    /// Notes what is left undone. Returns whether nothing is, in the scope or elsewhere.
    fn note_undone(&self, history: &mut History, planned: &Planned) -> bool {
        let plan = &planned.plan;
        let left = plan.ops.iter().map(|op| &op.object);
        let left = left.chain(plan.conflicts.iter().map(|conflict| &conflict.desired));
        let name = |dev: Dev| plan.devices.name(dev).copied();
        let located = left.map(|object| {
            let id = object_id(object, &plan.devices);
            (id, location(object, name))
        });
        let in_scope = |location| self.scope.contains(location);
        history.end_pass(self.desired, in_scope, located)
    }
}

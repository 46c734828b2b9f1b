//! The end of a pass: what it found out goes to the ledger, to the history, to the subscription and
//! into the report.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use trueup_net::{Dev, Object, Routes};
use trueup_reconcile::Ledger;

use super::Pass;
use super::baseline::Baseline;
use super::pass_plan::PassPlan;
use super::rounds::Rounds;
use crate::Planned;
use crate::history::History;
use crate::location::link_names;
use crate::ownership::ledger_view::commit;
use crate::ownership::record::Record;
use crate::ownership::record_key::RecordKey;
use crate::report::Report;
use crate::status::{undone, unknown};

impl Pass<'_> {
    /// Concludes a pass. `last` is what is left to do, as of the last observation; `None` where
    /// nothing could be read after the last change.
    pub(super) fn conclude(
        mut self,
        history: &mut History,
        baseline: Option<Baseline>,
        mut rounds: Rounds,
        last: Option<PassPlan>,
        mut overwritten: Vec<Object>,
        ledger: &mut dyn Ledger,
    ) -> (Report, Option<Baseline>) {
        let seen = last.is_some();
        let mut last = last.unwrap_or_default();
        let mut adopted = Vec::new();
        let mut declined = HashSet::new();
        let statuses = match seen {
            true => {
                adopted = self.note_ownership(&mut last.planned, &mut overwritten);
                let routes = self.desired.routes.as_ref();
                let offered = routes.map_or(const { &BTreeSet::new() }, Routes::offered);
                let left = undone(&last.planned.plan, &rounds.done, offered);
                let complete = last.planned.observed.complete;
                if last.planned.doubts.is_empty() {
                    let all = rounds.done.iter_mut();
                    all.for_each(|round| round.settle(&left));
                }
                let refused = left.iter().filter(|(_, undone)| undone.is_declined);
                declined.extend(refused.map(|(id, _)| *id));
                history.end_pass(self.desired, &self.scope, complete, left)
            }
            false => history.end_unknown(unknown(&rounds.done)),
        };
        // Nothing is left undone, in the scope or elsewhere.
        let is_done = !seen || history.is_all_done();
        // What other hosts offer, and the kernel refuses, is no failure of what is declared here.
        let is_converged = match seen {
            true => history.is_done_but_declined() && last.planned.doubts.is_empty(),
            false => last.planned.is_converged(),
        };
        if let Err(error) = commit(ledger, &self.uncommitted) {
            self.trouble.get_or_insert(error.to_string());
        }
        let is_exceeded = self.scope.is_exceeded_by(&last.planned.plan);
        let was_complete = || baseline.as_ref().is_some_and(|before| before.is_complete);
        let is_complete =
            last.planned.doubts.is_empty() && (self.scope.is_everything() || was_complete());
        let (mut next_baseline, mut is_covered) = (None, false);
        if let Some(monitor) = self.monitor.clone()
            && seen
            && self.trouble.is_none()
            && !is_exceeded
        {
            let is_unchanged = rounds.done.is_empty();
            let baseline = Baseline::of(&mut self, &mut last, baseline, is_complete, is_unchanged);
            // While others write all the time hardly a pass is complete, and still what happens to
            // their objects does not matter.
            let is_quiet = is_done && baseline.has_dependencies;
            let is_heard = monitor.set_scope(baseline.watch_scope(&self), is_quiet);
            is_covered = is_heard && is_complete;
            next_baseline = Some(baseline);
        }
        let planned = last.planned;
        let report = Report {
            converged: self.trouble.is_none() && is_converged && is_complete && !is_exceeded,
            rounds: rounds.done,
            declined,
            conflicts: planned.plan.conflicts,
            devices: planned.plan.devices,
            notices: planned.plan.notices,
            doubts: planned.doubts,
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

    /// Notes whose the objects of the last observation are. Returns those that are adopted.
    fn note_ownership(
        &mut self,
        planned: &mut Planned,
        overwritten: &mut Vec<Object>,
    ) -> Vec<Object> {
        let Planned { plan, observed, .. } = planned;
        let adopted = std::mem::take(&mut plan.adopted);
        let (scope, view) = (&self.scope, &mut self.ledger_view);
        let is_observed = |key: &RecordKey| scope.observes(key);
        let (released, rewritten) = view.release(observed, &self.policy, is_observed);
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
}

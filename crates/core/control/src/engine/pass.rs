//! A pass: ask about what is in flight, observe, plan, gate, start, read back, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use trueup_reconcile::{Ledger, PassLimits, Utc};

use super::flight::Phase;
use super::ops::{Ops, pending};
use super::shared::Shared;
use crate::provider::LastKnown;
use crate::{
    Action, Approval, Backend, Desired, Error, Objects, Observed, Outcome, Pending, Plan, Report,
    Unread, Verb, Wait, plan,
};

pub(super) struct Pass<'a, B: Backend> {
    pub(super) shared: &'a Arc<Shared<B>>,
    pub(super) last_known: &'a LastKnown,
    pub(super) last_desired: Option<&'a Objects>,
    pub(super) ledger: &'a mut dyn Ledger,
    pub(super) limits: &'a PassLimits<'a>,
    /// Since when what was unread in the last pass is.
    pub(super) unread_since: &'a BTreeMap<String, SystemTime>,
}

/// An action that may begin, with its approval if it needs one.
pub(super) type Ready = (Action, Option<Approval>);

impl<B: Backend> Pass<'_, B> {
    /// Everything before the first start may fail, and then the pass could not run. After it
    /// nothing does: what is known goes into the report.
    pub(super) fn run(mut self) -> Result<Report, Error> {
        let shared = self.shared;
        let mut ops = Ops::default();

        // What is in flight. It is asked before the observation, so that this shows its effect.
        shared.ask_all();
        let answered = shared.take_answered(&|_, _| true);
        let mut observed = match shared.observe() {
            Ok(observed) => observed,
            Err(error) => {
                shared.end(answered, None);
                return Err(error);
            }
        };
        let ended = shared.end(answered, Some(&observed));
        self.commit_owners(&ended, &observed.objects)?;
        ops.add_ended(ended);

        let desired = match self.last_known.desired() {
            Desired::Known(objects) => objects,
            Desired::Unknown => return Ok(self.report(ops, None, &observed)),
        };

        // Plan, and select what may begin.
        self.clear_backoffs(desired)?;
        let owned = self.owned(&observed)?;
        let actions = self.plan(desired, &observed, &owned).actions;
        let ready = self.select(actions, &observed.objects, &mut ops)?;
        if !ready.is_empty() {
            self.start(ready, &mut ops)?;
            // Read back.
            shared.ask_all();
            let answered = shared.take_answered(&|_, is_job| !is_job);
            let read_back = shared.observe();
            let ended = shared.end(answered, read_back.as_ref().ok());
            match read_back {
                Ok(read_back) => observed = read_back,
                Err(error) => {
                    ops.trouble = Some(format!("it could not be read back: {error}"));
                    let mut report = self.report(ops, Some(desired), &observed);
                    report.is_seen_whole = false;
                    return Ok(report);
                }
            }
            if let Err(error) = self.commit_owners(&ended, &observed.objects) {
                ops.trouble = Some(error.to_string());
            }
            ops.add_ended(ended);
        }
        let rest = self.plan(desired, &observed, &owned);
        let held_up = self.held_up(desired, &observed, &owned);
        let mut report = self.report(ops, Some(desired), &observed);
        report.converged &= rest.is_in_place() && held_up.is_empty();
        if !held_up.is_empty() {
            let poll = shared.config.poll;
            let after = report.requeue_after;
            report.requeue_after = Some(after.map_or(poll, |after| after.min(poll)));
        }
        report.missing = rest.missing;
        report.undesired = rest.undesired;
        report.held_up = held_up;
        Ok(report)
    }

    /// Makes the plan. What was not read is neither missing nor different: it has no part in it.
    fn plan(&self, desired: &Objects, observed: &Observed, owned: &BTreeSet<String>) -> Plan {
        let config = &self.shared.config;
        let mut plan = plan(desired, &observed.objects, owned, &config.normalisers, config.policy);
        if !observed.unread.is_empty() {
            let is_read = |key: &str| self.shared.unread(observed, key).is_none();
            plan.actions.retain(|action| is_read(&action.key));
            plan.missing.retain(|key| is_read(key));
        }
        plan
    }

    fn unread_since(&self, name: &str) -> SystemTime {
        let since = self.unread_since.get(name).copied();
        since.unwrap_or_else(|| self.shared.config.now())
    }

    /// Returns the objects that may have to be changed, and were not read, with the reason.
    fn held_up(
        &self,
        desired: &Objects,
        observed: &Observed,
        owned: &BTreeSet<String>,
    ) -> BTreeMap<String, String> {
        let keys = desired.keys().chain(owned.iter().filter(|_| self.shared.config.policy.destroy));
        let unread = keys.filter_map(|key| {
            let (name, why) = self.shared.unread(observed, key)?;
            let since = Utc(self.unread_since(name));
            Some((key.clone(), format!("it could not be read since {since}: {why}")))
        });
        unread.collect()
    }

    /// Makes the report, with an op for each operation in flight.
    fn report(self, mut ops: Ops, desired: Option<&Objects>, observed: &Observed) -> Report {
        let config = &self.shared.config;
        let now = config.now();
        let mut requeue_after: Option<Duration> = None;
        let mut requeue = |after: Duration| {
            requeue_after = Some(requeue_after.map_or(after, |other| other.min(after)));
        };
        let state = self.shared.state();
        for (key, flight) in &state.flights {
            if !matches!(flight.phase, Phase::InDoubt { .. }) {
                requeue(config.poll);
            }
            let pending = pending(flight, now, config.task_limit);
            let action = match &flight.record {
                Some(record) => record.action.clone(),
                None => Action::new(key, Verb::Other("unknown".to_owned())),
            };
            ops.pend(action, pending.into());
        }
        let is_idle = state.flights.is_empty();
        drop(state);
        let has_applied = ops.ops.iter().any(|op| op.outcome == Outcome::Applied);
        for op in &ops.ops {
            match &op.outcome {
                Outcome::Pending(Pending::Own(Wait::Retry(until))) => {
                    requeue(until.duration_since(now).unwrap_or_default());
                }
                Outcome::Pending(Pending::Own(Wait::After)) if has_applied => {
                    requeue(Duration::ZERO)
                }
                _ => {}
            }
        }
        let unread = observed.unread.iter().map(|(key, why)| Unread {
            key: key.clone(),
            why: why.clone(),
            since: self.unread_since(key),
        });
        ops.ops.sort_by(|a, b| a.action.key.cmp(&b.action.key));
        let is_known = desired.is_some();
        Report {
            converged: is_known && is_idle && ops.trouble.is_none(),
            is_known,
            ops: ops.ops,
            missing: Vec::new(),
            undesired: if is_known {
                Vec::new()
            } else {
                observed.objects.keys().cloned().collect()
            },
            unread: unread.collect(),
            held_up: BTreeMap::new(),
            failing: self.last_known.failing().cloned(),
            trouble: ops.trouble,
            is_seen_whole: is_known,
            requeue_after,
            statuses: Vec::new(),
        }
    }
}

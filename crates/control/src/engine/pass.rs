//! A pass: ask about what is in flight, observe, plan, gate, start, read back, report.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use trueup_queue::Ticket;
use trueup_reconcile::{Ledger, PassLimits};

use super::approvals::ApprovalRequest;
use super::changed;
use super::flight::Phase;
use super::ops::{Ops, pending};
use super::shared::Shared;
use super::start::StartOutcome;
use crate::provider::LastKnown;
use crate::report::op_key;
use crate::{
    Action, Approval, Backend, Class, Desired, Error, Objects, Outcome, Pending, Report, Verb, plan,
};

pub(super) struct Pass<'a, B: Backend> {
    pub(super) shared: &'a Arc<Shared<B>>,
    pub(super) last_known: &'a LastKnown,
    pub(super) last_desired: Option<&'a Objects>,
    pub(super) ledger: &'a mut dyn Ledger,
    pub(super) limits: &'a PassLimits<'a>,
}

/// An action that may begin, with its approval if it needs one.
type Ready = (Action, Option<Approval>);

impl<B: Backend> Pass<'_, B> {
    /// Everything before the first start may fail, and then the pass could not run. After it
    /// nothing does: what is known goes into the report.
    pub(super) fn run(mut self) -> Result<Report, Error> {
        let shared = self.shared;
        let mut ops = Ops::default();

        // What is in flight. It is asked before the observation, so that this shows its effect.
        let answered = shared.ask(&|_, _| true);
        let mut observed = match shared.observe() {
            Ok(observed) => observed,
            Err(error) => {
                // What was taken is given back; what the backend says of its own is recorded.
                let ended = shared.end(answered, None);
                self.commit_owners(&ended, None)?;
                return Err(error);
            }
        };
        let ended = shared.end(answered, Some(&observed));
        self.commit_owners(&ended, Some(&observed))?;
        ops.add_ended(ended);

        let desired = match self.last_known.desired() {
            Desired::Known(objects) => objects,
            Desired::Unknown => return Ok(self.report(ops, None, &observed)),
        };

        // Plan, and select what may begin.
        self.clear_backoffs(desired)?;
        let owned = self.owned(&observed)?;
        let config = &shared.config;
        let plan_now = |observed: &Objects| {
            plan(
                desired,
                observed,
                &owned,
                &config.normalisers,
                config.policy,
            )
        };
        let ready = self.select(plan_now(&observed).actions, &observed, &mut ops)?;
        if !ready.is_empty() {
            self.start(ready, &mut ops)?;
            // Read back.
            let answered = shared.ask(&|_, is_job| !is_job);
            let read_back = shared.observe();
            let ended = shared.end(answered, read_back.as_ref().ok());
            match self.commit_owners(&ended, read_back.as_ref().ok()) {
                Ok(()) => {}
                Err(error) => ops.trouble = Some(error.to_string()),
            }
            ops.add_ended(ended);
            match read_back {
                Ok(read_back) => observed = read_back,
                Err(error) => {
                    ops.trouble = Some(format!("it could not be read back: {error}"));
                    let mut report = self.report(ops, Some(desired), &observed);
                    report.converged = false;
                    report.is_seen_whole = false;
                    return Ok(report);
                }
            }
        }
        let rest = plan_now(&observed);
        let is_in_place = rest.is_in_place();
        let mut report = self.report(ops, Some(desired), &observed);
        report.converged &= is_in_place;
        report.missing = rest.missing;
        report.undesired = rest.undesired;
        Ok(report)
    }

    /// Clears the backoff of each object that is desired otherwise than in the last pass.
    fn clear_backoffs(&self, desired: &Objects) -> Result<(), Error> {
        let Some(last) = self.last_desired else {
            return Ok(());
        };
        for key in changed(last, desired) {
            let name = self.shared.name(key);
            let cleared = self.shared.backoffs.clear(name.as_bytes());
            cleared.map_err(Error::journal)?;
        }
        Ok(())
    }

    /// Selects the actions that may begin now. Each of the others gets the reason why it waits.
    fn select(
        &self,
        actions: Vec<Action>,
        observed: &Objects,
        ops: &mut Ops,
    ) -> Result<Vec<Ready>, Error> {
        let shared = self.shared;
        let now = shared.config.now();
        let backoffs = shared.backoffs.all().map_err(Error::journal)?;
        let mut ready: Vec<Ready> = Vec::new();
        let mut waiting = Vec::new();
        let in_flight: BTreeSet<String> = shared.state().flights.keys().cloned().collect();
        for action in actions {
            if in_flight.contains(&action.key) || ops.has_failed(&action.key) {
                // The op of what is in flight, or has ended, stands for the object.
                continue;
            }
            let backoff = backoffs.get(shared.name(&action.key).as_bytes());
            let pending = if ready
                .last()
                .is_some_and(|(first, _)| first.key == action.key)
                || waiting
                    .last()
                    .is_some_and(|it: &ApprovalRequest| it.action.key == action.key)
            {
                Pending::After
            } else {
                let object = observed.get(&action.key);
                let approval = match shared.class(&action, object) {
                    Class::Benign => None,
                    // It can be approved while it waits for its backoff, too.
                    Class::Destructive => {
                        let hash = shared.config.gate.hash(&action, object);
                        waiting.push(ApprovalRequest::new(hash, action.clone()));
                        let approvals = &shared.state().approvals;
                        match approvals.find(hash, now) {
                            Some(approval) => Some(approval),
                            None => {
                                let refused = approvals.refused(hash);
                                ops.pend(action, Pending::Approval { hash, refused });
                                continue;
                            }
                        }
                    }
                };
                if let Some(backoff) = backoff.filter(|backoff| backoff.next > now) {
                    ops.pend(action, Pending::Backoff(backoff.next));
                    continue;
                }
                // The loop puts off what it may try and what is not tried, such as an action that
                // waited for its approval.
                if approval.is_none() && self.limits.backoff(op_key(&action.key)).is_some() {
                    ops.pend(action, Pending::Held);
                    continue;
                }
                let is_cut = ready.len() as u64 >= self.limits.ops();
                if !is_cut && self.limits.should_continue() {
                    ready.push((action, approval));
                    continue;
                }
                Pending::Cut
            };
            ops.pend(action, pending);
        }
        shared.state().approvals.set_waiting(waiting, now);
        Ok(ready)
    }

    /// Starts actions in the lanes of their objects, and waits until the backend has answered. It
    /// does not wait for tasks.
    fn start(&mut self, ready: Vec<Ready>, ops: &mut Ops) -> Result<(), Error> {
        self.begin_creates(ready.iter().map(|(action, _)| action))?;
        // A start that the pass did not wait for requests another one.
        let is_late = Arc::new(AtomicBool::new(false));
        let mut tickets: Vec<(Ready, Option<Ticket<StartOutcome>>)> = Vec::new();
        for (action, approval) in ready {
            let (shared, it) = (Arc::clone(self.shared), (action.clone(), approval.clone()));
            let is_late = Arc::clone(&is_late);
            let job = move || {
                let outcome = shared.start(it.0, it.1.as_ref(), None);
                if is_late.load(Ordering::Relaxed) {
                    shared.request_pass();
                }
                outcome
            };
            let ticket = self.shared.queue.submit(action.key.clone(), job).ok();
            tickets.push(((action, approval), ticket));
        }
        let until = Instant::now() + self.shared.config.start_wait;
        for ((action, approval), ticket) in tickets {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = match ticket.as_ref().map(|ticket| ticket.wait(left)) {
                Some(Ok(outcome)) => outcome.done(),
                // Not answered yet: it is in flight. If it has not begun, a later pass begins it.
                _ => {
                    is_late.store(true, Ordering::Relaxed);
                    None
                }
            };
            let is_begun = ticket.is_some_and(|ticket| outcome.is_none() && !ticket.cancel());
            if let (Some(_), Some(approval)) = (&outcome, &approval) {
                let refused = match &outcome {
                    Some(StartOutcome::NotApproved(why)) => Some(Some(why.clone())),
                    Some(StartOutcome::InFlight | StartOutcome::Refused(..)) => Some(None),
                    _ => None,
                };
                if let Some(refused) = refused {
                    let mut state = self.shared.state();
                    state.approvals.remove(approval.hash(), refused);
                }
            }
            match outcome {
                // Its op comes from its end, or from what is in flight.
                Some(StartOutcome::InFlight) => {}
                Some(StartOutcome::Refused(class, message)) => {
                    self.release(&action);
                    ops.fail(action, class, message);
                }
                Some(StartOutcome::NotApproved(why)) => {
                    self.release(&action);
                    let hash = approval.map(|approval| approval.hash());
                    let pending = hash.map_or(Pending::After, |hash| Pending::Approval {
                        hash,
                        refused: Some(why),
                    });
                    ops.pend(action, pending);
                }
                Some(StartOutcome::NotRecorded(error)) => {
                    ops.trouble = Some(error.to_string());
                    ops.pend(action, Pending::NotRecorded);
                }
                Some(StartOutcome::Busy | StartOutcome::Repeated) => {
                    ops.pend(action, Pending::After);
                }
                None if is_begun => {}
                None => {
                    self.release(&action);
                    ops.pend(action, Pending::After);
                }
            }
        }
        Ok(())
    }

    /// Makes the report, with an op for each operation in flight.
    fn report(self, mut ops: Ops, desired: Option<&Objects>, observed: &Objects) -> Report {
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
            ops.pend(action, pending);
        }
        let is_idle = state.flights.is_empty();
        drop(state);
        let has_applied = ops.ops.iter().any(|op| op.outcome == Outcome::Applied);
        for op in &ops.ops {
            match &op.outcome {
                Outcome::Pending(Pending::Backoff(until)) => {
                    requeue(until.duration_since(now).unwrap_or_default());
                }
                Outcome::Pending(Pending::After) if has_applied => requeue(Duration::ZERO),
                _ => {}
            }
        }
        ops.ops.sort_by(|a, b| a.action.key.cmp(&b.action.key));
        let is_known = desired.is_some();
        Report {
            converged: is_known && is_idle && ops.trouble.is_none(),
            is_known,
            ops: ops.ops,
            missing: Vec::new(),
            undesired: match is_known {
                true => Vec::new(),
                false => observed.keys().cloned().collect(),
            },
            failing: self.last_known.failing().cloned(),
            trouble: ops.trouble,
            is_seen_whole: is_known,
            requeue_after,
            statuses: Vec::new(),
        }
    }
}

//! A pass: ask about operations in flight, observe, plan, gate, start, read back, report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use trueup_queue::Ticket;
use trueup_reconcile::{Claim, ErrorClass, Ledger, PassLimits, utc};

use super::approvals::ApprovalRequest;
use super::changed;
use super::flight::{End, Ended, Phase};
use super::shared::Shared;
use super::start::StartOutcome;
use crate::provider::LastKnown;
use crate::report::op_key;
use crate::{
    Action, Approval, Backend, ControlOp, Error, Failure, Objects, Observed, Outcome, Pending,
    Plan, Report, Unread, Verb, Wait, plan,
};

pub(super) struct Pass<'a, B: Backend> {
    pub(super) shared: &'a Arc<Shared<B>>,
    pub(super) last_known: &'a LastKnown,
    pub(super) last_desired: Option<&'a Objects>,
    pub(super) ledger: &'a mut dyn Ledger,
    pub(super) limits: &'a PassLimits<'a>,
    /// The time since when each object or lane of the last pass's unread ones is unread.
    pub(super) unread_since: &'a BTreeMap<String, SystemTime>,
}

/// An action that may begin, with its approval if it needs one.
type Ready = (Action, Option<Approval>);

impl<B: Backend> Pass<'_, B> {
    /// Runs the pass. Before the first start, an error means that the pass could not run. After it,
    /// errors go into the report.
    pub(super) fn run(mut self) -> Result<Report, Error> {
        let shared = self.shared;
        let mut ops = Ops::default();

        // Ask about operations in flight before the observation, so that it shows their effect.
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

        let Some(desired) = self.last_known.desired() else {
            return Ok(self.report(ops, None, &observed));
        };

        // Plan, and select the actions that may begin.
        self.clear_backoffs(desired)?;
        let owned = self.owned(&observed)?;
        let actions = self.plan(desired, &observed, &owned).actions;
        let ready = self.select(actions, &observed.objects, &mut ops)?;
        if !ready.is_empty() {
            self.start(ready, &mut ops)?;
            // Read back the effects.
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

    /// Makes the plan. An unread object is neither missing nor different: the plan leaves it out.
    fn plan(&self, desired: &Objects, observed: &Observed, owned: &BTreeSet<String>) -> Plan {
        let mut plan = plan(desired, &observed.objects, owned, &self.shared.config);
        if !observed.unread.is_empty() {
            plan.actions.retain(|action| self.shared.unread(observed, &action.key).is_none());
            plan.missing.retain(|key| self.shared.unread(observed, key).is_none());
        }
        plan
    }

    fn unread_since(&self, name: &str) -> SystemTime {
        let since = self.unread_since.get(name).copied();
        since.unwrap_or_else(|| self.shared.config.now())
    }

    /// Returns the unread objects that may need a change, with the reason.
    fn held_up(
        &self,
        desired: &Objects,
        observed: &Observed,
        owned: &BTreeSet<String>,
    ) -> BTreeMap<String, String> {
        let keys = desired.keys().chain(owned.iter().filter(|_| self.shared.config.destroys));
        let unread = keys.filter_map(|key| {
            let (name, why) = self.shared.unread(observed, key)?;
            let since = utc(self.unread_since(name));
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
            let pending = flight.wait(now, config.task_limit);
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

    /// Clears the backoff of each object whose desired state differs from the last pass's.
    fn clear_backoffs(&self, desired: &Objects) -> Result<(), Error> {
        let Some(last) = self.last_desired else {
            return Ok(());
        };
        let names = changed(last, desired).map(|key| self.shared.name(key));
        for name in names.filter(|name| is_recordable(name)) {
            let cleared = self.shared.journal.clear_backoff(name.as_bytes());
            cleared.map_err(Error::journal)?;
        }
        Ok(())
    }

    /// Selects the actions that may begin now. Each other action gets a reason to wait.
    fn select(
        &self,
        actions: Vec<Action>,
        observed: &Objects,
        ops: &mut Ops,
    ) -> Result<Vec<Ready>, Error> {
        let shared = self.shared;
        let now = shared.config.now();
        let approval_time = shared.approval_time()?;
        let backoffs = shared.journal.backoffs().map_err(Error::journal)?;
        let mut ready: Vec<Ready> = Vec::new();
        let mut waiting = Vec::new();
        let in_flight: BTreeSet<String> = shared.state().flights.keys().cloned().collect();
        'actions: for action in actions {
            if in_flight.contains(&action.key) || ops.has_failed(&action.key) {
                // The op of the object's operation, in flight or ended, represents the object.
                continue;
            }
            let name = shared.name(&action.key);
            if !is_recordable(&name) {
                let (length, most) = (name.len(), Claim::MAX_KEY);
                let why = format!("its key has {length} bytes in the journal, of at most {most}");
                ops.fail(action, ErrorClass::Invalid, why);
                continue;
            }
            let backoff = backoffs.get(name.as_bytes());
            let failed_before = match backoff {
                Some(_) => shared.last_failure(&action.key)?,
                None => None,
            };
            let pending: Pending = 'waits: {
                if ready.last().is_some_and(|(first, _)| first.key == action.key)
                    || waiting
                        .last()
                        .is_some_and(|it: &ApprovalRequest| it.action.key == action.key)
                {
                    break 'waits Wait::After.into();
                }
                let object = observed.get(&action.key);
                let mut approval = None;
                // It can be approved even while it waits for its backoff.
                if !shared.is_benign(&action, object) {
                    let hash = shared.config.gate.hash(&action, object);
                    let journal = shared.journal_id()?;
                    waiting.push(ApprovalRequest::new(hash, journal, action.clone()));
                    let approvals = &shared.state().approvals;
                    approval = approvals.find(hash, approval_time);
                    if approval.is_none() {
                        let refused = approvals.refused(hash);
                        break 'waits Wait::Approval { hash, refused }.into();
                    }
                }
                if let Some(backoff) = backoff.filter(|backoff| backoff.next > now) {
                    break 'waits Wait::Retry(backoff.next).into();
                }
                // The loop's backoff also covers untried ops, such as an action that waited for its
                // approval.
                let put_off = self.limits.backoff(op_key(&action.key));
                if let Some(left) = put_off.filter(|_| approval.is_none()) {
                    break 'waits Pending::Backoff(left);
                }
                let is_cut = ready.len() as u64 >= self.limits.ops();
                if !is_cut && self.limits.should_continue() {
                    ready.push((action, approval));
                    continue 'actions;
                }
                Pending::Cut
            };
            ops.pend_retry(action, pending, failed_before);
        }
        shared.state().approvals.set_waiting(waiting, approval_time);
        Ok(ready)
    }

    /// Starts actions in their objects' lanes, and waits until the backend has answered, but not
    /// for tasks.
    fn start(&mut self, ready: Vec<Ready>, ops: &mut Ops) -> Result<(), Error> {
        self.begin_creates(ready.iter().map(|(action, _)| action))?;
        // A start that the pass did not wait for requests another pass.
        let is_late = Arc::new(AtomicBool::new(false));
        let mut tickets: Vec<(Ready, Option<Ticket<StartOutcome>>)> = Vec::new();
        for (action, approval) in ready {
            let (shared, it) = (Arc::clone(self.shared), (action.clone(), approval.clone()));
            let is_late = Arc::clone(&is_late);
            let ticket = self.shared.queue.submit(self.shared.lane(&action.key), move || {
                let outcome = shared.start(it.0, it.1.as_ref(), None);
                if is_late.load(Ordering::Relaxed) {
                    shared.request_pass();
                }
                outcome
            });
            tickets.push(((action, approval), ticket.ok()));
        }
        let until = Instant::now() + self.shared.config.start_wait;
        for ((action, approval), ticket) in tickets {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = match ticket.as_ref().map(|ticket| ticket.wait(left)) {
                Some(Ok(outcome)) => outcome.done(),
                // Without an answer, it is in flight. If it has not begun, a later pass begins it.
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
                // Its op comes from its end, or from the operations in flight.
                Some(StartOutcome::InFlight) => {}
                Some(StartOutcome::Refused(class, message)) => {
                    self.release(&action);
                    ops.fail(action, class, message);
                }
                Some(StartOutcome::NotApproved(why)) => {
                    self.release(&action);
                    let hash = approval.map(|approval| approval.hash());
                    let pending = hash
                        .map_or(Wait::After, |hash| Wait::Approval { hash, refused: Some(why) });
                    ops.pend(action, pending.into());
                }
                Some(StartOutcome::NotRecorded(error)) => {
                    ops.trouble = Some(error.to_string());
                    ops.pend(action, Pending::Unrecorded);
                }
                Some(StartOutcome::Busy | StartOutcome::Repeated) => {
                    ops.pend(action, Wait::After.into());
                }
                None if is_begun => {}
                None => {
                    self.release(&action);
                    ops.pend(action, Wait::After.into());
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the journal and each ledger hold an object's name: their limits are the same.
fn is_recordable(name: &str) -> bool {
    name.len() <= Claim::MAX_KEY
}

/// The ops of a running pass.
#[derive(Default)]
struct Ops {
    ops: Vec<ControlOp>,
    trouble: Option<String>,
}

impl Ops {
    fn pend(&mut self, action: Action, pending: Pending) {
        let outcome = Outcome::Pending(pending);
        self.ops.push(ControlOp::new(action, outcome));
    }

    fn pend_retry(&mut self, action: Action, pending: Pending, failed_before: Option<Failure>) {
        let op = ControlOp::new(action, Outcome::Pending(pending));
        self.ops.push(ControlOp { failed_before, ..op });
    }

    fn fail(&mut self, action: Action, class: ErrorClass, message: String) {
        let outcome = Outcome::Failed(Failure::new(class, message));
        self.ops.push(ControlOp::new(action, outcome));
    }

    /// Returns true if an action on the object has failed in this pass.
    fn has_failed(&self, key: &str) -> bool {
        let mut ops = self.ops.iter();
        ops.any(|op| op.action.key == key && matches!(op.outcome, Outcome::Failed(_)))
    }

    fn add_ended(&mut self, ended: Vec<Ended>) {
        for Ended { action, end, .. } in ended {
            match (end.failure(), end) {
                (Some(failure), _) => {
                    let outcome = Outcome::Failed(failure);
                    self.ops.push(ControlOp::new(action, outcome));
                }
                // If it is still due, it is planned anew.
                (None, End::Never) => {}
                (None, _) => self.ops.push(ControlOp::new(action, Outcome::Applied)),
            }
        }
    }
}

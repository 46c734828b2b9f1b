//! The third stage: carries a plan out, after the ledger has recorded what has to be.

use std::collections::{BTreeMap, BTreeSet};

use trueup_apply::{ErrorClass, Outcome, Outcomes, apply, apply_with_echo, draw_indexes};
use trueup_net::{
    Action, Desired, Hold, Item as _, Kind, Kinds, NexthopMode, Object, ObjectKind as _, Op, Plan,
    Reason, Route, Routes,
};
use trueup_reconcile::Ledger;

use super::scope::PassScope;
use super::{Pass, backoff};
use crate::history::History;
use crate::ownership::intents::Intents;
use crate::ownership::ledger_view::commit;
use crate::ownership::record::Records;
use crate::ownership::record_key::RecordKey;
use crate::round::Round;

/// A plan that was carried out.
pub(super) struct Applied {
    pub(super) round: Round,
    /// Keys that another writer had by the time of our write.
    pub(super) refused: BTreeSet<RecordKey>,
    /// What the kernel holds now on the keys of the plan, where it has echoed every change.
    pub(super) echoed: Option<Echoed>,
}

/// What the kernel holds on the keys of a plan, by its echoes.
pub(super) struct Echoed {
    /// The routes that the plan has put there.
    pub(super) there: Vec<Route>,
    /// What the plan has not achieved. Of that nothing was done.
    pub(super) left: Plan,
}

impl Pass<'_> {
    /// Carries a plan out, made from an observation in which these kinds are complete, with an echo
    /// of each change where that verifies it. Every op has exactly one outcome.
    pub(super) fn apply(
        &mut self,
        history: &History,
        mut plan: Plan,
        complete: Kinds,
        is_verified_by_echo: bool,
        ledger: &mut dyn Ledger,
    ) -> Applied {
        self.hold_beyond_limits(history, &mut plan);
        let indexes = draw_indexes(&plan);
        let devices = plan.devices.clone();
        let intents = Intents::new(&self.ledger_view, &self.policy, &devices, &indexes);
        let keys = |op: &Op| intents.of(op).into_iter().map(|(key, _)| key);
        // An intent of an earlier pass whose outcome is not known stands in the way of another.
        for op in plan.ops.iter_mut().filter(|op| op.hold.is_none()) {
            let view = &self.ledger_view;
            if !view.is_empty() && keys(op).any(|key| view.has_intent(&key)) {
                let why = "what became of an earlier intent is not known yet";
                op.hold = Some(Hold::Unrecorded(why.into()));
            }
        }
        let due = intents.of_plan(&plan);
        // A plan can be of a million ops of which few are recorded. An op that is held has no
        // intent: one that is open on its key is of an earlier pass, and stays open.
        let ops = plan.ops.iter().enumerate().filter(|_| !due.is_empty());
        let recorded = ops.filter(|(_, op)| op.hold.is_none());
        let intended: BTreeMap<usize, Vec<RecordKey>> = recorded
            .map(|(at, op)| (at, keys(op).collect::<Vec<_>>()))
            .filter(|(_, keys)| !keys.is_empty())
            .collect();
        if let Err(why) = self.begin(ledger, due) {
            for at in intended.keys() {
                let hold = &mut plan.ops[*at].hold;
                hold.get_or_insert_with(|| Hold::Unrecorded(why.as_str().into()));
            }
            self.trouble.get_or_insert(why);
        }
        let unmarked = self.ledger_view.unmarked_routes(self.policy.marker);
        self.unmarked.extend(unmarked);
        let socket = self.observer.socket();
        let apply = match is_verified_by_echo {
            true => apply_with_echo,
            false => apply,
        };
        let limits = self.limits;
        let mut outcomes = apply(&plan, socket, &indexes, &|| limits.should_continue());
        let echoed = is_verified_by_echo.then(|| echoed(&plan, &mut outcomes));
        let refused = self.withdraw_undone(&plan, complete, &outcomes, intended);
        Applied { round: Round { plan, outcomes }, refused, echoed: echoed.flatten() }
    }

    /// Returns true if the kernel's echo of each change is as good as another observation, and
    /// cheaper. `is_whole`: the plan was made from a whole observation of its scope.
    pub(super) fn is_verified_by_echo(&self, plan: &Plan, is_whole: bool) -> bool {
        let is_known = match &self.scope {
            PassScope::TrackedRoutes(tracked) => tracked.is_verified_by_echo,
            // No route takes anything else along, all else was read in this pass, and what another
            // writer does after the echo is received.
            PassScope::Everything(_) => {
                let is_heard = self.monitor.is_some();
                is_heard && is_whole && self.changes_inline_routes_alone(plan)
            }
            PassScope::DirtyKeys(_) | PassScope::NexthopTable(_) => false,
        };
        let is_route = |key: &RecordKey| matches!(key, RecordKey::Route(_));
        is_known
            && !self.policy.by_ledger.contains(Kind::Route)
            && !self.ledger_view.keys().any(is_route)
            && is_echo_cheaper(plan, self.desired)
    }

    /// Returns true if a plan changes routes of ours by the marker, and nothing else.
    fn changes_inline_routes_alone(&self, plan: &Plan) -> bool {
        let is_route = |op: &Op| op.hold.is_some() || op.object.kind() == Kind::Route;
        self.desired.nexthops == NexthopMode::Inline && plan.ops.iter().all(is_route)
    }

    /// Holds the ops that the driver does not want tried.
    pub(super) fn hold_beyond_limits(&mut self, history: &History, plan: &mut Plan) {
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|op| op.hold.is_none()) {
            if let Some(left) = backoff(&self.limits, history, op, devices) {
                op.hold = Some(Hold::Backoff(left));
            } else if self.ops_left == 0 {
                op.hold = Some(Hold::Cut);
            } else {
                self.ops_left = self.ops_left.saturating_sub(1);
            }
        }
    }

    /// Records intents, after the outcomes of earlier ones on the same keys.
    fn begin(&mut self, ledger: &mut dyn Ledger, due: Records) -> Result<(), String> {
        if self.uncommitted.keys().any(|key| due.contains_key(key)) {
            commit(ledger, &self.uncommitted).map_err(|error| error.to_string())?;
            self.uncommitted.clear();
        }
        let begun = self.ledger_view.begin(ledger, due);
        begun.map_err(|error| error.to_string())
    }

    /// Withdraws the intents of ops that did nothing. Returns the keys that another writer had.
    fn withdraw_undone(
        &mut self,
        plan: &Plan,
        complete: Kinds,
        outcomes: &Outcomes,
        intended: BTreeMap<usize, Vec<RecordKey>>,
    ) -> BTreeSet<RecordKey> {
        let mut refused = BTreeSet::new();
        for (at, keys) in intended {
            let (op, outcome) = (&plan.ops[at], &outcomes.outcomes[at]);
            match outcome {
                // An equal rule that was made since the observation is not ours, unless it was.
                Outcome::Applied if outcomes.found_existing.contains(&at) => {
                    let unknown = |key: &RecordKey| self.ledger_view.record(key).is_none();
                    refused.extend(keys.into_iter().filter(unknown));
                }
                Outcome::Applied => {}
                // A former object is to be restored until it is there.
                _ if op.reason == Reason::Restored => {}
                Outcome::Failed(failure) if failure.class() == ErrorClass::Unknown => {}
                // The kernel may have set a part on a link before it refused the rest.
                Outcome::Failed(_)
                    if (op.action, op.object.kind()) == (Action::Update, Kind::Link) => {}
                Outcome::Failed(failure)
                    if op.action == Action::Create && failure.class() == ErrorClass::Conflict =>
                {
                    // Where rows may be missing, the object that is there may be our own.
                    let is_complete = complete.contains(op.object.kind());
                    for key in keys {
                        match self.ledger_view.record(&key) {
                            Some(_) if !is_complete => self.ledger_view.withdraw(&key, false),
                            _ => drop(refused.insert(key)),
                        }
                    }
                }
                Outcome::Failed(_) | Outcome::Pending(_) => {
                    let missing = op.reason.is_missing();
                    keys.iter().for_each(|key| self.ledger_view.withdraw(key, missing));
                }
            }
        }
        refused
    }
}

/// Returns true if a dump of all routes costs more than the echoes: some five rows for each.
fn is_echo_cheaper(plan: &Plan, desired: &Desired) -> bool {
    let routes = desired.routes.as_ref().map_or(0, Routes::len);
    plan.ops.len() <= 64 + routes / 8
}

/// Returns what the kernel holds after a plan, if it has echoed each op as it was to be, or has
/// done nothing of it.
fn echoed(plan: &Plan, outcomes: &mut Outcomes) -> Option<Echoed> {
    let mut echoed = std::mem::take(&mut outcomes.echoed);
    let mut there = Vec::new();
    for (at, op) in plan.ops.iter().enumerate() {
        if outcomes.undone.contains(&at) && !has_conflict(&outcomes.outcomes[at]) {
            continue;
        }
        let route = echoed.remove(&at)?;
        let is_as_planned = match (&op.object, op.action) {
            _ if outcomes.outcomes.get(at) != Some(&Outcome::Applied) => false,
            (Object::Route(gone), Action::Delete) => gone.key() == route.key(),
            (Object::Route(wanted), _) => {
                let same = wanted.key() == route.key() && wanted.protocol == route.protocol;
                same && wanted.agrees(&route)
            }
            _ => false,
        };
        if !is_as_planned {
            return None;
        }
        if op.action != Action::Delete {
            there.push(route);
        }
    }
    let mut at = 0..;
    let is_undone = |_: &Op| at.next().is_some_and(|at| outcomes.undone.contains(&at));
    Some(Echoed { there, left: plan.clone().retain(is_undone) })
}

/// Returns true if something else is on the key than was known.
fn has_conflict(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(failure) if failure.class() == ErrorClass::Conflict)
}

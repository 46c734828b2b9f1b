//! The third stage: carries a plan out, after the ledger has recorded its intents.

use std::collections::{BTreeMap, BTreeSet};

use trueup_apply::{ErrorClass, Outcome, Outcomes, apply, apply_with_echo, draw_indexes};
use trueup_net::{Action, Hold, Kind, Kinds, Plan, Reason};
use trueup_reconcile::Ledger;

use super::Pass;
use super::mode::Verify;
use crate::history::History;
use crate::ownership::intents::Intents;
use crate::ownership::ledger_view::commit;
use crate::ownership::record::Records;
use crate::ownership::record_key::RecordKey;
use crate::round::Round;

/// A plan that was carried out.
pub(super) struct Applied {
    pub(super) round: Round,
    /// Keys that another writer had taken by the time of our write.
    pub(super) refused: BTreeSet<RecordKey>,
}

impl Pass<'_> {
    /// Carries a plan out. The observation was complete in the `complete` kinds. If changes are
    /// verified by echo, asks the kernel to echo them. Every op has exactly one outcome.
    pub(super) fn apply(
        &mut self,
        history: &History,
        mut plan: Plan,
        complete: Kinds,
        verify: Verify,
        ledger: &mut dyn Ledger,
    ) -> Applied {
        self.hold_beyond_limits(history, &mut plan);
        let due = plan.ops.iter().filter(|op| op.hold.is_none());
        if !self.limits.may_change(due.map(|op| op.object.kind().name())) {
            let due = plan.ops.iter_mut().filter(|op| op.hold.is_none());
            due.for_each(|op| op.hold = Some(Hold::Cut));
        }
        let indexes = draw_indexes(&plan);
        let devices = plan.devices.clone();
        let intents = Intents::new(&self.ledger_view, &self.policy, &devices, &indexes);
        // An earlier pass's intent with an unknown outcome prevents another.
        for op in plan.ops.iter_mut().filter(|op| op.hold.is_none()) {
            let view = &self.ledger_view;
            if !view.is_empty() && intents.keys(op).any(|key| view.has_intent(&key)) {
                let why = "what became of an earlier intent is not known yet";
                op.hold = Some(Hold::Unrecorded(why.into()));
            }
        }
        let due = intents.of_plan(&plan);
        // A plan can have a million ops with few records. A held op has no intent: an open one on
        // its key is an earlier pass's, and stays open.
        let intended: BTreeMap<usize, Vec<RecordKey>> = plan
            .ops
            .iter()
            .enumerate()
            .filter(|(_, op)| !due.is_empty() && op.hold.is_none())
            .map(|(at, op)| (at, intents.keys(op).collect::<Vec<_>>()))
            .filter(|(_, keys)| !keys.is_empty())
            .collect();
        if let Err(why) = self.begin(ledger, due) {
            for at in intended.keys() {
                let hold = &mut plan.ops[*at].hold;
                hold.get_or_insert_with(|| Hold::Unrecorded(why.as_str().into()));
            }
            self.trouble.get_or_insert(why);
        }
        self.unmarked.extend(self.ledger_view.unmarked_routes(self.policy.marker));
        let socket = self.observer.socket();
        let limits = self.limits;
        let carry_out = match verify {
            Verify::Echo => apply_with_echo,
            Verify::Read => apply,
        };
        let outcomes = carry_out(&plan, socket, &indexes, &|| limits.should_continue());
        let refused = self.withdraw_undone(&plan, complete, &outcomes, intended);
        Applied { round: Round { plan, outcomes }, refused }
    }

    /// Holds the ops that the driver does not want tried.
    pub(super) fn hold_beyond_limits(&mut self, history: &History, plan: &mut Plan) {
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|op| op.hold.is_none()) {
            if let Some(left) = self.backoff(history, op, devices) {
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
        self.ledger_view.begin(ledger, due).map_err(|error| error.to_string())
    }

    /// Withdraws the intents of ops that did nothing. Returns the keys that another writer had
    /// taken.
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
                // An equal rule made since the observation is not ours, unless it was before.
                Outcome::Applied if outcomes.found_existing.contains(&at) => {
                    refused.extend(
                        keys.into_iter().filter(|key| self.ledger_view.record(key).is_none()),
                    );
                }
                Outcome::Applied => {}
                // A former object's restoration stays intended until the object exists.
                _ if op.reason == Reason::Restored => {}
                Outcome::Failed(failure) if failure.class == ErrorClass::Unknown => {}
                // The kernel may have set some attributes of a link before it refused the others.
                Outcome::Failed(_)
                    if (op.action, op.object.kind()) == (Action::Update, Kind::Link) => {}
                Outcome::Failed(failure)
                    if op.action == Action::Create && failure.class == ErrorClass::Conflict =>
                {
                    // If rows may be missing, the existing object may be our own.
                    let is_complete = complete.contains(op.object.kind());
                    for key in keys {
                        match self.ledger_view.record(&key) {
                            Some(_) if !is_complete => self.ledger_view.withdraw(&key, false),
                            _ => drop(refused.insert(key)),
                        }
                    }
                }
                Outcome::Failed(_) | Outcome::Declined(_) | Outcome::Pending(_) => {
                    let missing = op.reason.is_missing();
                    keys.iter().for_each(|key| self.ledger_view.withdraw(key, missing));
                }
            }
        }
        refused
    }
}

//! Holds the deletes of a kind of which too many objects are no longer desired.

use std::collections::BTreeMap;

use trueup_net::{Action, Desired, Hold, Kind, MaxDeletes, Op, Plan, Reason};

#[derive(Clone, Debug, Default)]
pub(super) struct DeleteLimit {
    /// The kinds whose deletes are held.
    held: BTreeMap<Kind, Held>,
    /// True while a pass runs whose deletes the caller has allowed.
    is_allowed: bool,
}

/// The deletes of a kind.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// How many are due.
    deletes: usize,
    /// How many may be carried out, by the pass that held them first: what is created since then
    /// does not raise it.
    most: usize,
}

impl DeleteLimit {
    pub(super) fn allow(&mut self, is_allowed: bool) {
        self.is_allowed = is_allowed;
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Holds what exceeds the limit. `outside` has the deletes of each kind that are due beside
    /// those of the plan.
    pub(super) fn hold(
        &mut self,
        plan: &mut Plan,
        max_deletes: Option<MaxDeletes>,
        desired: &Desired,
        outside: &BTreeMap<Kind, usize>,
    ) {
        let Some(max_deletes) = max_deletes.filter(|_| !self.is_allowed) else {
            self.held.clear();
            return;
        };
        for kind in Kind::DECLARED {
            let of_kind = |op: &&Op| op.object.kind() == kind;
            let deletes = plan.ops.iter().filter(of_kind).filter(|op| is_undesired(op));
            let deletes = deletes.count() + outside.get(&kind).copied().unwrap_or_default();
            let most = self.held.get(&kind).map_or_else(
                || {
                    let is_missing = |op: &&Op| op.reason.is_missing();
                    let missing = plan.ops.iter().filter(of_kind).filter(is_missing).count();
                    let stays = desired.count(kind).saturating_sub(missing);
                    max_deletes.of(deletes + stays)
                },
                |known| known.most,
            );
            match deletes > most {
                true => self.held.insert(kind, Held { deletes, most }),
                false => self.held.remove(&kind),
            };
        }
        for op in plan.ops.iter_mut().filter(|op| is_undesired(op)) {
            let kind = match op.object.kind() {
                // A route would go with its nexthop object.
                Kind::Nexthop => Kind::Route,
                kind => kind,
            };
            if let Some(Held { deletes, most }) = self.held.get(&kind).copied() {
                op.hold.get_or_insert(Hold::TooManyDeletes { deletes, most });
            }
        }
    }
}

fn is_undesired(op: &Op) -> bool {
    op.action == Action::Delete && matches!(op.reason, Reason::Undesired | Reason::Orphan)
}

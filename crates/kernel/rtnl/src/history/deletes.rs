//! Deletes that wait: more of a kind than the limit allows, and deletes that would delete along an
//! object left alone for now.

use std::collections::BTreeMap;

use trueup_net::{
    Action, Desired, Dev, Hold, Kind, LinkKind, MaxDeletes, Object, Op, Plan, Prefix, Reason,
};

/// The deletes that exceed a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct DeleteLimit {
    /// The kinds whose deletes are held.
    held: BTreeMap<Kind, Held>,
    /// True during a pass whose deletes the caller has allowed.
    is_allowed: bool,
}

/// The deletes of a kind.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The number of deletes due.
    deletes: usize,
    /// The number allowed by the pass that held them first. Objects created since then do not raise
    /// it.
    most: usize,
}

impl DeleteLimit {
    pub(super) fn allow(&mut self, is_allowed: bool) {
        self.is_allowed = is_allowed;
    }

    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Holds the deletes above the limit. `outside` gives the deletes due of each kind beside the
    /// plan's.
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
            let ops = plan.ops.iter().filter(|op| op.object.kind() == kind);
            let deletes = ops.clone().filter(|op| is_undesired(op)).count()
                + outside.get(&kind).copied().unwrap_or_default();
            let most = match self.held.get(&kind) {
                Some(known) => known.most,
                None => {
                    let missing = ops.filter(|op| op.reason.is_missing()).count();
                    max_deletes.of(deletes + desired.count(kind).saturating_sub(missing))
                }
            };
            if deletes > most {
                self.held.insert(kind, Held { deletes, most });
            } else {
                self.held.remove(&kind);
            }
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

/// Holds the deletes that would delete along an object left alone.
pub(super) fn hold_collateral(plan: &mut Plan) {
    // By device, and for addresses also by subnet: they go with the first address of their subnet,
    // not with others.
    let mut spared: BTreeMap<(Dev, Option<Prefix>), Object> = BTreeMap::new();
    for op in &plan.ops {
        if let Some(Hold::Grace(_) | Hold::TooManyDeletes { .. }) = op.hold {
            let subnet = match &op.object {
                Object::Address(address) => Some(address.subnet()),
                _ => None,
            };
            let devices = op.object.devices().into_iter();
            spared.extend(devices.map(|dev| ((dev, subnet), op.object.clone())));
        }
    }
    if spared.is_empty() {
        return;
    }
    // Dependent objects are deleted first.
    for op in &mut plan.ops {
        if op.action != Action::Delete || op.hold.is_some() {
            continue;
        }
        let spares = match &op.object {
            Object::Link(link) => {
                let other = match &link.kind {
                    Some(LinkKind::Veth { peer: Some(peer), .. }) => plan.devices.dev(peer),
                    _ => None,
                };
                [Some(Dev::index(link.index)), other].into_iter().flatten().find_map(|dev| {
                    let ((on, _), object) = spared.range((dev, None)..).next()?;
                    (*on == dev).then_some(object)
                })
            }
            Object::Address(address) => {
                // No other address goes with a secondary.
                let subnet = (!address.secondary).then(|| address.subnet());
                spared
                    .get(&(address.dev, None))
                    .or_else(|| spared.get(&(address.dev, Some(subnet?))))
            }
            _ => None,
        };
        let Some(object) = spares.cloned() else {
            continue;
        };
        if let Object::Link(link) = &op.object {
            spared.extend(link.parents().map(|dev| ((*dev, None), object.clone())));
        }
        op.hold = Some(Hold::Collateral(Box::new(object)));
    }
}

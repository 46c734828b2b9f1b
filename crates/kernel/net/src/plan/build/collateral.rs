//! Holds ops that would delete other objects along.

use std::collections::BTreeSet;

use super::Findings;
use crate::collateral::{CollateralIndex, Effects, on_nexthops};
use crate::devices::Devices;
use crate::kinds::Action;
use crate::kinds::{Kind, Object, ObjectKind as _};
use crate::observed::Observed;
use crate::op::{Op, Reason};
use crate::plan::Notice;
use crate::proof::Proof;
use crate::values::Family;

/// Holds ops that would delete along foreign objects, or ours of an unmanaged kind. Resolving
/// already prevents the recreation of a link if that would cost another writer something.
pub(super) fn hold(found: &mut Findings, observed: &Observed, devices: &Devices, proof: Proof<'_>) {
    let takes_along = found.ops.iter().any(|op| match op.object.kind() {
        Kind::Link | Kind::Address => op.action != Action::Create,
        Kind::Nexthop => op.action == Action::Delete,
        _ => false,
    });
    if !takes_along {
        return;
    }
    // A restored object belongs to another writer again before anything is deleted.
    let restored = found.ops.iter().filter(|op| op.reason == Reason::Restored).map(|op| &op.object);
    let effects = Effects::new(observed).with_new_links(&found.ops, devices);
    let mut collateral = CollateralIndex::new(observed, effects, restored, proof);
    let may_go_along = &proof.policy.domain.may_go_along;
    let left = on_nexthops(observed, &found.ops, |protocol| !may_go_along.contains(&protocol));
    let left_along = on_nexthops(observed, &found.ops, |protocol| may_go_along.contains(&protocol));
    let mut deleted = Vec::new();
    let mut places = Vec::new();
    let mut holds = Vec::new();
    let mut notices = Vec::new();
    // The objects that such a change would delete along are not known.
    found.ops.retain(|op| {
        op.action != Action::Update
            || match &op.object {
                Object::Link(_) => {
                    observed.complete.contains(Kind::Link) || !collateral.has_effects(op)
                }
                Object::Address(address) => {
                    observed.complete.contains(Kind::Address) || address.family() == Family::Inet
                }
                _ => true,
            }
    });
    for (at, op) in found.ops.iter().enumerate() {
        match &op.object {
            Object::Link(_) => {
                if op.hold.is_some() {
                    continue;
                }
                let along: Vec<Object> = collateral.along(op).into_iter().cloned().collect();
                match collateral.carry_out(op) {
                    Some(hold) => holds.push((at, hold)),
                    None => notices.extend(along.into_iter().map(|it| goes_along(op, it))),
                }
            }
            Object::Address(_) if op.action == Action::Update => {
                if let Some(Object::Address(was)) = op.was().as_deref() {
                    let route = collateral.of_readdress(was);
                    holds.extend(route.map(|route| (at, route.clone().into())));
                }
            }
            _ if op.action != Action::Delete || op.hold.is_some() => {}
            Object::Address(address) => {
                deleted.push(address);
                places.push(at);
            }
            Object::Nexthop(nexthop) => {
                let along = left_along.get(&nexthop.id).cloned();
                match left.get(&nexthop.id) {
                    Some(user) => holds.push((at, user.clone().into())),
                    None => notices.extend(along.map(|user| goes_along(op, user))),
                }
            }
            _ => {}
        }
    }
    let going: BTreeSet<_> = deleted.iter().map(|address| address.key()).collect();
    let kept: Vec<_> =
        observed.addresses.iter().filter(|address| !going.contains(&address.key())).collect();
    let of_addresses = collateral.of_addresses(&deleted, &kept);
    let along = collateral
        .along_addresses(&deleted, &kept)
        .into_iter()
        .filter(|(at, _)| !of_addresses.contains_key(at));
    notices.extend(along.map(|(at, object)| goes_along(&found.ops[places[at]], object)));
    holds.extend(of_addresses.into_iter().map(|(at, object)| (places[at], object.into())));
    for (at, hold) in holds {
        found.ops[at].hold = Some(hold);
    }
    // Name an object once, even if it goes with several ops.
    let mut named = BTreeSet::new();
    notices.retain(|notice| match notice {
        Notice::GoesAlong { object, .. } => named.insert(object.key()),
        _ => true,
    });
    found.notices.extend(notices);
}

fn goes_along(op: &Op, object: Object) -> Notice {
    Notice::GoesAlong { with: Box::new(op.object.key()), object: Box::new(object) }
}

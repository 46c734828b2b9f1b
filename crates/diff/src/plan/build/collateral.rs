//! Holds ops over what they would take along.

use std::collections::BTreeSet;

use super::Findings;
use crate::collateral::{CollateralIndex, Effects, on_nexthops};
use crate::kinds::Action;
use crate::kinds::{Item as _, Kind, Object};
use crate::observed::Observed;
use crate::op::{Op, Reason};
use crate::ownership::Proof;
use crate::values::Family;

/// Holds the ops that would take along what is not ours, or what is ours and of an unmanaged kind.
/// A link is never recreated where that would cost another writer something: resolving sees to
/// that.
pub(super) fn hold(found: &mut Findings, observed: &Observed, proof: Proof<'_>) {
    let deletes = |op: &Op| op.action == Action::Delete;
    let takes_along = |op: &Op| match op.object.kind() {
        Kind::Link => op.action != Action::Create,
        Kind::Address => op.action != Action::Create,
        Kind::Nexthop => op.action == Action::Delete,
        _ => false,
    };
    if !found.ops.iter().any(takes_along) {
        return;
    }
    // What is restored belongs to another writer again before anything is taken down.
    let restored = found.ops.iter().filter(|op| op.reason == Reason::Restored);
    let restored = restored.map(|op| &op.object);
    let effects = Effects::new(observed).with(&found.ops);
    let collateral = CollateralIndex::new(observed, effects, restored, proof);
    let left = on_nexthops(observed, &found.ops);
    let mut deleted = Vec::new();
    let mut places = Vec::new();
    let mut holds = Vec::new();
    // What such a change would take along is not known.
    let has_unknown_effects = |op: &Op| match &op.object {
        Object::Link(_) => !observed.complete.contains(Kind::Link) && collateral.has_effects(op),
        Object::Address(address) => {
            !observed.complete.contains(Kind::Address) && address.family() == Family::Inet6
        }
        _ => false,
    };
    let is_known = |op: &Op| op.action != Action::Update || !has_unknown_effects(op);
    found.ops.retain(is_known);
    for (at, op) in found.ops.iter().enumerate() {
        match &op.object {
            Object::Link(_) => {
                holds.extend(collateral.of_op(op).map(|hold| (at, hold.clone())));
            }
            Object::Address(_) if op.action == Action::Update => {
                if let Some(Object::Address(was)) = op.was().as_deref() {
                    let route = collateral.of_readdress(was);
                    holds.extend(route.map(|route| (at, route.clone().into())));
                }
            }
            _ if !deletes(op) => {}
            Object::Address(address) => {
                deleted.push(address);
                places.push(at);
            }
            Object::Nexthop(nexthop) => {
                let user = left.get(&nexthop.id);
                holds.extend(user.map(|user| (at, user.clone().into())));
            }
            _ => {}
        }
    }
    let going: BTreeSet<_> = deleted.iter().map(|address| address.key()).collect();
    let kept: Vec<_> = observed
        .addresses
        .iter()
        .filter(|address| !going.contains(&address.key()))
        .collect();
    let of_addresses = collateral.of_addresses(&deleted, &kept);
    holds.extend(
        of_addresses
            .into_iter()
            .map(|(at, object)| (places[at], object.into())),
    );
    for (at, hold) in holds {
        found.ops[at].hold = Some(hold);
    }
}

//! Which op needs which of those before it.

use std::collections::BTreeSet;

use crate::kinds::{Action, AddressKey, Dependencies, Item as _, Object, Ordered, Provider, Route};
use crate::observed::Observed;
use crate::op::Op;
use crate::resolve::Resolved;
use crate::with_object;

/// Returns true if no op can need another, so that none has to be looked up. None is on a link or
/// an address then.
pub(super) fn are_free(ops: &[Op]) -> bool {
    let (mut makes, mut breaks) = (false, false);
    let is_free = |op: &Op| match (&op.object, op.action) {
        (Object::Route(_), Action::Delete) => {
            breaks = true;
            !makes
        }
        (Object::Route(route), _) => {
            makes = true;
            let hops = route.nexthops.as_slice();
            !breaks && hops.iter().all(|hop| hop.via.is_some())
        }
        (object, _) => with_object!(object, _it: K => K::IS_INDEPENDENT),
    };
    ops.iter().all(is_free)
}

/// Pairs of positions: the op at the first needs the op at the second, which comes before it.
pub(super) fn needs(ops: &[Op], desired: &Resolved, observed: &Observed) -> Vec<(u32, u32)> {
    let mut before = Dependencies::new(&desired.devices);
    let mut deleted: BTreeSet<AddressKey> = BTreeSet::new();
    for op in ops.iter().filter(|op| op.action == Action::Delete) {
        match &op.object {
            Object::Route(Route { table, dst, .. }) => {
                before.broken.insert((*table, *dst), None);
            }
            Object::Nexthop(nexthop) => drop(before.leaving.insert(nexthop.id, Vec::new())),
            Object::Address(address) => drop(deleted.insert(address.key())),
            _ => {}
        }
    }
    // What is there and stays comes first, so that no op waits for what is there.
    let stays = observed
        .addresses
        .iter()
        .filter(|address| !deleted.contains(&address.key()));
    for address in stays {
        address.provide_subnet(Provider::Present, &mut before);
    }
    let mut pairs = Vec::new();
    let mut needed = Vec::new();
    for (at, op) in (0..).zip(ops) {
        with_object!(&op.object, object: K => {
            object.needs(op.action, &mut before, &mut needed);
            needed.sort_unstable();
            needed.dedup();
            pairs.extend(needed.drain(..).map(|need| (at, need)));
            let was = op.was();
            let was = was.as_deref().and_then(|was| <&K>::try_from(was).ok());
            object.provide(op.action, was, at, &mut before);
        });
    }
    pairs
}

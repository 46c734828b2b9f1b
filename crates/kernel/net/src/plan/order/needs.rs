//! The needs of ops: earlier ops that must succeed first.

use std::collections::{BTreeMap, BTreeSet};

use crate::kinds::{
    Action, AddressKey, Dependencies, Link, LostRoutes, Object, ObjectKind as _, Ordered, Provider,
    Route,
};
use crate::observed::Observed;
use crate::op::{Hold, Op, Reason};
use crate::resolve::Resolved;
use crate::values::{Dev, IfName, LinkAddr};
use crate::with_object;

/// Returns true if no op can need another, so that none must be looked up. Then none is on a link
/// or an address.
pub(super) fn are_free(ops: &[Op]) -> bool {
    let (mut makes, mut breaks) = (false, false);
    ops.iter().all(|op| match (&op.object, op.action) {
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
    })
}

/// Returns pairs of positions: the op at the first needs the earlier op at the second.
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
    // Existing objects come first if they stay, so that no op waits for them.
    let stays = observed
        .addresses
        .iter()
        .filter(|address| address.lost == LostRoutes::None)
        .filter(|address| !deleted.contains(&address.key()));
    for address in stays {
        address.provide_subnet(Provider::Present, &mut before);
    }
    let mut pairs = Vec::new();
    let mut needed = Vec::new();
    let mut steps = Steps::of(ops);
    for (at, op) in (0..).zip(ops) {
        if let Some(completing) = steps.note(at, op, &mut needed) {
            completing.needs(Action::Update, &mut before, &mut needed);
        }
        with_object!(&op.object, object: K => {
            object.needs(op.action, &mut before, &mut needed);
            needed.sort_unstable();
            needed.dedup();
            pairs.extend(needed.drain(..).map(|need| (at, need)));
            // An op held for one next hop only completes an object that another op makes.
            if matches!(op.hold, Some(Hold::NextHop(_))) {
                continue;
            }
            let was = op.was();
            let former = was.as_deref().and_then(|was| <&K>::try_from(was).ok());
            object.provide(op.action, former, at, &mut before);
        });
    }
    pairs
}

/// The steps towards the desired state of links.
#[derive(Default)]
struct Steps<'a> {
    /// The updates that complete them, by link name.
    completing: BTreeMap<IfName, &'a Link>,
    /// The positions of the steps so far, by link name.
    taken: BTreeMap<IfName, Vec<u32>>,
    /// The steps that take an address from a link for another one.
    addresses: BTreeMap<(Dev, LinkAddr), u32>,
}

impl<'a> Steps<'a> {
    fn of(ops: &'a [Op]) -> Steps<'a> {
        if !ops.iter().any(|op| op.reason == Reason::Step) {
            return Steps::default();
        }
        let links = ops
            .iter()
            .filter(|op| op.action == Action::Update && op.reason != Reason::Step)
            .filter_map(|op| match &op.object {
                Object::Link(link) => Some((link.name, &**link)),
                _ => None,
            });
        Steps { completing: links.collect(), ..Steps::default() }
    }

    /// Adds the steps that an op needs. If the op is a step itself, returns the link as the
    /// completing update leaves it, whose needs it shares.
    fn note(&mut self, at: u32, op: &Op, needed: &mut Vec<u32>) -> Option<&'a Link> {
        let Object::Link(link) = &op.object else {
            return None;
        };
        if self.completing.is_empty() {
            return None;
        }
        if op.reason != Reason::Step {
            needed.extend(self.taken.get(&link.name).into_iter().flatten());
            let address = link.unique_address().filter(|_| op.action != Action::Delete);
            needed.extend(address.and_then(|address| self.addresses.get(&address)));
            return None;
        }
        self.taken.entry(link.name).or_default().push(at);
        if let Some(Object::Link(was)) = op.was().as_deref()
            && was.address != link.address
        {
            self.addresses.extend(was.unique_address().map(|address| (address, at)));
        }
        self.completing.get(&link.name).copied()
    }
}

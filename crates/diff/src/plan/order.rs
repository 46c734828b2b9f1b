//! The order of ops, and which needs which.
//!
//! What is built comes before what rests on it: links, parents first, then addresses, neighbours,
//! routes on the link, nexthop objects, all other routes. What is taken down goes the other way, and after
//! everything that is built: make before break. The exceptions are what has to make room first:
//! objects that are recreated, links that hold what a new one needs, and IPv4 addresses in whose
//! subnet a new one comes (deleting the first of a subnet takes the others along).
//!
//! So that a packet led into a table that is half there finds its final answer or none, and never a
//! coarser one, the longest prefixes come first and go last. Those of one length cover no address
//! together: among them the order is free, and is the one that costs the kernel least
//! ([`arranging`]).
//!
//! Rules need no table to be there, and go where they cost the kernel least. For each IPv6 rule it
//! walks all IPv6 routes (`fib_newrule`, `__fib6_clean_all`), so those of IPv6 come before the routes
//! and go after them. For each gateway of an IPv4 route it walks all IPv4 rules (`fib_check_nh`), so
//! those of IPv4 come after the routes and go before them. A link comes up after its IPv6 addresses,
//! where that makes no difference but in cost ([`raising`]).

mod arranging;
mod clearing;
mod depths;
mod needs;
mod raising;

use self::clearing::Clearing;
use self::depths::depths;
use self::needs::Needs;
use self::raising::Raising;
use crate::error::DesiredError;
use crate::kinds::{Kind, Object, Route};
use crate::observed::Observed;
use crate::op::{Action, Op};
use crate::plan::Plan;
use crate::plan::build::Findings;
use crate::resolve::Resolved;
use crate::values::Family;

/// The stages of a plan, in order. Within one, links go by their place among all links, the rest
/// by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    ClearRoutes,
    ClearNeighbours,
    ClearAddresses,
    ClearLinks,
    Links,
    Addresses,
    Raises,
    Neighbours,
    ClearRules,
    Rules6,
    DeviceRoutes,
    Nexthops,
    Routes,
    Rules4,
    DropRules4,
    DropRoutes,
    DropNexthops,
    DropDeviceRoutes,
    DropRules6,
    DropNeighbours,
    DropAddresses,
    DropLinks,
}

/// Within a stage there are so many bits of places, of which rules need the most: 32 of a priority, and 8.
const STAGE_BITS: u32 = 48;

pub(crate) fn arrange(
    found: Findings,
    desired: &Resolved,
    observed: &Observed,
) -> Result<Plan, DesiredError> {
    let Findings {
        mut ops,
        conflicts,
        shared,
        adopted,
    } = found;
    let depth = depths(desired, observed)?;
    // A plan may be of a million routes: what it cannot have is not looked for in it.
    let free = needs::are_free(&ops);
    let (clearing, raising) = if free {
        Default::default()
    } else {
        (Clearing::of(&ops), Raising::of(&ops, desired))
    };
    let place = |op: &Op, stage: Stage| -> i64 {
        match (&op.object, stage) {
            (Object::Link(link), Stage::Links | Stage::Raises) => {
                depth.desired.get(&link.name).copied().unwrap_or(0)
            }
            (Object::Link(link), _) => -depth.observed.get(&link.index).copied().unwrap_or(0),
            // Searching its list, the kernel takes what a rule does not select by for a wildcard:
            // those with the fewest selectors come first and go last. Rules of low priority come
            // first and go last too, which costs the kernel the shortest walks.
            (Object::Rule(rule), Stage::Rules4 | Stage::Rules6) => {
                i64::from(rule.selectors().count()) - (i64::from(rule.priority) << 8)
            }
            (Object::Rule(rule), _) => {
                (i64::from(rule.priority) << 8) - i64::from(rule.selectors().count())
            }
            (Object::Route(route), Stage::DeviceRoutes | Stage::Routes) => -length(route),
            (Object::Route(route), _) => length(route),
            // Groups come after what they lead to, and go before it.
            (Object::Nexthop(nexthop), stage) => {
                let group = i64::from(nexthop.members().next().is_some());
                if stage == Stage::Nexthops {
                    group
                } else {
                    -group
                }
            }
            _ => 0,
        }
    };
    arranging::arrange(&mut ops, |op| {
        let stage = match clearing.stage(op) {
            Stage::Links if raising.is_late(op, desired) => Stage::Raises,
            stage => stage,
        };
        let middle = 1 << (STAGE_BITS - 1);
        ((stage as u64) << STAGE_BITS) + place(op, stage).saturating_add(middle) as u64
    });
    let needs = if free {
        Vec::new()
    } else {
        Needs::of(&ops, desired, observed)
    };
    let deletes_links = |op: &Op| op.action == Action::Delete && op.object.kind() == Kind::Link;
    let groups = match !free && ops.iter().any(deletes_links) {
        true => observed
            .links
            .iter()
            .filter_map(|link| link.group)
            .collect(),
        false => Default::default(),
    };
    Ok(Plan {
        ops,
        conflicts,
        adopted,
        devices: desired.devices.clone(),
        unstored: desired.policy.unstored,
        needs,
        groups,
        append_then_delete: false,
        shared,
    })
}

/// Orders routes by the length of their prefix, and those of one length by family.
fn length(route: &Route) -> i64 {
    let is_v6 = route.family() == Family::Inet6;
    i64::from(route.dst.len()) * 2 + i64::from(is_v6)
}

/// Whether a route leads straight out of a device, so that gateways may be reachable by it.
fn is_on_device(route: &Route) -> bool {
    let hops = route.nexthops.as_slice();
    !hops.is_empty() && hops.iter().all(|hop| hop.via.is_none())
}

//! The order of ops, and which needs which.
//!
//! What is built comes before what rests on it: links, parents first, then addresses, neighbours,
//! routes on the link, nexthop objects, all other routes. What is taken down goes the other way,
//! and after everything that is built: make before break. The exceptions are what has to make room
//! first: objects that are recreated, links that hold what a new one needs, IPv4 addresses in whose
//! subnet a new one comes (deleting the first of a subnet takes the others along), and addresses
//! whose deletes would take along a route that is made: the last ones of a device, and sources.
//!
//! So that a packet led into a table that is half there finds its final answer or none, and never a
//! coarser one, the longest prefixes come first and go last. Those of one length cover no address
//! together: among them the order is free, and is the one that costs the kernel least
//! ([`arranging`]).
//!
//! Rules need no table to be there, and go where they cost the kernel least. For each IPv6 rule it
//! walks all IPv6 routes (`fib_newrule`, `__fib6_clean_all`), so those of IPv6 come before the
//! routes and go after them. For each gateway of an IPv4 route it walks all IPv4 rules
//! (`fib_check_nh`), so those of IPv4 come after the routes and go before them. A link comes up
//! after its IPv6 addresses, where that makes no difference but in cost ([`raising`]).

use std::collections::{BTreeMap, BTreeSet};

use self::raising::Raising;
use crate::devices::Problem;
use crate::error::DesiredError;
use crate::kinds::{Action, Depths, Kind, Ordered as _, Stage};
use crate::observed::Observed;
use crate::op::Reason;
use crate::plan::Plan;
use crate::plan::build::{Findings, makers};
use crate::resolve::Resolved;
use crate::values::IfName;
use crate::with_object;

mod arranging;
mod clearing;
mod needs;
mod raising;

/// Within a stage there are so many bits of places, of which rules need the most: 32 of a priority,
/// and 8.
const STAGE_BITS: u32 = 48;

pub(crate) fn arrange(
    found: Findings,
    desired: &Resolved,
    observed: &Observed,
) -> Result<Plan, DesiredError> {
    let Findings { mut ops, conflicts, shared, adopted, notices, .. } = found;
    let depth = depths(desired, observed)?;
    // A plan may be of a million routes: what it cannot have is not looked for in it.
    let free = needs::are_free(&ops);
    let (cleared, raising) = if free {
        Default::default()
    } else {
        (clearing::cleared(&ops, observed), Raising::of(&ops, desired))
    };
    arranging::arrange(&mut ops, |op| {
        let anew = matches!(op.reason, Reason::Recreated | Reason::Restored);
        let (stage, rank) = with_object!(&op.object, object => {
            let stage = match object.stage(op.action, anew, &cleared) {
                Stage::Links if clearing::leaves_address(op) => Stage::ClearLinks,
                Stage::Links if raising.is_late(op, desired) => Stage::Raises,
                stage => stage,
            };
            (stage, object.rank(stage, &depth))
        });
        let middle = 1 << (STAGE_BITS - 1);
        ((stage as u64) << STAGE_BITS) + rank.saturating_add(middle) as u64
    });
    let needs = if free { Vec::new() } else { needs::needs(&ops, desired, observed) };
    let groups = if !free
        && ops.iter().any(|op| op.action == Action::Delete && op.object.kind() == Kind::Link)
    {
        observed.links.iter().filter_map(|link| link.group).collect()
    } else {
        Default::default()
    };
    Ok(Plan {
        ops,
        conflicts,
        adopted,
        notices,
        devices: desired.devices.clone(),
        unstored: desired.policy.unstored,
        needs,
        groups,
        append_then_delete: false,
        shared,
    })
}

/// Finds how deep each link stands on others.
fn depths(desired: &Resolved, observed: &Observed) -> Result<Depths, DesiredError> {
    let links = desired.links.as_deref().unwrap_or_default();
    let makers = makers(links);
    let mut parents: BTreeMap<IfName, Vec<IfName>> = links
        .iter()
        .map(|link| {
            let named = link.parents().filter_map(|dev| desired.devices.name(*dev));
            (link.name, named.chain(makers.get(&link.name)).copied().collect())
        })
        .collect();
    // An end that is not declared comes with its maker all the same.
    for (end, maker) in &makers {
        parents.entry(*end).or_insert_with(|| vec![*maker]);
    }
    let (desired_depths, circle) = walk(&parents);
    let mut circle =
        circle.iter().filter_map(|name| links.iter().position(|link| link.name == *name));
    if let Some(index) = circle.next() {
        let others = circle.collect();
        return Err(DesiredError::new(Kind::Link, index, Problem::Cycle(others)));
    }
    let parents: BTreeMap<u32, Vec<u32>> = observed
        .links
        .iter()
        .map(|link| (link.index, link.parents().filter_map(|dev| dev.as_index()).collect()))
        .collect();
    // What the kernel reports is no circle, but for one through another namespace, where an index
    // means another device.
    Ok(Depths { desired: desired_depths, observed: walk(&parents).0 })
}

/// The depth of each node over its parents, and the nodes of a circle, each below the one before
/// it, if there is one.
fn walk<K: Ord + Copy>(parents: &BTreeMap<K, Vec<K>>) -> (BTreeMap<K, i64>, Vec<K>) {
    let mut depth: BTreeMap<K, i64> = BTreeMap::new();
    // From a start down to the current node.
    let mut path = Vec::new();
    let mut open = BTreeSet::new();
    let mut circle = Vec::new();
    for start in parents.keys() {
        let mut stack = vec![(*start, false)];
        while let Some((node, left)) = stack.pop() {
            let own = parents.get(&node).map(Vec::as_slice).unwrap_or_default();
            if left {
                let above = own.iter().filter_map(|parent| depth.get(parent)).max();
                depth.insert(node, above.map_or(0, |depth| depth + 1));
                open.remove(&node);
                path.pop();
            } else if !depth.contains_key(&node) {
                if !open.insert(node) {
                    if circle.is_empty() {
                        circle.extend(path.iter().copied().skip_while(|above| *above != node));
                    }
                    continue;
                }
                path.push(node);
                stack.push((node, true));
                stack.extend(own.iter().filter(|p| !depth.contains_key(p)).map(|p| (*p, false)));
            }
        }
    }
    (depth, circle)
}

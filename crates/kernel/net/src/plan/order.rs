//! The order of ops, and their needs.
//!
//! Objects are built from the ground up: links, parents first, then addresses, neighbours, routes
//! on the link, nexthop objects, all other routes. They are deleted in the opposite order, after
//! everything is built: make before break. Some objects must go first:
//!
//! - objects that are recreated,
//! - links that hold something a new one needs,
//! - IPv4 addresses in whose subnet a new one comes, since deleting a subnet's first address
//!   deletes the others along,
//! - addresses whose deletes would remove a new route: a device's last ones, and sources.
//!
//! The longest prefixes are created first and deleted last. So a packet in a half-filled table
//! finds its final answer or none, never a coarser one. Routes with the same prefix length never
//! cover the same address. So their order is free, and chosen for least cost in the kernel
//! ([`arranging`]).
//!
//! Rules need no table to exist, and are placed for least cost. For each IPv6 rule the kernel walks
//! all IPv6 routes (`fib_newrule`, `__fib6_clean_all`), so IPv6 rules are created before the routes
//! and deleted after them. For each gateway of an IPv4 route it walks all IPv4 rules
//! (`fib_check_nh`), so IPv4 rules are created after the routes and deleted before them. A link
//! comes up after its IPv6 addresses if that changes only the cost ([`raising`]).

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

/// Bits for the place within a stage. Rules need the most: 32 for a priority, and 8.
const STAGE_BITS: u32 = 48;

pub(crate) fn arrange(
    found: Findings,
    desired: &Resolved,
    observed: &Observed,
) -> Result<Plan, DesiredError> {
    let Findings { mut ops, conflicts, shared, adopted, notices, .. } = found;
    let depth = depths(desired, observed)?;
    // A plan may have a million routes: skip the searches that cannot find anything.
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

/// Returns each link's depth in its stack.
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
    // Even an undeclared end comes with its maker.
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
    // The kernel reports no cycle, except one through another namespace, whose indexes mean other
    // devices.
    Ok(Depths { desired: desired_depths, observed: walk(&parents).0 })
}

/// Returns each node's depth over its parents. If there is a cycle, also returns its nodes, each
/// below the one before it.
fn walk<K: Ord + Copy>(parents: &BTreeMap<K, Vec<K>>) -> (BTreeMap<K, i64>, Vec<K>) {
    let mut depth: BTreeMap<K, i64> = BTreeMap::new();
    // The path from the start to the current node.
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

//! How deep each link stands on others: what is below comes first and goes last.

use std::collections::{BTreeMap, BTreeSet};

use crate::devices::Problem;
use crate::error::DesiredError;
use crate::kinds::{Depths, Kind};
use crate::observed::Observed;
use crate::plan::build::makers;
use crate::resolve::Resolved;
use crate::values::IfName;

/// Finds how deep each link stands on others.
pub(super) fn depths(desired: &Resolved, observed: &Observed) -> Result<Depths, DesiredError> {
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

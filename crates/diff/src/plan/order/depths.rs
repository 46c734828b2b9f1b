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
            (
                link.name,
                named.chain(makers.get(&link.name)).copied().collect(),
            )
        })
        .collect();
    // An end that is not declared comes with its maker all the same.
    for (end, maker) in &makers {
        parents.entry(*end).or_insert_with(|| vec![*maker]);
    }
    let (desired_depths, cycle) = walk(&parents);
    if let Some(name) = cycle {
        let index = links.iter().position(|link| link.name == name).unwrap_or(0);
        return Err(DesiredError::new(Kind::Link, index, Problem::Cycle));
    }
    let parents: BTreeMap<u32, Vec<u32>> = observed
        .links
        .iter()
        .map(|link| {
            (
                link.index,
                link.parents().filter_map(|dev| dev.as_index()).collect(),
            )
        })
        .collect();
    // What the kernel reports is no circle, but for one through another namespace, where an index
    // means another device.
    Ok(Depths {
        desired: desired_depths,
        observed: walk(&parents).0,
    })
}

/// The depth of each node over its parents, and a node that stands on itself, if there is one.
fn walk<K: Ord + Copy>(parents: &BTreeMap<K, Vec<K>>) -> (BTreeMap<K, i64>, Option<K>) {
    let mut depth: BTreeMap<K, i64> = BTreeMap::new();
    let mut open = BTreeSet::new();
    let mut cycle = None;
    for start in parents.keys() {
        let mut stack = vec![(*start, false)];
        while let Some((node, left)) = stack.pop() {
            let own = parents.get(&node).map(Vec::as_slice).unwrap_or_default();
            if left {
                let above = own.iter().filter_map(|parent| depth.get(parent)).max();
                depth.insert(node, above.map_or(0, |depth| depth + 1));
                open.remove(&node);
            } else if !depth.contains_key(&node) {
                if !open.insert(node) {
                    cycle.get_or_insert(node);
                    continue;
                }
                stack.push((node, true));
                stack.extend(
                    own.iter()
                        .filter(|p| !depth.contains_key(p))
                        .map(|p| (*p, false)),
                );
            }
        }
    }
    (depth, cycle)
}

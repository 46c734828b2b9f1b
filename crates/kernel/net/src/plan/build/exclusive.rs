//! Links that must have the declared addresses and no others.

use std::collections::{BTreeMap, BTreeSet};

use super::{ConflictPolicy, Findings};
use crate::kinds::{Action, Address, Kind, ObjectKey, ObjectKind as _};
use crate::observed::Observed;
use crate::op::{Hold, Reason};
use crate::values::{Dev, IfName};

/// Finds other writers' addresses on such links. Deletes them if the link is adopted, else holds
/// the deletes.
pub(super) fn find(found: &mut Findings, observed: &Observed, policy: ConflictPolicy<'_>) {
    let (desired, proof) = (policy.desired, policy.proof);
    let links: BTreeMap<Dev, IfName> = desired
        .links
        .iter()
        .flatten()
        .filter(|link| link.only_addresses)
        .filter_map(|link| Some((desired.devices.dev(&link.name)?, link.name)))
        .collect();
    let is_complete = [Kind::Address, Kind::Link].iter().all(|it| policy.complete.contains(*it));
    if links.is_empty() || !is_complete {
        return;
    }
    let declared: BTreeSet<_> = desired.addresses.iter().flatten().map(Address::key).collect();
    let mut others: Vec<(&Address, &IfName)> = observed
        .addresses
        .iter()
        .filter(|address| !declared.contains(&address.key()) && !proof.is_ours(*address))
        .filter(|address| !address.is_kernels_own(proof.policy.unstored))
        .filter_map(|address| Some((address, links.get(&address.dev)?)))
        .collect();
    others.sort_by_key(|(address, _)| address.key());
    for (address, link) in others {
        let adopts = proof.policy.adopt || desired.adopt.contains(&ObjectKey::Link(*link));
        let op = found.op(Action::Delete, address.clone().into(), Reason::Excluded);
        if !proof.domain.contains(address) {
            op.hold = Some(Hold::OutsideDomain);
        } else if !adopts || !proof.policy.may_adopt(address.protocol) {
            op.hold = Some(Hold::Foreign);
        }
    }
}

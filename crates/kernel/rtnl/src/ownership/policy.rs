//! What proves objects to be ours in a namespace: what its kernel stores, and what the caller asks.

use std::sync::Arc;

use trueup_net::{Kind, Kinds, Policy};
use trueup_netlink::{Marker, Markers};

use crate::{Error, OnConflict, Options, Ownership};

/// Returns what proves objects to be ours on a kernel that stores these markers.
pub(crate) fn policy(markers: Option<Markers>, options: &Options) -> Result<Policy, Error> {
    let mut unstored = Kinds::NONE;
    if let Some(markers) = markers {
        let stored = [
            (Kind::Address, markers.address),
            (Kind::Neighbour, markers.neighbour),
            (Kind::Rule, markers.rule),
        ];
        // Where it could not be found out, there is no rule whose marker could be missing.
        let not = stored.iter().filter(|(_, marker)| *marker == Marker::NotKept);
        unstored = not.map(|(kind, _)| *kind).collect();
    }
    let mut by_ledger = unstored;
    // Of nexthop objects it is the marker: every kernel that has them keeps it.
    for kind in Kind::DECLARED {
        match options.ownership(kind) {
            Some(Ownership::Ledger) => by_ledger = by_ledger.with(kind),
            Some(Ownership::Marker) if unstored.contains(kind) || kind == Kind::Link => {
                return Err(Error::unmarked(kind));
            }
            Some(Ownership::Marker) | None => {}
        }
    }
    Ok(Policy::from(options.protocol())
        .with_by_ledger(by_ledger)
        .with_unstored(unstored)
        .with_adopt(options.adopt())
        .with_adopt_protocols(options.adopt_protocols())
        .with_take(options.on_conflict() == OnConflict::Take)
        .with_domain(Arc::clone(options.domain()))
        .with_strict(options.strict()))
}

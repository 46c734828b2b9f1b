//! The scope of a pass over what is dirty: the addresses and neighbours of a device, the rules of a
//! family, the routes of a table or a family, and the links always.

use std::collections::BTreeSet;

use trueup_net::{Desired, Family, Kind, Kinds};
use trueup_observe::ReadScope;

use super::everything;
use crate::dirty_part::DirtyPart;

/// A dirty part of a namespace, and what is desired in it.
#[derive(Clone, Debug)]
pub(crate) struct DirtyKeys {
    pub(super) part: DirtyPart,
    pub(super) desired: Desired,
}

impl DirtyKeys {
    pub(super) fn new(part: DirtyPart, desired: &Desired) -> DirtyKeys {
        DirtyKeys { desired: part.narrow(desired), part }
    }

    /// All that is dirty but routes.
    pub(super) fn read_scope(&self, managed: Kinds) -> ReadScope {
        let part = &self.part;
        let on_devices = [Kind::Address, Kind::Neighbour].into_iter();
        let mut kinds: Kinds =
            on_devices.filter(|kind| managed.contains(*kind) && !part.devices.is_empty()).collect();
        if managed.contains(Kind::Rule) && !part.rules.is_empty() {
            kinds = kinds.with(Kind::Rule);
        }
        let only = (part.rules.len() == 1).then(|| part.rules.first().copied());
        ReadScope::default()
            .with_kinds(kinds)
            .with_devices(part.devices.keys().copied().collect::<BTreeSet<_>>())
            .with_family(only.flatten())
    }

    /// The dirty routes that bear the marker, by family.
    pub(super) fn route_scopes(&self, marker: u8) -> Vec<ReadScope> {
        let of = |family: Family| {
            let tables = self.part.tables.iter().filter(|(of, _)| *of == family);
            let tables: BTreeSet<u32> = tables.map(|(_, table)| *table).collect();
            let all = self.part.routes.contains(&family);
            (all || !tables.is_empty()).then(|| {
                everything::route_scope(marker)
                    .with_tables((!all).then_some(tables))
                    .with_family(family)
            })
        };
        let families = [Family::Inet, Family::Inet6].into_iter();
        families.filter_map(of).collect()
    }
}

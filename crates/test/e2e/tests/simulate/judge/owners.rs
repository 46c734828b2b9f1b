//! Invariant 1: an object belongs to the writer whose message made it, and no message of the agent
//! may change or lose another writer's object.
//!
//! For some messages the kernel has no guard: a replace ignores the owner of the replaced object.
//! So another writer's write after the agent's last read of the kind may be lost, and only that.

use std::collections::{BTreeMap, BTreeSet};

use trueup_testkit::{Kind, RawMessage};

use crate::script::Setup;
use crate::writers::OURS;
use trueup_e2e::world::{Id, Place, World as Rows};

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const RTA_NH_ID: u16 = 30;

/// Returns true for a nexthop object that no route and no group uses, and whose device is deleted:
/// it does not block the device's deletion.
fn goes_with_its_device(row: &RawMessage, before: &Rows, after: &Rows) -> bool {
    let is_gone = row.devices().iter().all(|dev| !after.names.contains_key(dev));
    let Some(id) = row.attr_u32(NHA_ID).filter(|_| row.kind == Kind::Nexthop && is_gone) else {
        return false;
    };
    let uses = |other: &RawMessage| match other.kind {
        Kind::Route => other.attr_u32(RTA_NH_ID) == Some(id),
        Kind::Nexthop => {
            let group = other.attrs.get(&NHA_GROUP).map_or(&[][..], Vec::as_slice);
            group.chunks(8).any(|member| member.starts_with(&id.to_ne_bytes()))
        }
        _ => false,
    };
    !before.rows.values().flatten().any(uses)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Ours,
    /// Another writer's, who last changed it in this step.
    Foreign(u64),
    /// Unknown: another writer has recreated our object, and no marker tells the two apart.
    Open,
}

pub(super) struct Owners {
    setup: Setup,
    owners: BTreeMap<Id, Owner>,
    /// The keys on which we had objects.
    once_ours: BTreeSet<Place>,
}

impl Owners {
    pub(super) fn new(setup: &Setup) -> Owners {
        Owners { setup: *setup, owners: BTreeMap::new(), once_ours: BTreeSet::new() }
    }

    pub(super) fn clear(&mut self) {
        self.owners.clear();
        self.once_ours.clear();
    }

    fn is_by_marker(&self, kind: Kind) -> bool {
        match kind {
            Kind::Link => false,
            Kind::Nexthop => true,
            Kind::Route => !self.setup.by_ledger,
            _ => !self.setup.by_ledger && !self.setup.is_masked,
        }
    }

    pub(super) fn is_ours(&self, id: &Id) -> bool {
        self.owners.get(id) == Some(&Owner::Ours)
    }

    pub(super) fn lines_of_ours(&self, rows: &Rows) -> String {
        let ours = rows.rows.iter().filter(|(id, _)| self.is_ours(id));
        let lines = ours.flat_map(|(_, all)| all);
        lines.map(|row| rows.line(row) + "\n").collect()
    }

    pub(super) fn writer_acted(&mut self, before: &Rows, after: &Rows, step: u64) {
        for (id, rows) in after.declared() {
            let by_marker = self.is_by_marker(id.kind);
            let bears_marker = by_marker && id.protocol == OURS;
            let is_inside = self.setup.is_in_domain(&rows[0], after);
            let may_be_ours = bears_marker || self.is_ours(id);
            let has_moved = |former: &[RawMessage]| {
                may_be_ours && self.setup.is_in_domain(&former[0], before) != is_inside
            };
            let owner = match before.rows.get(id) {
                Some(former) if has_moved(former) => Owner::Open,
                Some(former) if former == rows => continue,
                Some(_) => match self.owners.get(id) {
                    Some(Owner::Foreign(_)) | None => Owner::Foreign(step),
                    Some(_) if is_renamed(id, before, after) => Owner::Open,
                    Some(_) if !by_marker && id.kind != Kind::Link => Owner::Open,
                    Some(owner) => *owner,
                },
                None if bears_marker && is_inside => Owner::Ours,
                None if !by_marker && self.once_ours.contains(&id.place()) => Owner::Open,
                None => Owner::Foreign(step),
            };
            self.owners.insert(id.clone(), owner);
        }
        self.owners.retain(|id, _| after.rows.contains_key(id));
    }

    /// Attributes the agent's changes. `read_at` returns the step in which the agent last read the
    /// rows around a row.
    pub(super) fn agent_changed(
        &mut self,
        before: &Rows,
        after: &Rows,
        read_at: impl Fn(&RawMessage) -> u64,
    ) -> Result<(), String> {
        let mut wrong = String::new();
        for (id, rows) in before.declared() {
            let Some(Owner::Foreign(since)) = self.owners.get(id) else {
                continue;
            };
            if after.rows.get(id) == Some(rows) || before.kept_of(id) == after.kept_of(id) {
                continue;
            }
            if *since > read_at(&rows[0]) || goes_with_its_device(&rows[0], before, after) {
                continue;
            }
            let was = rows.iter().map(|row| format!("was {}\n", before.line(row)));
            wrong.extend(was);
            for row in after.rows.get(id).into_iter().flatten() {
                wrong += &format!("is  {}\n", after.line(row));
            }
        }
        for (id, _) in after.declared() {
            if !before.rows.contains_key(id) {
                self.owners.insert(id.clone(), Owner::Ours);
                self.once_ours.insert(id.place());
            }
        }
        self.owners.retain(|id, _| after.rows.contains_key(id));
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("another writer's object was touched:\n{wrong}")),
        }
    }
}

fn is_renamed(id: &Id, before: &Rows, after: &Rows) -> bool {
    id.device != 0 && before.names.get(&id.device) != after.names.get(&id.device)
}

//! The other writer's objects that we overrode, and must restore.

use std::collections::{BTreeMap, BTreeSet};

use trueup_e2e::world::{Id, Place, World};
use trueup_net::Desired;
use trueup_testkit::fields::OURS;
use trueup_testkit::{Kind, RawMessage, running_version};

/// The row before we overrode it, by key. For a link, which stays the other writer's with other
/// properties, the parts to keep.
#[derive(Default)]
pub(crate) struct Taken(BTreeMap<Place, Former>);

struct Former {
    id: Id,
    kept: Vec<(String, Option<RawMessage>)>,
    /// For a link: true if the other writer touched it meanwhile, so its wanted state is unknown.
    touched: bool,
}

impl Former {
    fn new(id: &Id, before: &World) -> Former {
        Former { id: id.clone(), kept: before.kept_of(id), touched: false }
    }

    /// Returns the devices that the object is on, or leads out of.
    fn devices(&self) -> BTreeSet<u32> {
        let rows = self.kept.iter().filter_map(|(_, row)| row.as_ref());
        let devices = rows.flat_map(RawMessage::devices).chain([self.id.device]);
        devices.filter(|device| *device != 0).collect()
    }
}

/// Returns true if a replaced object keeps its marker. IPv4 addresses do before Linux 6.12: an
/// overridden one still has the other writer's.
pub(crate) fn keeps_its_mark(id: &Id) -> bool {
    id.kind == Kind::Address && id.key.first() == Some(&2) && running_version() < (6, 12)
}

impl Taken {
    /// Returns true if a pass may have changed the other writer's row: it wrote a desired object
    /// over it.
    pub(crate) fn permits(
        &mut self,
        id: &Id,
        before: &World,
        after: &World,
        desired: &Desired,
    ) -> bool {
        let place = id.place();
        if keeps_its_mark(id) && after.rows.contains_key(id) {
            let former = self.0.get(&place);
            if former.is_some_and(|former| former.kept == after.kept_of(&former.id)) {
                self.0.remove(&place);
            } else if former.is_none() {
                self.0.insert(place, Former::new(id, before));
            }
            return true;
        }
        if id.kind != Kind::Link {
            let ours = |other: &Id| other.protocol == OURS && other.place() == place;
            let permitted = !after.rows.contains_key(id) && after.rows.keys().any(ours);
            if permitted {
                self.0.insert(place, Former::new(id, before));
            }
            return permitted;
        }
        let link = before.link(id.device);
        let Some((name, _)) = &link else {
            return false;
        };
        let mut names = desired.links.iter().flatten().map(|link| link.name.to_string());
        let known = self.0.contains_key(&place);
        if link != after.link(id.device) || !(known || names.any(|other| other == *name)) {
            return false;
        }
        let former = self.0.entry(place.clone());
        let former = former.or_insert_with(|| Former::new(id, before));
        if former.kept == after.kept_of(&former.id) {
            self.0.remove(&place);
        }
        true
    }

    /// Forgets objects that cannot be restored: a device that they are on or lead out of is gone or
    /// was recreated.
    pub(crate) fn forget_stranded(&mut self, after: &World) {
        self.0.retain(|_, former| {
            let devices = former.devices();
            devices.iter().all(|device| after.names.contains_key(device))
        });
    }

    pub(crate) fn holds(&self, id: &Id) -> bool {
        self.0.contains_key(&id.place())
    }

    /// Returns true if a new row is the one overridden there.
    pub(crate) fn gives_back(&mut self, id: &Id, after: &World) -> bool {
        let place = id.place();
        let back = |former: &Former| former.id == *id && former.kept == after.kept_of(id);
        let given = self.0.get(&place).is_some_and(back);
        if given {
            self.0.remove(&place);
        }
        given
    }

    /// Forgets objects touched by the other writer meanwhile, and objects on links that it renamed
    /// or replaced: they need no restoration. A restoration is permitted where we cannot tell: a
    /// link with other properties is the same link, and a neighbour replaced without a protocol
    /// still has our marker.
    pub(crate) fn invaded(&mut self, before: &World, after: &World) {
        self.0.retain(|place, former| {
            let is_replaced = |device: &u32| before.link(*device) != after.link(*device);
            if former.id.kind != Kind::Link && former.devices().iter().any(is_replaced) {
                return false;
            }
            let touched = before.at(place) != after.at(place);
            former.touched |= touched;
            let looks_ours = match former.id.kind {
                Kind::Link => after.rows.contains_key(&former.id),
                _ => {
                    let is_ours = |id: &Id| id.protocol == OURS && id.place() == *place;
                    after.rows.keys().any(is_ours)
                }
            };
            !touched || looks_ours
        });
    }

    /// Returns the objects not restored yet, one a line.
    pub(crate) fn lines(&self) -> String {
        let due = self.0.values().filter(|former| !former.touched);
        due.map(|former| format!("{:?}\n", former.kept)).collect()
    }
}

//! What was taken from the other writer, and is to be restored to him.

use std::collections::{BTreeMap, BTreeSet};

use trueup_e2e::world::{Id, Place, World};
use trueup_net::Desired;
use trueup_testkit::fields::OURS;
use trueup_testkit::{Kind, RawMessage, running_version};

/// By place, what was there before we took it. Of a link, which stays his and is set up otherwise:
/// what is kept of it.
#[derive(Default)]
pub(crate) struct Taken(BTreeMap<Place, Former>);

struct Former {
    id: Id,
    kept: Vec<(String, Option<RawMessage>)>,
    /// Of a link: he laid hands on it meanwhile, so that no process knows how he would have it.
    touched: bool,
}

impl Former {
    fn new(id: &Id, before: &World) -> Former {
        Former { id: id.clone(), kept: before.kept_of(id), touched: false }
    }

    /// The devices that it is on, or leads out of.
    fn devices(&self) -> BTreeSet<u32> {
        let rows = self.kept.iter().filter_map(|(_, row)| row.as_ref());
        let devices = rows.flat_map(RawMessage::devices).chain([self.id.device]);
        devices.filter(|device| *device != 0).collect()
    }
}

/// Before Linux 6.12 an IPv4 address that is replaced keeps the mark that it had: what was taken
/// still bears his.
pub(crate) fn keeps_its_mark(id: &Id) -> bool {
    id.kind == Kind::Address && id.key.first() == Some(&2) && running_version() < (6, 12)
}

impl Taken {
    /// Returns true if a pass may have done what it did to a row of his: written over it, in its
    /// place, with what is desired.
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

    /// Forgets what cannot be restored: a device that it is on, or that it leads out of, is gone,
    /// or was recreated.
    pub(crate) fn forget_stranded(&mut self, after: &World) {
        self.0.retain(|_, former| {
            let devices = former.devices();
            devices.iter().all(|device| after.names.contains_key(device))
        });
    }

    pub(crate) fn holds(&self, id: &Id) -> bool {
        self.0.contains_key(&id.place())
    }

    /// Returns true if what came is what was taken there.
    pub(crate) fn gives_back(&mut self, id: &Id, after: &World) -> bool {
        let place = id.place();
        let back = |former: &Former| former.id == *id && former.kept == after.kept_of(id);
        let given = self.0.get(&place).is_some_and(back);
        if given {
            self.0.remove(&place);
        }
        given
    }

    /// What the other writer laid hands on meanwhile no process has to give back, nor what is on a
    /// link that he renamed or replaced. It may where it cannot tell: a link that he set otherwise
    /// is the same link, and a neighbour that he wrote over without a protocol still bears our
    /// mark.
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

    /// What has not been restored, a line each.
    pub(crate) fn lines(&self) -> String {
        let due = self.0.values().filter(|former| !former.touched);
        due.map(|former| format!("{:?}\n", former.kept)).collect()
    }
}

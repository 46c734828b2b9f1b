//! What is refused for the sake of this host: routes that would lead away what it needs, and those
//! that have cut it off from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use trueup_net::{Family, IpNetwork, Prefix, RouteKey};

use super::offer::{Id, Offer};
use crate::world::Protected;

/// What is refused for the sake of this host.
#[derive(Default)]
pub(super) struct Barrier {
    protected: Protected,
    /// The gateways of all resources that make a route, and of how many.
    gateways: BTreeMap<IpAddr, usize>,
    /// The resources that make a route, by destination.
    by_dst: BTreeMap<Prefix, BTreeSet<Arc<Id>>>,
    /// Those that are withheld, with the reasons; those of which that is confirmed, until they
    /// change. They stay so while they are not there, as while the store is not reached.
    withheld: BTreeMap<Arc<Id>, (String, bool)>,
}

impl Barrier {
    /// Adds a resource. Returns those that are judged otherwise because of its gateways.
    pub(super) fn insert(&mut self, id: &Arc<Id>, offer: &Offer) -> BTreeSet<Arc<Id>> {
        let Some(dst) = offer.destination() else {
            return BTreeSet::new();
        };
        self.by_dst.entry(dst).or_default().insert(Arc::clone(id));
        let mut concerned = BTreeSet::new();
        for gateway in &offer.gateways {
            let count = self.gateways.entry(*gateway).or_default();
            *count += 1;
            if *count == 1 {
                concerned.extend(self.around(*gateway));
            }
        }
        concerned
    }

    /// Removes a resource. Returns those that are judged otherwise without its gateways.
    pub(super) fn remove(&mut self, id: &Arc<Id>, offer: &Offer) -> BTreeSet<Arc<Id>> {
        let Some(dst) = offer.destination() else {
            return BTreeSet::new();
        };
        if let Some(ids) = self.by_dst.get_mut(&dst) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_dst.remove(&dst);
            }
        }
        let mut concerned = BTreeSet::new();
        for gateway in &offer.gateways {
            let count = self.gateways.get_mut(gateway);
            if let Some(count) = count.filter(|count| **count > 1) {
                *count -= 1;
            } else if self.gateways.remove(gateway).is_some() {
                concerned.extend(self.around(*gateway));
            }
        }
        concerned
    }

    /// Replaces what is protected. Returns true if it was something else.
    pub(super) fn protect(&mut self, protected: &Protected) -> bool {
        let is_new = self.protected != *protected;
        if is_new {
            self.protected = protected.clone();
        }
        is_new
    }

    /// Refuses a resource for now.
    pub(super) fn withhold(&mut self, id: Arc<Id>, reason: String) {
        self.withheld.insert(id, (reason, false));
    }

    /// Refuses what another one refuses so, and returns it.
    pub(super) fn withhold_as(&mut self, other: &Barrier) -> impl Iterator<Item = Arc<Id>> {
        self.withheld = other.withheld.clone();
        self.withheld.clone().into_keys()
    }

    /// Refuses all of those until they change.
    pub(super) fn confirm(&mut self) {
        for (_, is_confirmed) in self.withheld.values_mut() {
            *is_confirmed = true;
        }
    }

    /// Refuses no more of those of which it is not confirmed, and returns them.
    pub(super) fn release(&mut self) -> Vec<Arc<Id>> {
        let mut released = Vec::new();
        self.withheld.retain(|id, (_, is_confirmed)| {
            if !*is_confirmed {
                released.push(Arc::clone(id));
            }
            *is_confirmed
        });
        released
    }

    /// Returns why a resource makes no route of this key, if it does not.
    pub(super) fn refusal(&self, id: &Arc<Id>, offer: &Offer, key: &RouteKey) -> Option<String> {
        if let Some((reason, _)) = self.withheld.get(id) {
            return Some(reason.clone());
        }
        let mut gateways = offer.gateways.iter();
        if let Some(own) = gateways.find(|it| self.protected.is_own(**it)) {
            return Some(format!("its gateway {own} is an address of this host"));
        }
        self.protected.covered(key).or_else(|| self.covered_gateway(key))
    }

    /// Returns why a route of this key is not taken, if it covers a gateway of collected routes
    /// that this host reaches straight.
    fn covered_gateway(&self, key: &RouteKey) -> Option<String> {
        if !self.protected.concerns(key) {
            return None;
        }
        let dst = key.dst;
        let from = self.gateways.range(dst.address()..);
        let mut within =
            from.map(|(gateway, _)| *gateway).take_while(|gateway| dst.contains(*gateway));
        let is_covered = |gateway: &IpAddr| {
            let subnet = self.protected.subnet(*gateway);
            subnet.is_some_and(|len| dst.len() >= len)
        };
        let gateway = within.find(is_covered)?;
        Some(format!("{dst} covers {gateway}, a gateway of collected routes"))
    }

    /// Returns the resources whose destinations contain an address.
    fn around(&self, address: IpAddr) -> BTreeSet<Arc<Id>> {
        let lens = 0..=Family::of(address).max_len();
        let prefixes = lens.filter_map(|len| IpNetwork::new(address, len).ok());
        let of_prefix = prefixes.filter_map(|it| self.by_dst.get(&Prefix::containing(it)));
        of_prefix.flatten().cloned().collect()
    }
}

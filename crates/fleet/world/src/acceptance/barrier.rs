//! Refusals that protect this host. They concern routes to addresses that it needs, and routes that
//! have cut it off from the store.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use trueup_net::{Family, IpNetwork, Prefix, RouteKey};

use super::offer::{Id, Offer};
use super::protected::Protected;
use crate::store::Entry;

/// The refusals that protect this host.
#[derive(Default)]
pub(super) struct Barrier {
    protected: Protected,
    /// The gateways of exports that make a route, each with the number of these exports.
    gateways: BTreeMap<IpAddr, usize>,
    /// The exports that make a route, by destination.
    by_dst: BTreeMap<Prefix, BTreeSet<Arc<Id>>>,
    /// The withheld exports. They stay here while they are missing, for example while the store is
    /// unreachable.
    withheld: BTreeMap<Arc<Id>, Withheld>,
}

/// A withheld export, until its value changes.
#[derive(Clone)]
struct Withheld {
    entry: Arc<Entry>,
    reason: String,
    is_confirmed: bool,
}

impl Barrier {
    /// Adds an export. Returns the exports to judge again because of its gateways.
    pub(super) fn insert(&mut self, offer: &Offer) -> BTreeSet<Arc<Id>> {
        let Some(dst) = offer.destination() else {
            return BTreeSet::new();
        };
        self.by_dst.entry(dst).or_default().insert(Arc::clone(&offer.id));
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

    /// Removes an export. Returns the exports to judge again without its gateways.
    pub(super) fn remove(&mut self, offer: &Offer) -> BTreeSet<Arc<Id>> {
        let Some(dst) = offer.destination() else {
            return BTreeSet::new();
        };
        if let Some(ids) = self.by_dst.get_mut(&dst) {
            ids.remove(&offer.id);
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

    /// Returns the addresses that no route may lead away.
    pub(super) fn protected(&self) -> &Protected {
        &self.protected
    }

    /// Replaces the protected addresses. Returns true if they differ from before.
    pub(super) fn protect(&mut self, protected: &Protected) -> bool {
        let is_new = self.protected != *protected;
        if is_new {
            self.protected = protected.clone();
        }
        is_new
    }

    /// Withholds an export for now.
    pub(super) fn withhold(&mut self, offer: &Offer, reason: String) {
        let (entry, is_confirmed) = (Arc::clone(&offer.entry), false);
        let withheld = Withheld { entry, reason, is_confirmed };
        self.withheld.insert(Arc::clone(&offer.id), withheld);
    }

    /// Withholds the exports that another barrier withholds, and returns them.
    pub(super) fn withhold_as(&mut self, other: &Barrier) -> impl Iterator<Item = Arc<Id>> {
        self.withheld = other.withheld.clone();
        self.withheld.keys().cloned()
    }

    /// Keeps all withheld exports refused until they change.
    pub(super) fn confirm(&mut self) {
        for withheld in self.withheld.values_mut() {
            withheld.is_confirmed = true;
        }
    }

    /// Releases the withheld exports that are not confirmed, and returns them.
    pub(super) fn release(&mut self) -> impl Iterator<Item = Arc<Id>> {
        let (kept, released) =
            mem::take(&mut self.withheld).into_iter().partition(|(_, it)| it.is_confirmed);
        self.withheld = kept;
        BTreeMap::<_, Withheld>::into_keys(released)
    }

    /// Returns why an export makes no route with this key. `None` if it may.
    pub(super) fn refusal(&self, offer: &Offer, key: &RouteKey) -> Option<String> {
        let withheld = self.withheld.get(&offer.id);
        if let Some(withheld) = withheld.filter(|it| it.entry.value == offer.entry.value) {
            return Some(withheld.reason.clone());
        }
        if let Some(own) = offer.gateways.iter().find(|it| self.protected.is_own(**it)) {
            return Some(format!("its gateway {own} is an address of this host"));
        }
        self.protected.covered(key).or_else(|| self.covered_gateway(key))
    }

    /// Returns why a route with this key is refused, if it covers a gateway of collected routes
    /// that this host reaches directly.
    fn covered_gateway(&self, key: &RouteKey) -> Option<String> {
        if !self.protected.concerns(key) {
            return None;
        }
        let dst = key.dst;
        let (gateway, _) = (self.gateways.range(dst.address()..))
            .take_while(|(gateway, _)| dst.contains(**gateway))
            .find(|(gateway, _)| {
                self.protected.subnet(**gateway).is_some_and(|len| dst.len() >= len)
            })?;
        Some(format!("{dst} covers {gateway}, a gateway of collected routes"))
    }

    /// Returns the exports whose destinations contain an address.
    fn around(&self, address: IpAddr) -> BTreeSet<Arc<Id>> {
        (0..=Family::of(address).max_len())
            .filter_map(|len| IpNetwork::new(address, len).ok())
            .filter_map(|it| self.by_dst.get(&Prefix::containing(it)))
            .flatten()
            .cloned()
            .collect()
    }
}

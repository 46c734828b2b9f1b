//! The routes that the kernel derives from IPv4 addresses, and deletes with them (`fib_add_ifaddr`,
//! `fib_del_ifaddr`).

use super::State;
use super::address::Address;
use super::bag::{Bag, Prefix, ip};
use super::numbers::*;
use super::route::{Key, Leg, Route, Wanted};

fn own(address: &Address) -> Prefix {
    Prefix::new(address.local, 32)
}

/// Returns the last address of the subnet.
fn last(address: &Address) -> Prefix {
    let mask = u32::MAX.checked_shr(address.length.into()).unwrap_or(0);
    let [a, b, c, d, ..] = address.peer;
    let last = u32::from_be_bytes([a, b, c, d]) | mask;
    Prefix::new(ip(&last.to_be_bytes()), 32)
}

/// Returns the first address of the subnet.
fn first(address: &Address) -> Prefix {
    Prefix::new(address.subnet().address, 32)
}

/// Returns the stated broadcast address; zeros if none.
fn given(address: &Address) -> Prefix {
    Prefix::new(address.attrs.get(IFA_BROADCAST).map(ip).unwrap_or_default(), 32)
}

/// Returns true if the address has a subnet, not only a host prefix.
fn has_subnet(address: &Address) -> bool {
    let network = address.subnet().address;
    network != [0; 16] && (network != address.local || address.length < 32)
}

impl State {
    /// `fib_magic`: adds or deletes a route, and ignores failures.
    fn derive4(&mut self, is_new: bool, own: &Address, kind: u8, dst: Prefix, metric: u32) {
        let mut attrs = Bag::default();
        attrs.set(RTA_PREFSRC, &own.local[..4]);
        let (table, scope) = match kind {
            RTN_UNICAST => (TABLE_MAIN, SCOPE_LINK),
            RTN_LOCAL => (TABLE_LOCAL, SCOPE_HOST),
            _ => (TABLE_LOCAL, SCOPE_LINK),
        };
        let wanted = Wanted {
            key: Key::new(INET, table, dst),
            route: Route {
                protocol: PROTOCOL_KERNEL,
                scope,
                kind,
                metric,
                attrs,
                legs: vec![Leg::to_device(own.device)],
                ..Route::default()
            },
            is_multipath: false,
            stated_table: table,
        };
        let _ignored = if is_new {
            self.insert_route4(wanted, NLM_F_CREATE | NLM_F_APPEND, None)
        } else {
            self.delete_route4(&wanted, None)
        };
    }

    /// Returns the type of a subnet's route.
    fn subnet_kind(&self, address: &Address) -> u8 {
        if self.is_loopback(address.device) { RTN_LOCAL } else { RTN_UNICAST }
    }

    /// Returns the subnet's primary address, which may be `address` itself.
    fn primary4(&self, address: &Address) -> Option<Address> {
        if !address.has(IFA_F_SECONDARY) {
            return Some(address.clone());
        }
        self.addresses4
            .find(address.device, |it| !it.has(IFA_F_SECONDARY) && it.subnet() == address.subnet())
            .cloned()
    }

    /// `fib_add_ifaddr`.
    pub(super) fn add_address_routes(&mut self, address: &Address) {
        let Some(primary) = self.primary4(address) else {
            return;
        };
        self.derive4(true, &primary, RTN_LOCAL, own(address), 0);
        if !self.is_up(address.device) {
            return;
        }
        let broadcast = given(address);
        if broadcast.address != [0; 16] && broadcast.address[..4] != [0xff; 4] {
            self.derive4(true, &primary, RTN_BROADCAST, broadcast, 0);
        }
        if address.has(IFA_F_SECONDARY) || !has_subnet(address) {
            return;
        }
        if !address.has(IFA_F_NOPREFIXROUTE) {
            let kind = self.subnet_kind(address);
            self.derive4(true, address, kind, address.subnet(), address.metric());
        }
        if address.length < 31 {
            self.derive4(true, address, RTN_BROADCAST, last(address), 0);
        }
    }

    /// `fib_modify_prefix_metric`: called while the address still has the old metric.
    pub(super) fn metric_changed4(&mut self, address: &Address, metric: u32) {
        let without = IFA_F_SECONDARY | IFA_F_NOPREFIXROUTE;
        if self.is_up(address.device) && !address.has(without) && has_subnet(address) {
            let kind = self.subnet_kind(address);
            for (is_new, metric) in [(true, metric), (false, address.metric())] {
                self.derive4(is_new, address, kind, address.subnet(), metric);
            }
        }
    }

    /// `fib_del_ifaddr`, called after the address has left the list.
    pub(super) fn remove_address_routes(&mut self, address: &Address) {
        let Some(primary) = self.primary4(address) else {
            return;
        };
        let has_subnet = !address.has(IFA_F_SECONDARY) && has_subnet(address);
        if has_subnet && !address.has(IFA_F_NOPREFIXROUTE) {
            let kind = self.subnet_kind(address);
            self.derive4(false, &primary, kind, address.subnet(), 0);
        }
        let mut ends = vec![given(address)];
        if has_subnet && address.length < 31 {
            ends.extend([last(address), first(address)]);
        }
        let kept = self.kept4(address, &primary);
        for end in ends {
            if !kept.contains(&(RTN_BROADCAST, end)) {
                self.derive4(false, &primary, RTN_BROADCAST, end, 0);
            }
        }
        if !kept.contains(&(RTN_LOCAL, own(address))) {
            self.derive4(false, &primary, RTN_LOCAL, own(address), 0);
            if self.address_kind(address.local, TABLE_LOCAL) != RTN_LOCAL {
                self.source_gone4(address.local);
            }
        }
    }

    /// Returns those routes of a deleted address that other addresses with the same source still
    /// need.
    fn kept4(&self, address: &Address, primary: &Address) -> Vec<(u8, Prefix)> {
        let mut kept = Vec::new();
        for other in self.addresses4.of(address.device) {
            let source = self.primary4(other).map(|primary| primary.local);
            if source != Some(primary.local) {
                continue;
            }
            if other.local == address.local {
                kept.push((RTN_LOCAL, own(address)));
            }
            let mut ends = vec![given(other)];
            let network = other.subnet().address;
            if !other.has(IFA_F_SECONDARY) && other.length < 31 && network != [0; 16] {
                ends.extend([last(other), first(other)]);
            }
            kept.extend(ends.into_iter().map(|end| (RTN_BROADCAST, end)));
        }
        kept
    }
}

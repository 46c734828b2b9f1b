//! The routes that the kernel makes of IPv4 addresses, and takes with them (`fib_add_ifaddr`,
//! `fib_del_ifaddr`).

use super::State;
use super::address::{Address, IFA_BROADCAST, IFA_F_NOPREFIXROUTE, IFA_F_SECONDARY};
use super::bag::{Bag, Ip, Prefix, ip};
use super::numbers::*;
use super::route::{Key, Leg, RTA_PREFSRC, Route, Wanted};

fn own(address: &Address) -> Prefix {
    Prefix::new(address.local, 32)
}

/// The last address of the subnet.
fn last(address: &Address) -> Prefix {
    let mask = u32::MAX.checked_shr(address.length.into()).unwrap_or(0);
    let [a, b, c, d, ..] = address.peer;
    let last = u32::from_be_bytes([a, b, c, d]) | mask;
    Prefix::new(ip(&last.to_be_bytes()), 32)
}

/// The first address of the subnet.
fn first(address: &Address) -> Prefix {
    Prefix::new(address.subnet().address, 32)
}

/// The broadcast address as given; zeros for none.
fn given(address: &Address) -> Prefix {
    Prefix::new(
        address.attrs.get(IFA_BROADCAST).map(ip).unwrap_or_default(),
        32,
    )
}

/// Returns true if it is of a subnet, not of a host alone.
fn has_subnet(address: &Address) -> bool {
    let network = address.subnet().address;
    network != [0; 16] && (network != address.local || address.length < 32)
}

impl State {
    /// `fib_magic`: a failure concerns no one.
    fn derive4(
        &mut self,
        is_new: bool,
        index: u32,
        (kind, dst, metric): (u8, Prefix, u32),
        source: Ip,
    ) {
        let table = if kind == RTN_UNICAST {
            TABLE_MAIN
        } else {
            TABLE_LOCAL
        };
        let mut attrs = Bag::default();
        attrs.set(RTA_PREFSRC, &source[..4]);
        let wanted = Wanted {
            key: Key::new(INET, table, dst),
            route: Route {
                protocol: PROTOCOL_KERNEL,
                scope: if kind == RTN_LOCAL {
                    SCOPE_HOST
                } else {
                    SCOPE_LINK
                },
                kind,
                metric,
                attrs,
                legs: vec![Leg::to_device(index)],
                ..Route::default()
            },
            is_multipath: false,
        };
        let _ignored = match is_new {
            true => self.insert_route4(wanted, NLM_F_CREATE | NLM_F_APPEND, None),
            false => self.delete_route4(&wanted, None),
        };
    }

    /// The kind of a subnet's route.
    fn subnet_kind(&self, index: u32) -> u8 {
        match self.is_loopback(index) {
            true => RTN_LOCAL,
            false => RTN_UNICAST,
        }
    }

    /// The primary address of the same subnet.
    fn primary4(&self, index: u32, address: &Address) -> Option<Address> {
        let mut list = self.addresses4.of(index).iter();
        let found =
            list.find(|other| !other.has(IFA_F_SECONDARY) && other.subnet() == address.subnet());
        found.cloned()
    }

    /// `fib_add_ifaddr`.
    pub(super) fn add_address_routes(&mut self, index: u32, address: &Address) {
        let is_secondary = address.has(IFA_F_SECONDARY);
        let source = match is_secondary {
            true => match self.primary4(index, address) {
                Some(primary) => primary.local,
                None => return,
            },
            false => address.local,
        };
        self.derive4(true, index, (RTN_LOCAL, own(address), 0), source);
        if !self.is_up(index) {
            return;
        }
        let broadcast = given(address);
        if broadcast.address != [0; 16] && broadcast.address[..4] != [0xff; 4] {
            self.derive4(true, index, (RTN_BROADCAST, broadcast, 0), source);
        }
        if is_secondary || !has_subnet(address) {
            return;
        }
        if !address.has(IFA_F_NOPREFIXROUTE) {
            let subnet = (self.subnet_kind(index), address.subnet(), address.metric());
            self.derive4(true, index, subnet, source);
        }
        if address.length < 31 {
            self.derive4(true, index, (RTN_BROADCAST, last(address), 0), source);
        }
    }

    /// `fib_modify_prefix_metric`: the address still has the old metric.
    pub(super) fn metric_changed4(&mut self, index: u32, address: &Address, metric: u32) {
        let without = IFA_F_SECONDARY | IFA_F_NOPREFIXROUTE;
        if self.is_up(index) && !address.has(without) && has_subnet(address) {
            let kind = self.subnet_kind(index);
            for (is_new, metric) in [(true, metric), (false, address.metric())] {
                let route = (kind, address.subnet(), metric);
                self.derive4(is_new, index, route, address.local);
            }
        }
    }

    /// `fib_del_ifaddr`, of an address that has left the list.
    pub(super) fn remove_address_routes(&mut self, index: u32, address: &Address) {
        let is_secondary = address.has(IFA_F_SECONDARY);
        let primary = match is_secondary {
            true => self.primary4(index, address),
            false => Some(address.clone()),
        };
        let Some(primary) = primary else {
            return;
        };
        let has_subnet = !is_secondary && has_subnet(address);
        if has_subnet && !address.has(IFA_F_NOPREFIXROUTE) {
            let route = (self.subnet_kind(index), address.subnet(), 0);
            self.derive4(false, index, route, primary.local);
        }
        let kept = self.kept4(index, address, &primary);
        let mut ends = vec![given(address)];
        if has_subnet && address.length < 31 {
            ends.extend([last(address), first(address)]);
        }
        for end in ends {
            if !kept.contains(&(RTN_BROADCAST, end)) {
                self.derive4(false, index, (RTN_BROADCAST, end, 0), primary.local);
            }
        }
        if !kept.contains(&(RTN_LOCAL, own(address))) {
            self.derive4(false, index, (RTN_LOCAL, own(address), 0), primary.local);
            if self.address_kind(address.local, TABLE_LOCAL) != RTN_LOCAL {
                self.source_gone4(address.local);
            }
        }
    }

    /// The routes of an address that goes that other addresses with the same source still need.
    fn kept4(&self, index: u32, address: &Address, primary: &Address) -> Vec<(u8, Prefix)> {
        let mut kept = Vec::new();
        if self.routes.dying == Some(index) {
            return kept;
        }
        for other in self.addresses4.of(index) {
            let is_secondary = other.has(IFA_F_SECONDARY);
            let source = match is_secondary {
                true => self.primary4(index, other).map(|primary| primary.local),
                false => Some(other.local),
            };
            if source != Some(primary.local) {
                continue;
            }
            if other.local == address.local {
                kept.push((RTN_LOCAL, own(address)));
            }
            kept.push((RTN_BROADCAST, given(other)));
            if !is_secondary && other.length < 31 && other.subnet().address != [0; 16] {
                kept.push((RTN_BROADCAST, last(other)));
                kept.push((RTN_BROADCAST, first(other)));
            }
        }
        kept
    }
}

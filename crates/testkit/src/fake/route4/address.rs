//! The routes that the kernel makes of IPv4 addresses, and takes with them (`fib_add_ifaddr`, `fib_del_ifaddr`).

use super::super::address4::{Address4, IFA_F_NOPREFIXROUTE};
use super::super::request::{NLM_F_APPEND, NLM_F_CREATE};
use super::super::state::State;
use super::config::Config;
use super::info::RTNH_F_DEAD;
use super::{
    RTN_BROADCAST, RTN_LOCAL, RTN_UNICAST, SCOPE_HOST, SCOPE_LINK, TABLE_LOCAL, TABLE_MAIN,
};

const RTPROT_KERNEL: u8 = 2;

/// A route of an address, without its source and device.
#[derive(Clone, Copy)]
struct Derived {
    kind: u8,
    dst: u32,
    length: u8,
    priority: u32,
}

impl Derived {
    const fn host(kind: u8, dst: u32) -> Self {
        Self {
            kind,
            dst,
            length: 32,
            priority: 0,
        }
    }
}

impl Address4 {
    fn own(&self) -> u32 {
        u32::from_be_bytes(self.local)
    }

    /// The first address of its subnet.
    fn network(&self) -> u32 {
        u32::from_be_bytes(self.peer) & self.mask()
    }

    /// The last one.
    fn last(&self) -> u32 {
        u32::from_be_bytes(self.peer) | !self.mask()
    }

    /// As given; 0 for none.
    fn given_broadcast(&self) -> u32 {
        self.broadcast.map_or(0, u32::from_be_bytes)
    }

    fn shares_subnet(&self, other: &Self) -> bool {
        self.length == other.length && self.holds(other.peer)
    }

    /// Whether it is of a subnet, not of a host alone.
    fn has_subnet(&self) -> bool {
        self.network() != 0 && (self.network() != self.own() || self.length < 32)
    }
}

impl State {
    /// `fib_magic`: failure is nobody's concern.
    fn derive(&mut self, add: bool, index: u32, derived: Derived, source: &Address4) {
        let unicast = derived.kind == RTN_UNICAST;
        let table = if unicast { TABLE_MAIN } else { TABLE_LOCAL };
        self.rules.make_table(2, table);
        let config = Config {
            length: derived.length,
            dst: derived.dst,
            table,
            protocol: RTPROT_KERNEL,
            scope: if derived.kind == RTN_LOCAL {
                SCOPE_HOST
            } else {
                SCOPE_LINK
            },
            kind: derived.kind,
            request: NLM_F_CREATE | NLM_F_APPEND,
            oif: index,
            priority: derived.priority,
            source: source.local,
            ..Config::default()
        };
        let _ignored = if add {
            self.insert_route4(&config, None)
        } else {
            self.delete_route4(&config, None)
        };
        if add && derived.kind == RTN_BROADCAST {
            self.forget_neighbour4(index, derived.dst.to_be_bytes());
        }
    }

    /// The kind of a subnet's route.
    fn subnet_kind(&self, index: u32) -> u8 {
        match self.links.get(index) {
            Some(link) if link.is_loopback() => RTN_LOCAL,
            _ => RTN_UNICAST,
        }
    }

    /// The primary address of a subnet (`inet_ifa_byprefix`).
    fn primary(&self, index: u32, address: &Address4) -> Option<Address4> {
        let of = self.addresses4.of(index).iter();
        let mut found = of.filter(|other| !other.is_secondary() && other.shares_subnet(address));
        found.next().cloned()
    }

    /// `fib_add_ifaddr`.
    pub(super) fn add_address_routes(&mut self, index: u32, address: &Address4) {
        let primary = if address.is_secondary() {
            match self.primary(index, address) {
                Some(primary) => primary,
                None => return,
            }
        } else {
            address.clone()
        };
        let local = Derived::host(RTN_LOCAL, address.own());
        self.derive(true, index, local, &primary);
        if !self.links.get(index).is_some_and(|link| link.is_up()) {
            return;
        }
        let broadcast = address.given_broadcast();
        if broadcast != 0 && broadcast != u32::MAX {
            let broadcast = Derived::host(RTN_BROADCAST, broadcast);
            self.derive(true, index, broadcast, &primary);
        }
        if address.is_secondary() || !address.has_subnet() {
            return;
        }
        if address.flags & IFA_F_NOPREFIXROUTE == 0 {
            let subnet = self.subnet(index, address, address.metric);
            self.derive(true, index, subnet, &primary);
        }
        if address.length < 31 {
            let last = Derived::host(RTN_BROADCAST, address.last());
            self.derive(true, index, last, &primary);
        }
    }

    fn subnet(&self, index: u32, address: &Address4, priority: u32) -> Derived {
        Derived {
            kind: self.subnet_kind(index),
            dst: address.network(),
            length: address.length,
            priority,
        }
    }

    /// `fib_modify_prefix_metric`: an address is replaced, with another metric for its subnet's route.
    pub(crate) fn routes4_metric_changed(&mut self, index: u32, address: &Address4, metric: u32) {
        let up = self.links.get(index).is_some_and(|link| link.is_up());
        let none = address.is_secondary() || address.flags & IFA_F_NOPREFIXROUTE != 0;
        if !up || none || !address.has_subnet() {
            return;
        }
        let (new, old) = (
            self.subnet(index, address, metric),
            self.subnet(index, address, address.metric),
        );
        self.derive(true, index, new, address);
        self.derive(false, index, old, address);
    }

    /// `fib_del_ifaddr`. With `promoting`, the secondary address goes with this primary one, whose subnet counts as gone.
    pub(super) fn remove_address_routes(
        &mut self,
        index: u32,
        address: &Address4,
        promoting: Option<&Address4>,
    ) {
        let mut primary = address.clone();
        let mut subnet = false;
        if address.is_secondary() {
            let found = match promoting {
                Some(promoting) => Some(promoting.clone()),
                None => self.primary(index, address),
            };
            match found {
                Some(found) => primary = found,
                None => return,
            }
        } else if address.has_subnet() {
            if address.flags & IFA_F_NOPREFIXROUTE == 0 {
                let route = self.subnet(index, address, 0);
                self.derive(false, index, route, &primary);
            }
            subnet = true;
        }
        let kept = if self.routes4.dying == Some(index) {
            Kept {
                gone: true,
                ..Kept::default()
            }
        } else {
            self.kept(index, address, &primary, promoting)
        };
        if !kept.broadcast {
            let route = Derived::host(RTN_BROADCAST, address.given_broadcast());
            self.derive(false, index, route, &primary);
        }
        if subnet && address.length < 31 {
            if !kept.last {
                let route = Derived::host(RTN_BROADCAST, address.last());
                self.derive(false, index, route, &primary);
            }
            if !kept.first {
                let route = Derived::host(RTN_BROADCAST, address.network());
                self.derive(false, index, route, &primary);
            }
        }
        if !kept.local {
            let route = Derived::host(RTN_LOCAL, address.own());
            self.derive(false, index, route, &primary);
            let local = self.address_kind(address.local, TABLE_LOCAL) == RTN_LOCAL;
            if kept.gone && !local {
                self.source_gone(address.local);
            }
        }
    }

    /// Which of the routes of an address that goes others still need.
    fn kept(
        &self,
        index: u32,
        address: &Address4,
        primary: &Address4,
        promoting: Option<&Address4>,
    ) -> Kept {
        let (last, first) = (address.last(), address.network());
        let given = address.given_broadcast();
        let mut kept = Kept {
            gone: true,
            ..Kept::default()
        };
        let mut same_source = false;
        let mut group: Option<Address4> = None;
        for other in self.addresses4.of(index) {
            if other == address {
                kept.gone = false;
                continue;
            }
            if promoting.is_some_and(|promoting| promoting.shares_subnet(other)) {
                continue;
            }
            if other.is_secondary() {
                if primary.shares_subnet(other) {
                    group = Some(primary.clone());
                } else {
                    if !same_source {
                        continue;
                    }
                    if !group
                        .as_ref()
                        .is_some_and(|group| group.shares_subnet(other))
                    {
                        group = self.primary(index, other);
                    }
                    if group.as_ref().is_none_or(|g| g.local != primary.local) {
                        continue;
                    }
                }
            } else {
                if primary.local != other.local {
                    continue;
                }
                group = Some(other.clone());
                same_source |= other != primary;
            }
            kept.local |= address.local == other.local;
            kept.broadcast |= given == other.given_broadcast();
            kept.last |= last == other.given_broadcast();
            kept.first |= first == other.given_broadcast();
            if group.as_ref() == Some(other) && other.length < 31 && other.network() != 0 {
                let ends = [other.last(), other.network()];
                kept.broadcast |= ends.contains(&given);
                kept.last |= ends.contains(&last);
                kept.first |= ends.contains(&first);
            }
        }
        kept
    }

    /// `fib_sync_down_addr`: the routes of table `main` with this preferred source go.
    fn source_gone(&mut self, local: [u8; 4]) {
        if local == [0; 4] {
            return;
        }
        let mut any = false;
        for info in self.routes4.infos.values_mut() {
            if info.source == local && info.table == TABLE_MAIN {
                info.flags |= u32::from(RTNH_F_DEAD);
                info.source_removed = true;
                any = true;
            }
        }
        if any {
            self.flush_routes4();
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// The address is nowhere else on the link.
    gone: bool,
    local: bool,
    broadcast: bool,
    /// The broadcast routes of the subnet's ends.
    last: bool,
    first: bool,
}

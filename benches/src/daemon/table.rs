//! The benchmark's routes: of one form, or a day's mixture, some of them impossible.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;
use trueup_net::{
    Desired, Dev, Family, IfName, NextHop, NextHops, NexthopMode, Object, Prefix, Route, RouteType,
    Routes,
};
use trueup_works::internet::Prefixes;
use trueup_works::{Destination, FOREIGN, destination};

use crate::pass::prefix;

/// A form of routes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) family: Family,
    /// True if routes have two gateways.
    pub(super) is_multipath: bool,
    /// True if routes use nexthop objects.
    pub(super) by_objects: bool,
}

use Family::{Inet, Inet6};

/// All forms of routes.
pub(super) const FORMS: [Form; 5] = [
    form("ipv4", "IPv4", Inet, false),
    form("ipv6", "IPv6", Inet6, false),
    form("multipath", "IPv4 multipath", Inet, true),
    form("ipv6-multipath", "IPv6 multipath", Inet6, true),
    Form { by_objects: true, ..form("nexthop-objects", "IPv4 by nexthop objects", Inet, false) },
];

const fn form(name: &'static str, title: &'static str, family: Family, is_multipath: bool) -> Form {
    Form { name, title, family, is_multipath, by_objects: false }
}

impl Form {
    /// Returns the next hops for a gateway's number, below [`GATEWAYS`], without a device.
    pub(super) fn nexthops<D>(&self, gateway: u8) -> NextHops<D> {
        self.by(address(self.family, gateway), next(gateway))
    }

    /// Returns the same with an unreachable gateway.
    fn unreachable(&self) -> NextHops<IfName> {
        let bad = match self.family {
            Inet => Ipv4Addr::new(203, 0, 113, 1).into(),
            Inet6 => Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1).into(),
        };
        self.by(bad, 1)
    }

    fn by<D>(&self, first: IpAddr, second: u8) -> NextHops<D> {
        let first = NextHop::via(first);
        if !self.is_multipath {
            return NextHops::One(first);
        }
        NextHops::Many(vec![first, NextHop::via(address(self.family, second))])
    }
}

/// The number of gateways of each family.
pub(super) const GATEWAYS: u8 = 64;
/// The gateway of three tenths of a day's IPv4 routes, and of no others.
pub(super) const HEAVY: u8 = 0;

/// Returns a gateway's address, in the subnet of `up0`.
pub(super) fn address(family: Family, gateway: u8) -> IpAddr {
    let host = 2 + gateway;
    match family {
        Inet => Ipv4Addr::new(10, 200, 0, host).into(),
        Inet6 => Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

/// Returns another gateway's number, never [`HEAVY`].
pub(super) fn next(gateway: u8) -> u8 {
    1 + gateway % (GATEWAYS - 1)
}

/// Selects the routes of a table that are not in place.
#[derive(Debug)]
pub(super) struct Exceptions {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// True if one route in a hundred has an unreachable gateway.
    unreachable: bool,
    /// True if one route in a thousand has another writer's route on its key.
    conflict: bool,
}

const fn exceptions(name: &'static str, title: &'static str, of: (bool, bool)) -> Exceptions {
    Exceptions { name, title, unreachable: of.0, conflict: of.1 }
}

/// The exceptions measured for a table of one form, one after the other; the last are a day's.
pub(super) const EXCEPTIONS: [Exceptions; 4] = [
    exceptions("well", "", (false, false)),
    exceptions("unreachable", ", 1 % unreachable", (true, false)),
    exceptions("conflict", ", 0.1 % in conflict", (false, true)),
    exceptions("both", ", 1 % unreachable, 0.1 % in conflict", (true, true)),
];

/// The state of a route in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in the kernel.
    InPlace,
    /// Failed: its gateway is not reachable.
    Failing,
    /// In conflict: another writer has a route on its key.
    Conflict,
}

/// The routes by their places, with their current gateways.
pub(super) struct Table {
    prefixes: Vec<Prefix>,
    gateways: Vec<u8>,
    /// The form of all routes; `None` for a day's mixture.
    form: Option<&'static Form>,
    exceptions: &'static Exceptions,
    picked: usize,
}

impl Table {
    /// Makes a table with routes of one form.
    pub(super) fn of_form(
        form: &'static Form,
        size: usize,
        exceptions: &'static Exceptions,
    ) -> Result<Table> {
        let family = match form.family {
            Inet => trueup_works::Family::Inet,
            Inet6 => trueup_works::Family::Inet6,
        };
        Table::new((0..size).map(|at| destination(family, at)), Some(form), exceptions)
    }

    /// Makes a day's table: a tenth of the routes are multipath.
    pub(super) fn of_day(prefixes: Prefixes) -> Result<Table> {
        Table::new(prefixes.all().into_iter(), None, &EXCEPTIONS[3])
    }

    fn new(
        destinations: impl Iterator<Item = Destination>,
        form: Option<&'static Form>,
        exceptions: &'static Exceptions,
    ) -> Result<Table> {
        let prefixes: Vec<Prefix> = destinations.map(prefix).collect::<Result<_>>()?;
        let gateways = vec![HEAVY; prefixes.len()];
        let mut table = Table { gateways, prefixes, form, exceptions, picked: 0 };
        for at in (0..table.len()).filter(|at| !table.is_heavy(*at)).collect::<Vec<_>>() {
            table.gateways[at] = next((at % usize::from(GATEWAYS - 1)) as u8);
        }
        Ok(table)
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    pub(super) fn prefix(&self, at: usize) -> Prefix {
        self.prefixes[at]
    }

    pub(super) fn gateway(&self, at: usize) -> u8 {
        self.gateways[at]
    }

    pub(super) fn form(&self, at: usize) -> &'static Form {
        self.form.unwrap_or(match (self.prefixes[at].family(), at % 10) {
            (Inet, 3) => &FORMS[2],
            (Inet, _) => &FORMS[0],
            (Inet6, 3) => &FORMS[3],
            (Inet6, _) => &FORMS[1],
        })
    }

    pub(super) fn fate(&self, at: usize) -> Fate {
        if self.exceptions.unreachable && at % 100 == 37 {
            Fate::Failing
        } else if self.exceptions.conflict && at % 1_000 == 5 {
            Fate::Conflict
        } else {
            Fate::InPlace
        }
    }

    /// Returns the places of the routes that are in place: with `heavy`, a day's routes whose first
    /// gateway is the one that fails, otherwise the others.
    pub(super) fn in_place(&self, heavy: bool) -> impl Iterator<Item = usize> {
        let is_it =
            move |at: &usize| self.fate(*at) == Fate::InPlace && self.is_heavy(*at) == heavy;
        (0..self.len()).filter(is_it)
    }

    /// Returns true for a day's route whose first gateway is the one that fails.
    pub(super) fn is_heavy(&self, at: usize) -> bool {
        self.form.is_none() && self.prefixes[at].family() == Inet && at % 10 < 3
    }

    /// Returns the number of routes that are not in place.
    pub(super) fn exceptions(&self) -> usize {
        (0..self.len()).filter(|at| self.fate(*at) != Fate::InPlace).count()
    }

    /// Returns the route at a place, as desired now.
    pub(super) fn route(&self, at: usize) -> Result<Route<IfName>> {
        let form = self.form(at);
        let mut nexthops = match self.fate(at) {
            Fate::Failing => form.unreachable(),
            _ => form.nexthops(self.gateways[at]),
        };
        if let (true, NextHops::One(hop)) = (form.by_objects, &nexthops) {
            // A nexthop object needs its device.
            let dev: IfName = "up0".parse()?;
            nexthops = NextHops::One(hop.clone().with_dev(dev));
        }
        Ok(Route::new(self.prefixes[at], nexthops))
    }

    /// Changes the gateway of the route at a place, and returns the route.
    pub(super) fn lead(&mut self, at: usize, gateway: u8) -> Result<Route<IfName>> {
        self.gateways[at] = gateway;
        self.route(at)
    }

    /// Returns the desired state with all routes.
    pub(super) fn desired(&self) -> Result<Desired> {
        let routes = (0..self.len()).map(|at| self.route(at)).collect::<Result<Routes>>()?;
        let by_objects = self.form.is_some_and(|form| form.by_objects);
        let mode = if by_objects { NexthopMode::Objects } else { NexthopMode::Inline };
        Ok(Desired::default().with_routes(routes).with_nexthops(mode))
    }

    /// Returns other writers' routes on the keys in conflict.
    pub(super) fn foreign(&self) -> Vec<Object> {
        let conflicts = (0..self.len()).filter(|at| self.fate(*at) == Fate::Conflict);
        conflicts.map(|at| blackhole(self.prefixes[at])).collect()
    }

    /// Returns the next `count` places whose routes are in place and do not use the gateway that
    /// fails. They are scattered over the table and unique; there may be fewer.
    pub(super) fn pick(&mut self, count: usize) -> Vec<usize> {
        let mut picked = Vec::with_capacity(count);
        let mut known = HashSet::with_capacity(count);
        for _ in 0..2 * self.len() {
            if picked.len() == count {
                break;
            }
            // A golden-ratio stride, to scatter the places.
            let at = self.picked.wrapping_mul(0x9E37_79B9) % self.len();
            self.picked += 1;
            let is_free = self.fate(at) == Fate::InPlace && !self.is_heavy(at);
            if is_free && known.insert(at) {
                picked.push(at);
            }
        }
        picked
    }
}

/// Returns another writer's route to a prefix.
pub(super) fn blackhole(prefix: Prefix) -> Object {
    let route: Route<Dev> = Route::of_type(RouteType::Blackhole, prefix);
    Object::Route(route.with_protocol(FOREIGN).canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_all_kinds_of_routes() {
        let mut table = Table::of_day(Prefixes::synthetic().thinned(10_000)).unwrap();
        let of_form = FORMS
            .each_ref()
            .map(|form| (0..table.len()).filter(|at| table.form(*at) == form).count());
        assert!(of_form[2] + of_form[3] == 1_000);
        assert!(of_form[1] > 1_000 && of_form[4] == 0);
        assert_eq!((table.exceptions(), table.foreign().len()), (110, 10));
        let heavy: Vec<_> = (0..table.len()).filter(|at| table.is_heavy(*at)).collect();
        assert!(
            heavy.iter().copied().eq((0..table.len()).filter(|at| table.gateway(*at) == HEAVY))
        );
        assert!(heavy.len() > 2_000);
        let picked = table.pick(1_000);
        assert_eq!(picked.len(), 1_000);
        for at in picked {
            assert!(table.fate(at) == Fate::InPlace && !table.is_heavy(at));
        }
        assert!(table.pick(100_000).len() < 10_000);
    }

    #[test]
    fn the_next_gateway_is_another_one() {
        for gateway in 0..GATEWAYS {
            let next = next(gateway);
            assert!(next != gateway && next != HEAVY && next < GATEWAYS);
        }
    }
}

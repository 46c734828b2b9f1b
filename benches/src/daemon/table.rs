//! The routes of the benchmark: of one form, or a day's mixture, with some that cannot be.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context as _, Result};
use trueup_net::{
    Desired, Dev, Family, IfName, NextHop, NextHops, NexthopMode, Object, Prefix, Route, RouteType,
    Routes,
};

use crate::prefixes::Prefixes;
use crate::works::{self, FOREIGN};

/// A form of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// IPv4, with one gateway.
    Ipv4,
    /// IPv6, with one gateway.
    Ipv6,
    /// IPv4, with two gateways.
    Multipath,
    /// IPv6, with two gateways.
    Ipv6Multipath,
    /// IPv4, by a nexthop object with one gateway.
    Objects,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 5] =
        [Form::Ipv4, Form::Ipv6, Form::Multipath, Form::Ipv6Multipath, Form::Objects];

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Ipv4 => "ipv4",
            Form::Ipv6 => "ipv6",
            Form::Multipath => "multipath",
            Form::Ipv6Multipath => "ipv6-multipath",
            Form::Objects => "nexthop-objects",
        }
    }

    /// The form of a word.
    pub fn named(name: &str) -> Option<Form> {
        Form::ALL.into_iter().find(|form| form.name() == name)
    }

    /// It in words.
    pub fn title(self) -> &'static str {
        match self {
            Form::Ipv4 => "IPv4",
            Form::Ipv6 => "IPv6",
            Form::Multipath => "IPv4 multipath",
            Form::Ipv6Multipath => "IPv6 multipath",
            Form::Objects => "IPv4 by nexthop objects",
        }
    }

    pub(super) fn family(self) -> Family {
        match self {
            Form::Ipv6 | Form::Ipv6Multipath => Family::Inet6,
            _ => Family::Inet,
        }
    }

    pub(super) fn mode(self) -> NexthopMode {
        match self {
            Form::Objects => NexthopMode::Objects,
            _ => NexthopMode::Inline,
        }
    }

    fn is_multipath(self) -> bool {
        matches!(self, Form::Multipath | Form::Ipv6Multipath)
    }

    /// The next hops by a gateway of this number, below [`GATEWAYS`], out of any device.
    pub(super) fn nexthops<D>(self, gateway: u8) -> NextHops<D> {
        let hop = |number| NextHop::via(address(self.family(), number));
        match self.is_multipath() {
            false => NextHops::One(hop(gateway)),
            true => NextHops::Many(vec![hop(gateway), hop(next(gateway))]),
        }
    }

    /// The same with a gateway that no device leads to.
    fn unreachable(self) -> NextHops<IfName> {
        let bad = NextHop::via(match self.family() {
            Family::Inet => Ipv4Addr::new(203, 0, 113, 1).into(),
            Family::Inet6 => Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1).into(),
        });
        match self.is_multipath() {
            false => NextHops::One(bad),
            true => NextHops::Many(vec![bad, NextHop::via(address(self.family(), 1))]),
        }
    }
}

/// How many gateways there are of each family.
pub(super) const GATEWAYS: u8 = 64;
/// The gateway of a day that three tenths of all IPv4 routes lead to, and no others.
const HEAVY: u8 = 0;

/// The address of a gateway, in the subnet of `up0`.
pub(super) fn address(family: Family, gateway: u8) -> IpAddr {
    match family {
        Family::Inet => Ipv4Addr::new(10, 200, 0, 2 + gateway).into(),
        Family::Inet6 => {
            let host = u16::from(2 + gateway);
            Ipv6Addr::new(0xfd00, 0x200, 0, 0, 0, 0, 0, host).into()
        }
    }
}

/// Another gateway than this one, and never [`HEAVY`].
pub(super) fn next(gateway: u8) -> u8 {
    1 + gateway % (GATEWAYS - 1)
}

/// Which routes of a table are not in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceptions {
    /// None.
    None,
    /// One in a hundred has a gateway that no device leads to.
    Unreachable,
    /// One in a thousand has another writer's route on its key.
    Conflict,
    /// Both.
    Both,
}

impl Exceptions {
    /// Those that a table of one form has, one after the other.
    pub const OF_FORMS: [Exceptions; 3] =
        [Exceptions::None, Exceptions::Unreachable, Exceptions::Conflict];

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Exceptions::None => "well",
            Exceptions::Unreachable => "unreachable",
            Exceptions::Conflict => "conflict",
            Exceptions::Both => "both",
        }
    }

    /// The exceptions of a word.
    pub fn named(name: &str) -> Option<Exceptions> {
        let mut all = Exceptions::OF_FORMS.into_iter();
        all.find(|exceptions| exceptions.name() == name)
    }
}

/// What becomes of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is in the kernel.
    InPlace,
    /// Its gateway cannot be reached.
    Failing,
    /// Another writer has a route on its key.
    Conflict,
}

/// The routes, each by its place, and the gateway that each has now.
pub(super) struct Table {
    prefixes: Vec<Prefix>,
    gateways: Vec<u8>,
    /// All of this form; a day's mixture without it.
    form: Option<Form>,
    exceptions: Exceptions,
    picked: usize,
}

impl Table {
    /// Routes of a form.
    pub(super) fn of_form(form: Form, size: usize, exceptions: Exceptions) -> Result<Table> {
        let prefix = |at| {
            let (address, length) = works::destination(form.family(), at);
            Prefix::new(address, length).context("a prefix")
        };
        let prefixes = (0..size).map(prefix).collect::<Result<Vec<_>>>()?;
        Ok(Table::new(prefixes, Some(form), exceptions))
    }

    /// A day's routes: a tenth of them multipath.
    pub(super) fn of_day(prefixes: &Prefixes) -> Table {
        Table::new(prefixes.iter().collect(), None, Exceptions::Both)
    }

    fn new(prefixes: Vec<Prefix>, form: Option<Form>, exceptions: Exceptions) -> Table {
        let mut table =
            Table { gateways: vec![HEAVY; prefixes.len()], prefixes, form, exceptions, picked: 0 };
        for at in 0..table.len() {
            if !table.is_heavy(at) {
                table.gateways[at] = 1 + (at % usize::from(GATEWAYS - 1)) as u8;
            }
        }
        table
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

    pub(super) fn form(&self, at: usize) -> Form {
        let family = self.prefixes[at].family();
        self.form.unwrap_or(match (family, at % 10) {
            (Family::Inet, 3) => Form::Multipath,
            (Family::Inet, _) => Form::Ipv4,
            (Family::Inet6, 3) => Form::Ipv6Multipath,
            (Family::Inet6, _) => Form::Ipv6,
        })
    }

    pub(super) fn fate(&self, at: usize) -> Fate {
        use Exceptions::{Both, Conflict, Unreachable};
        match self.exceptions {
            Unreachable | Both if at % 100 == 37 => Fate::Failing,
            Conflict | Both if at % 1_000 == 5 => Fate::Conflict,
            _ => Fate::InPlace,
        }
    }

    /// Returns true for a route of a day that begins at the gateway that is to fail.
    pub(super) fn is_heavy(&self, at: usize) -> bool {
        let is_ipv4 = self.prefixes[at].family() == Family::Inet;
        self.form.is_none() && is_ipv4 && at % 10 < 3
    }

    /// How many routes are not in place.
    pub(super) fn exceptions(&self) -> usize {
        let all = 0..self.len();
        all.filter(|at| self.fate(*at) != Fate::InPlace).count()
    }

    /// The route of a place, as it is desired now.
    pub(super) fn route(&self, at: usize) -> Result<Route<IfName>> {
        let form = self.form(at);
        let mut nexthops = match self.fate(at) {
            Fate::Failing => form.unreachable(),
            _ => form.nexthops(self.gateways[at]),
        };
        if let (Form::Objects, NextHops::One(hop)) = (form, &nexthops) {
            // An object needs its device.
            let dev: IfName = "up0".parse()?;
            nexthops = NextHops::One(hop.clone().with_dev(Some(dev)));
        }
        Ok(Route::new(self.prefixes[at], nexthops))
    }

    /// The route of a place, by another gateway from now on.
    pub(super) fn lead(&mut self, at: usize, gateway: u8) -> Result<Route<IfName>> {
        self.gateways[at] = gateway;
        self.route(at)
    }

    /// All of it.
    pub(super) fn desired(&self) -> Result<Desired> {
        let mut routes = Routes::new();
        for at in 0..self.len() {
            routes.insert(self.route(at)?);
        }
        let mode = self.form.map_or(NexthopMode::Inline, Form::mode);
        Ok(Desired::default().with_routes(routes).with_nexthops(mode))
    }

    /// Other writers' routes on the keys in conflict.
    pub(super) fn foreign(&self) -> Vec<Object> {
        let of_another = |at| {
            let route: Route<Dev> = Route::of_type(RouteType::Blackhole, self.prefixes[at]);
            Object::Route(route.with_protocol(FOREIGN).canonical())
        };
        let all = 0..self.len();
        let conflicts = all.filter(|at| self.fate(*at) == Fate::Conflict);
        conflicts.map(of_another).collect()
    }

    /// The next so many places whose routes are in place, and not at the gateway that is to fail:
    /// scattered over the table, each once, and fewer where there are no more.
    pub(super) fn pick(&mut self, count: usize) -> Vec<usize> {
        let mut picked = Vec::with_capacity(count);
        let mut known = HashSet::with_capacity(count);
        for _ in 0..2 * self.len() {
            if picked.len() == count {
                break;
            }
            // A golden-ratio stride.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_names_that_lead_back() {
        for form in Form::ALL {
            assert_eq!(Form::named(form.name()), Some(form));
        }
        for exceptions in Exceptions::OF_FORMS {
            assert_eq!(Exceptions::named(exceptions.name()), Some(exceptions));
        }
    }

    #[test]
    fn a_day_has_all_kinds_of_routes() {
        let prefixes = Prefixes::synthetic().thinned(10_000);
        let mut table = Table::of_day(&prefixes);
        let count = |is: &dyn Fn(usize) -> bool| (0..table.len()).filter(|at| is(*at)).count();
        let of = |form| count(&|at| table.form(at) == form);
        assert!(of(Form::Multipath) + of(Form::Ipv6Multipath) == 1_000);
        assert!(of(Form::Ipv6) > 1_000 && of(Form::Objects) == 0);
        assert_eq!((table.exceptions(), table.foreign().len()), (110, 10));
        let heavy = count(&|at| table.is_heavy(at));
        assert_eq!(heavy, count(&|at| table.gateway(at) == HEAVY));
        assert!(heavy > 2_000);
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

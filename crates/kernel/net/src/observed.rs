//! The observed state.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::devices::Devices;
use crate::kinds::{
    Canonical, ForwardingEntry, Kind, Kinds, Link, LinkStatus, Lists, NextHop, NextHops,
    ObjectKind as _, OfKind, Route, RouteKey,
};
use crate::ownership::Policy;
use crate::routes::Routes;
use crate::values::{Dev, IfName};
use crate::{each_kind, kinds, per_kind};

per_kind! {
    /// Objects reported by the kernel, with devices by index. They need not be in canonical form; a
    /// plan converts them.
    ///
    /// - Links: every link of the namespace, since names resolve against them.
    /// - Routes: all with our marker, and at least other writers' with a desired key.
    /// - Nexthop objects: all with our marker. Of other writers' at least those with a number of
    ///   ours ([`crate::Nexthop::ids`]), groups with one as a member, and objects that lead out of
    ///   a link touched by the plan.
    #[derive(Clone, Debug, Default, PartialEq)]
    #[non_exhaustive]
    pub struct Observed[Vec] {
        /// The links' status, by index. A link without an entry counts as running.
        pub link_status: BTreeMap<u32, LinkStatus>,
        /// Forwarding entries on links that the plan touches.
        pub forwarding: Vec<ForwardingEntry>,
        /// The gateways looked up, each with the table of its routes, and the route by which the
        /// kernel reaches it. `None` if it is not on a link. A gateway without an entry was not
        /// looked up.
        pub gateways: BTreeMap<(u32, IpAddr), Option<Route>>,
        /// IPv6 route keys on which the kernel made every route with protocol `ra`, from router
        /// advertisements.
        pub advertised: BTreeSet<RouteKey>,
        /// The kinds of which all relevant objects are here. Objects of any other kind are never
        /// deleted.
        pub complete: Kinds,
        /// See [`Observed::compact_routes`].
        pub(crate) compact: Routes<Dev>,
    }
}

impl Observed {
    /// Moves our routes to a form that takes a fifth of the memory, since there can be a million.
    /// They remain part of the observation: [`all_routes`](Self::all_routes) returns both. Only for
    /// a state in which routes are managed.
    ///
    /// Moves unicast routes through one gateway, each alone on its key, if `routes` is in key
    /// order. Moves none if the marker alone does not prove that a route is ours.
    pub fn compact_routes(&mut self, policy: &Policy) {
        let is_by_marker = !policy.domain.is_limited() && !policy.by_ledger.contains(Kind::Route);
        let is_sorted = self.routes.is_sorted_by(|a, b| a.key() <= b.key());
        if !is_by_marker || !is_sorted || !self.compact.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.routes).into_iter().peekable();
        let (rest, mut before) = (&mut self.routes, None);
        let moved = std::iter::from_fn(move || {
            loop {
                let route = all.next()?;
                let key = Some(route.key());
                let is_alone = before != key && all.peek().map(Route::key) != key;
                before = key;
                if is_alone
                    && route.protocol == policy.marker
                    && route.can_be_ours()
                    && matches!(&route.nexthops, NextHops::One(NextHop { via: Some(_), .. }))
                    && Some(route.canonical_key()) == key
                {
                    return Some(route);
                }
                rest.push(route);
            }
        });
        self.compact = moved.collect();
    }

    /// Returns all observed routes, moved or not.
    pub fn all_routes(&self) -> impl Iterator<Item = Cow<'_, Route>> {
        let listed = self.routes.iter().map(Cow::Borrowed);
        listed.chain(self.compact.iter().map(Cow::Owned))
    }

    /// Returns the devices by which no packet leaves after the plan: missing ones, those that are
    /// down and stay so, and those created without being set up.
    pub(crate) fn devices_down<'l, D: 'l>(
        &self,
        links: impl Iterator<Item = &'l Link<D>>,
        devices: &Devices,
    ) -> BTreeSet<Dev> {
        // By name: a link made anew is declared as the new one, while next hops may refer to the
        // old one.
        let declared: BTreeMap<IfName, Option<bool>> =
            links.map(|link| (link.name, link.up)).collect();
        let planned = devices.planned().map(|(dev, name)| (dev, *name, None));
        let there = self.links.iter().map(|link| (Dev::index(link.index), link.name, link.up));
        let down = planned
            .chain(there)
            .filter(|(_, name, up)| declared.get(name).copied().flatten().or(*up) != Some(true));
        let missing = devices.missing().map(|(dev, _)| dev);
        down.map(|(dev, ..)| dev).chain(missing).collect()
    }

    /// Keeps the observed routes for which `keep` returns true.
    pub fn retain_routes(&mut self, mut keep: impl FnMut(&Route) -> bool) {
        self.routes.retain(&mut keep);
        let gone: Vec<_> =
            self.compact.iter().filter(|route| !keep(route)).map(|route| route.key()).collect();
        for key in gone {
            self.compact.remove(&key);
        }
    }
}

impl Lists for Observed {
    fn canonical_on(&self, devices: &Devices) -> Cow<'_, Observed> {
        let mut canonical = Cow::Borrowed(self);
        each_kind!(K => {
            let list = OfKind::<K>::of_kind(self);
            if let Cow::Owned(list) = Canonical::list(list.into(), devices).into_inner() {
                *OfKind::<K>::of_kind_mut(canonical.to_mut()) = list;
            }
        });
        canonical
    }
}

macro_rules! with_each_kind {
    ($({
        $(#[$doc:meta])*
        $field:ident: $kind:ident { with: $with:ident $columns:tt, $($rest:tt)* }
    })*) => {
        setters! { impl Observed {
            $($with($field: impl Into<Vec<crate::$kind>>);)*
            with_link_status(link_status: impl Into<BTreeMap<u32, LinkStatus>>);
            with_forwarding(forwarding: impl Into<Vec<ForwardingEntry>>);
            with_gateways(gateways: impl Into<BTreeMap<(u32, IpAddr), Option<Route>>>);
            with_advertised(advertised: impl Into<BTreeSet<RouteKey>>);
            with_complete(complete: Kinds);
        } }
    };
}

kinds!([with_each_kind]);

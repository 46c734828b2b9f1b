//! What was observed.

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
    /// What the kernel reported, keyed by interface index. Its objects need not be in canonical
    /// form: a plan brings them into it.
    ///
    /// - Links: every link of the namespace, as names resolve against them.
    /// - Routes: all that bear our marker; of foreign ones at least those on a desired key.
    /// - Nexthop objects: all that bear our marker; of foreign ones at least those with a number of
    ///   ours ([`crate::Nexthop::ids`]), groups that lead to one, and those that lead out of a link
    ///   that the plan touches.
    #[derive(Clone, Debug, Default, PartialEq)]
    #[non_exhaustive]
    pub struct Observed[Vec] {
        /// The status of the links, by index. One that is not here counts as running.
        pub link_status: BTreeMap<u32, LinkStatus>,
        /// Forwarding entries on links that the plan touches.
        pub forwarding: Vec<ForwardingEntry>,
        /// The gateways that were looked up, each for routes in a table, and the route by which the
        /// kernel reaches it, if it is on a link. A gateway that is not here was not looked up.
        pub gateways: BTreeMap<(u32, IpAddr), Option<Route>>,
        /// The keys of IPv6 routes of which the kernel made every route with protocol `ra`, from
        /// router advertisements.
        pub advertised: BTreeSet<RouteKey>,
        /// The kinds of which every object in question is here. Of any other kind nothing is
        /// deleted.
        pub complete: Kinds,
        /// See [`Observed::compact_routes`].
        pub(crate) compact: Routes<Dev>,
    }
}

impl Observed {
    /// Moves routes of ours to a form that takes a fifth of the memory: there can be a million.
    /// They are as much a part of what was observed as those that stay in `routes`;
    /// [`all_routes`](Self::all_routes) returns both. For a state in which routes are managed.
    ///
    /// Moved are unicast routes through one gateway, each alone on its key, if `routes` is in key
    /// order. None is moved where it takes more than the marker to tell that a route is ours.
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

    /// Returns all routes that were observed.
    pub fn all_routes(&self) -> impl Iterator<Item = Cow<'_, Route>> {
        let listed = self.routes.iter().map(Cow::Borrowed);
        listed.chain(self.compact.iter().map(Cow::Owned))
    }

    /// Returns the devices that no packet leaves by once a plan is carried out: those that are missing,
    /// that are down and are not set up, and that the plan makes and does not set up.
    pub(crate) fn devices_down<D>(
        &self,
        links: Option<&[Link<D>]>,
        devices: &Devices,
    ) -> BTreeSet<Dev> {
        // By name: one that is made again is declared as the new one, and next hops may be on the
        // former.
        let declared: BTreeMap<IfName, Option<bool>> =
            links.unwrap_or_default().iter().map(|link| (link.name, link.up)).collect();
        let planned = devices.planned().map(|(dev, name)| (dev, *name, None));
        let there = self.links.iter().map(|link| (Dev::index(link.index), link.name, link.up));
        let down = planned
            .chain(there)
            .filter(|(_, name, up)| declared.get(name).copied().flatten().or(*up) != Some(true));
        let missing = devices.missing().map(|(dev, _)| dev);
        down.map(|(dev, ..)| dev).chain(missing).collect()
    }

    /// Keeps the observed routes that `keep` wants.
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

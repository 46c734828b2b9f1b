//! The first stage: reads what is managed in the scope of a pass.

use std::borrow::Cow;
use std::collections::BTreeSet;

use trueup_net::{
    Desired, Family, Item, Kind, Kinds, Mismatches, Policy, ResolvedDevices, ResolvedRoutes, Route,
    RouteDependencies, RouteKey, Routes,
};
use trueup_observe::{Incomplete, Observer, ReadScope, Snapshot};

use super::everything;
use super::foreign_keys::ForeignKeys;
use super::in_sync_filter::InSyncFilter;
use super::known_links::KnownLinks;
use super::scope::PassScope;
use crate::Error;
use crate::ownership::ledger_view::LedgerView;
use crate::ownership::record_key::RecordKey;

/// What was read in the scope of a pass.
pub(super) struct Observation {
    pub(super) snapshot: Snapshot,
    /// What the rows that were dropped as they arrived have left, where such were dropped.
    pub(super) out_of_sync: Option<OutOfSync>,
    /// The devices, where they were resolved for the rows that arrived.
    pub(super) devices: Option<ResolvedDevices>,
    /// What is known of foreign routes on desired keys, where they were read along with ours.
    pub(super) foreign: ForeignKeys,
}

/// What is left of desired routes where those in sync were dropped as they arrived.
pub(super) struct OutOfSync {
    /// The desired routes that are not in sync; `None` if that is all of them, which can be many.
    pub(super) routes: Option<Routes>,
    /// All desired routes, resolved.
    pub(super) resolved: ResolvedRoutes,
    /// What the routes depend on that were dropped.
    pub(super) dependencies: RouteDependencies,
}

impl From<Snapshot> for Observation {
    fn from(snapshot: Snapshot) -> Observation {
        Observation { snapshot, out_of_sync: None, devices: None, foreign: ForeignKeys::default() }
    }
}

/// What is to be read, and what is known of it.
pub(super) struct Reader<'a> {
    /// The links, where they need not be read.
    pub(super) known_links: Option<&'a KnownLinks>,
    pub(super) scope: &'a PassScope,
    /// What is desired in the scope.
    pub(super) desired: &'a Desired,
    pub(super) ledger_view: &'a LedgerView,
    pub(super) policy: &'a Policy,
    /// Routes of ours that do not bear the marker.
    pub(super) unmarked: &'a BTreeSet<RouteKey>,
    /// What is known of foreign routes on keys of ours.
    pub(super) foreign: &'a ForeignKeys,
}

impl<'a> Reader<'a> {
    /// Reads what is managed, and once more what is ours by the ledger and was not there: only what
    /// is missing twice is gone.
    pub(super) fn read(&self, observer: &mut Observer) -> Result<Observation, Error> {
        let managed = self.desired.managed();
        let mut snapshot = self.read_all_but_routes(observer, self.with_addresses(managed))?;
        if self.desired.addresses.iter().flatten().next().is_some() {
            observer.mark_lost_routes(&mut snapshot.observed)?;
        }
        if let Some(routes) = &self.desired.routes {
            snapshot.observed.gateways = observer.gateways(&routes.open_gateways())?;
        }
        let drops = managed.contains(Kind::Route) && self.scope.drops_routes_in_sync();
        let filter = drops.then(|| self.filter(&snapshot)).flatten();
        let replaces =
            filter.as_ref().is_some_and(|filter| self.has_routes_to_replace(observer, filter));
        let of_all_writers = match replaces {
            true => vec![Family::Inet, Family::Inet6],
            false => Vec::from_iter(self.may_be_behind().then_some(Family::Inet)),
        };
        let scopes = self.route_scopes(&of_all_writers);
        let mut mismatches =
            self.read_routes(observer, managed, &scopes, filter.as_ref(), &mut snapshot)?;
        let foreign = self.foreign_keys(&snapshot, &of_all_writers);
        let missing = self.ledger_view.missing(&snapshot.observed);
        if missing != Kinds::NONE {
            let mut again = self.read_all_but_routes(observer, missing)?;
            let still =
                self.read_routes(observer, missing, &scopes, filter.as_ref(), &mut again)?;
            fill(&mut snapshot, again, missing);
            if let (Some(first), Some(still)) = (&mismatches, &still) {
                let is_changing = !first.contains(still);
                let reason = is_changing.then_some(Incomplete::Changing(Kind::Route));
                snapshot.mark_read(Kind::Route, reason);
                mismatches = Some(first.clone().common(still));
            }
        }
        let (devices, resolved) = match filter {
            Some(filter) => (Some(filter.devices), Some(filter.resolved)),
            None => (None, None),
        };
        let out_of_sync = mismatches.zip(resolved).map(|(mismatches, resolved)| {
            let routes = self.desired.routes.as_ref();
            let there = &snapshot.observed.routes;
            let routes = routes.filter(|_| mismatches.matched() > 0);
            OutOfSync {
                routes: routes.map(|routes| routes.mismatched(&mismatches, there)),
                resolved,
                dependencies: mismatches.dependencies().clone(),
            }
        });
        if replaces {
            // They can be most of what a pass holds, and the plan is as large again.
            snapshot.observed.compact_routes(self.policy);
        }
        Ok(Observation { snapshot, out_of_sync, devices, foreign })
    }

    /// Adds the addresses to the kinds that are read, where links are to be ports: what is on those
    /// is reported.
    fn with_addresses(&self, managed: Kinds) -> Kinds {
        let mut links = self.desired.links.iter().flatten();
        match links.any(|link| link.master.flatten().is_some()) {
            true => managed.with(Kind::Address),
            false => managed,
        }
    }

    /// Returns true if routes of ours have to be replaced, as far as the first rows of a dump tell.
    /// Before they are, the foreign routes on their keys have to be known.
    fn has_routes_to_replace(&self, observer: &mut Observer, filter: &InSyncFilter<'_>) -> bool {
        // Routes that are ours by the ledger are read by themselves.
        if !filter.is_by_marker_alone() || !self.scope.is_worth_sample(self.desired) {
            return false;
        }
        let scope = everything::route_scope(self.policy.marker);
        let differing = observer.sample_routes(&scope, &mut filter.matcher());
        // An error shows when all is read.
        differing.is_ok_and(|differing| differing > 0)
    }

    /// Returns true if another writer's IPv4 route may be in front of one of ours: of several on a
    /// key the kernel uses the first, and `ip route prepend` adds one there.
    fn may_be_behind(&self) -> bool {
        let Some(routes) = &self.desired.routes else {
            return false;
        };
        let ForeignKeys { keys, tables } = self.foreign;
        let is_unknown = |table: &(Family, u32)| table.0 == Family::Inet && !tables.contains(table);
        let is_shared =
            |key: &RouteKey| key.dst.family() == Family::Inet && self.desired.has_route(key);
        self.scope.is_everything() && routes.tables().iter().any(is_unknown)
            || keys.iter().any(is_shared)
    }

    /// The routes to read: ours, and all others of these families.
    fn route_scopes(&self, of_all_writers: &[Family]) -> Vec<ReadScope> {
        let scopes = self.scope.route_scopes(self.policy.marker).into_iter();
        let by_family = |scope: ReadScope| {
            scope.families().map(move |family| {
                let of_family = scope.clone().with_family(family);
                match of_all_writers.contains(&family) {
                    true => of_family.with_protocol(None),
                    false => of_family,
                }
            })
        };
        match of_all_writers {
            [] => scopes.collect(),
            _ => scopes.flat_map(by_family).collect(),
        }
    }

    /// Returns the foreign routes on desired keys, where those of all writers were read.
    fn foreign_keys(&self, snapshot: &Snapshot, of_all_writers: &[Family]) -> ForeignKeys {
        let mut foreign = ForeignKeys::default();
        let routes = self.desired.routes.as_ref().filter(|_| !of_all_writers.is_empty());
        let Some(routes) = routes else {
            return foreign;
        };
        let is_foreign = |route: &&Route| {
            route.protocol != self.policy.marker && self.desired.has_route(&route.key())
        };
        let there = snapshot.observed.routes.iter().filter(is_foreign);
        there.for_each(|route| foreign.add(route.key()));
        if snapshot.observed.complete.contains(Kind::Route) {
            let mut tables = routes.tables();
            tables.retain(|(family, _)| of_all_writers.contains(family));
            foreign.tables = tables;
        }
        foreign
    }

    fn filter(&self, snapshot: &Snapshot) -> Option<InSyncFilter<'a>> {
        let of_ledger = self.ledger_view.keys().filter_map(|key| match key {
            RecordKey::Route(key) => Some(*key),
            _ => None,
        });
        let kept = self.unmarked.iter().copied().chain(of_ledger).collect();
        let owned = self.ledger_view.owned(&snapshot.observed);
        let observed = &snapshot.observed;
        InSyncFilter::of(self.desired, observed, &owned, self.policy, kept)
    }

    fn read_all_but_routes(
        &self,
        observer: &mut Observer,
        managed: Kinds,
    ) -> Result<Snapshot, Error> {
        let scope = self.scope.read_scope(managed, self.policy.marker);
        match self.known_links {
            Some(known) => Ok(known.complete(observer.snapshot_beside(&scope, known.links())?)),
            None => require_all_links(observer.snapshot(&scope)?),
        }
    }

    /// Adds the routes in these scopes to a snapshot. Returns the mismatches of those that went
    /// through a filter.
    fn read_routes(
        &self,
        observer: &mut Observer,
        managed: Kinds,
        scopes: &[ReadScope],
        filter: Option<&InSyncFilter<'_>>,
        snapshot: &mut Snapshot,
    ) -> Result<Option<Mismatches>, Error> {
        if !managed.contains(Kind::Route) {
            return Ok(None);
        }
        let marker = self.policy.marker;
        let mut mismatches: Option<Mismatches> = None;
        let mut incomplete = Vec::new();
        let mut matcher = filter.map(InSyncFilter::matcher);
        let mut unread = Cow::Borrowed(self.unmarked);
        for scope in scopes {
            let is_of_all_writers = scope.protocol.is_none();
            let is_wanted = |route: &Route| {
                let key = route.key();
                route.protocol == marker
                    || self.unmarked.contains(&key)
                    || self.desired.has_route(&key)
            };
            let (mut routes, not_whole) = match &mut matcher {
                Some(matcher) => {
                    let (routes, of_scope, not_whole) = observer.match_routes(scope, matcher)?;
                    mismatches.get_or_insert_default().add(of_scope);
                    (routes, not_whole)
                }
                None => observer.routes_where(scope, is_wanted)?,
            };
            if is_of_all_writers {
                routes.retain(is_wanted);
                let is_read = |key: &RouteKey| scope.family == Some(key.dst.family());
                unread.to_mut().retain(|key| !is_read(key));
            }
            match snapshot.observed.routes.is_empty() {
                true => snapshot.observed.routes = routes,
                false => snapshot.observed.routes.extend(routes),
            }
            let is_new = |it: &Incomplete| !incomplete.contains(it);
            incomplete.extend(not_whole.filter(is_new));
        }
        snapshot.mark_read(Kind::Route, incomplete);
        snapshot.incomplete.sort_by_key(Incomplete::kind);
        if !unread.is_empty() {
            let scope = scope_of_keys(unread.iter());
            let is_unmarked =
                |route: &Route| route.protocol != marker && unread.contains(&route.key());
            let (routes, not_whole) = observer.routes_where(&scope, is_unmarked)?;
            snapshot.observed.routes.extend(routes);
            snapshot.mark_read(Kind::Route, not_whole);
        }
        Ok(mismatches)
    }
}

/// The routes, of whatever protocol, in the tables of these keys. Of many tables all are read.
pub(super) fn scope_of_keys<'k>(keys: impl Iterator<Item = &'k RouteKey>) -> ReadScope {
    let (mut families, mut tables) = (BTreeSet::new(), BTreeSet::new());
    for key in keys {
        families.insert(key.dst.family());
        tables.insert(key.table);
    }
    let only = families.first().copied().filter(|_| families.len() == 1);
    ReadScope::default()
        .with_kinds(Kinds::NONE.with(Kind::Route))
        .with_tables((tables.len() <= 16).then_some(tables))
        .with_family(only)
}

/// Refuses a snapshot whose links are incomplete: names would lead nowhere.
pub(crate) fn require_all_links(snapshot: Snapshot) -> Result<Snapshot, Error> {
    let mut incomplete = snapshot.incomplete.iter();
    match incomplete.find(|incomplete| incomplete.kind() == Kind::Link) {
        Some(incomplete) => Err(Error::links(incomplete.to_string())),
        None => Ok(snapshot),
    }
}

/// Adds the routes and rules of a second snapshot that the first has none of on the key: its dumps
/// may have lost them. Where the second lacks some of the first, they are changing.
fn fill(snapshot: &mut Snapshot, again: Snapshot, read_again: Kinds) {
    let observed = &mut snapshot.observed;
    let lacks_routes = add_missing(&mut observed.routes, again.observed.routes);
    let lacks_rules = add_missing(&mut observed.rules, again.observed.rules);
    for (kind, lacks) in [(Kind::Route, lacks_routes), (Kind::Rule, lacks_rules)] {
        if lacks && read_again.contains(kind) {
            snapshot.mark_read(kind, Some(Incomplete::Changing(kind)));
        }
    }
    for incomplete in again.incomplete {
        let is_new = !snapshot.incomplete.contains(&incomplete);
        snapshot.mark_read(incomplete.kind(), is_new.then_some(incomplete));
    }
}

/// Adds the objects of which there are none on the key. Returns true if the added lack a key.
fn add_missing<T: Item>(to: &mut Vec<T>, from: Vec<T>) -> bool {
    let there: BTreeSet<T::Key> = to.iter().map(Item::key).collect();
    let added: BTreeSet<T::Key> = from.iter().map(Item::key).collect();
    to.extend(from.into_iter().filter(|item| !there.contains(&item.key())));
    !there.is_subset(&added)
}

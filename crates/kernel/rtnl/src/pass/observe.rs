//! The first stage: reads the managed objects on a pass's keys.
//!
//! The kernel filters routes by the marker, since a host may have a million others. Routes in sync
//! are dropped as they arrive. Foreign routes are read and kept only if a plan concerns them. If
//! many routes are desired and the first of the dump must be replaced, one dump of all routes
//! serves both. Foreign IPv4 routes may be on our keys, possibly in front of ours. All are read
//! until these keys are known; from then on the subscription reports changes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trueup_net::internal::{DumpMatcher, Resolution};
use trueup_net::{
    Desired, Family, IfName, Kind, Kinds, Link, LinkStatus, Object, ObjectKey, ObjectKind,
    Observed, OfKind, Policy, Route, RouteKey, Routes, each_kind,
};
use trueup_observe::{Incomplete, Observer, ReadScope, SingleRead, Snapshot};

use super::foreign::{ENODEV, ForeignKeys, scope_of_keys};
use super::mode::{Keys, Read};
use super::{Observation, OutOfSync, Pass};
use crate::Error;
use crate::dirty_part::DirtyPart;
use crate::ownership::ledger_view::LedgerView;
use crate::ownership::record_key::RecordKey;

/// From this number of desired routes on, a pass samples the first part of a dump. With fewer, that
/// part would be too much of the whole.
///
/// The sample saves memory, not time: a pass that redirects a million routes takes 243 MB at most,
/// and 335 MB without it.
const MIN_SAMPLED: usize = 1 << 14;

/// A request for one link costs as much as this many rows of a dump.
const ROWS_OF_A_REQUEST: usize = 4;

impl Pass<'_> {
    /// Observes the keys. `None` if the interfaces differ from the baseline's, so that only a wider
    /// mode will do.
    pub(super) fn observe(&mut self) -> Result<Option<Observation>, Error> {
        if self.mode.read == Read::Nothing {
            return self.known();
        }
        let observation = match self.read() {
            // A device of the part is gone.
            Err(error) if !self.is_over_everything() && error.errno() == Some(ENODEV) => {
                return Ok(None);
            }
            read => read?,
        };
        let is_same = self.is_over_everything()
            || self
                .baseline
                .as_ref()
                .is_some_and(|before| before.has_same_links(&observation.snapshot.observed));
        Ok(is_same.then_some(observation))
    }

    /// Returns the kernel's known state on single objects' keys, with the baseline's links, none of
    /// which has changed. `None` if the kernel has something else.
    fn known(&mut self) -> Result<Option<Observation>, Error> {
        let Some((keys, baseline)) = self.mode.keys.objects().zip(self.baseline.as_mut()) else {
            return Ok(None);
        };
        let mut snapshot = Snapshot::default();
        if !keys.routes.is_empty() {
            let Some(tracker) = &baseline.tracker else {
                return Ok(None);
            };
            let there = keys.routes.iter().filter_map(|key| tracker.states.there(key));
            snapshot.observed.routes = there.flatten().cloned().collect();
            snapshot.mark_read(Kind::Route, None);
        }
        for key in &keys.others {
            let Some(tracker) = &baseline.objects else {
                return Ok(None);
            };
            for object in tracker.rows(key, self.desired, &keys.devices, &self.policy) {
                // The kernel does not announce that a neighbour has got another protocol.
                if let ObjectKey::Neighbour(_) = key
                    && self.observer.single(&object, &baseline.links)?
                        != SingleRead::Found(object.clone())
                {
                    return Ok(None);
                }
                add_object(&mut snapshot.observed, object);
            }
            snapshot.mark_read(key.kind(), None);
        }
        snapshot.observed.links = std::mem::take(&mut baseline.links);
        snapshot.mark_read(Kind::Link, None);
        Ok(Some(Observation { snapshot, ..Observation::default() }))
    }

    /// Reads the objects on the keys.
    pub(super) fn read(&mut self) -> Result<Observation, Error> {
        if let Some(events) = &mut self.events {
            let dirty = events.begin_read(self.mode.keys.part());
            self.foreign.note(&dirty, |key| {
                self.desired.has_route(key)
                    || self.ledger_view.record(&RecordKey::Route(*key)).is_some()
            });
        }
        let known_links = match self.known_links.take() {
            Some(known) if known.hold(self.observer, &self.interfaces())? => Some(known),
            _ => None,
        };
        let reader = Reader {
            known_links: known_links.as_ref(),
            keys: &self.mode.keys,
            rows: self.mode.read,
            desired: &self.wanted,
            ledger_view: &self.ledger_view,
            policy: &self.policy,
            unmarked: &self.unmarked,
            foreign: &self.foreign,
        };
        let seen = reader.read(self.observer)?;
        self.foreign.extend(seen.foreign.clone());
        Ok(seen)
    }

    /// Keeps the observed links, if the pass does not change them. A subscribed source reads them
    /// anew, since it has dropped their announcements until the next read.
    pub(super) fn keep_links(&mut self, observed: &mut Observed) {
        let is_alone = self.events.is_none() && self.is_over_everything();
        let has_links = self.desired.managed().contains(Kind::Link);
        self.known_links = (is_alone && !has_links).then(|| KnownLinks::take(observed));
    }

    /// Returns the interfaces named in the desired state and in the ledger.
    fn interfaces(&self) -> BTreeSet<IfName> {
        let mut names = self.desired.device_names();
        names.extend(self.ledger_view.keys().filter_map(|key| Some(key.interface()?.0)));
        names
    }
}

/// The links of an observation, which stay valid after the pass's plan is carried out.
///
/// A pass that changes no links needs them again only for their names, and asks for the few
/// relevant ones. With a second dump of the links instead, a pass over one route in a namespace
/// with 500 links takes 1.6 times as long.
pub(super) struct KnownLinks {
    links: Vec<Link>,
    status: BTreeMap<u32, LinkStatus>,
}

impl KnownLinks {
    /// Takes the links out of an observation.
    fn take(observed: &mut Observed) -> KnownLinks {
        KnownLinks {
            links: std::mem::take(&mut observed.links),
            status: std::mem::take(&mut observed.link_status),
        }
    }

    /// Returns true if all interfaces with these names exist and are the same as before. False if
    /// they are too many to ask for.
    fn hold(&self, observer: &mut Observer, names: &BTreeSet<IfName>) -> Result<bool, Error> {
        if names.len() * ROWS_OF_A_REQUEST > self.links.len() {
            return Ok(false);
        }
        for name in names {
            let known = self.links.iter().find(|link| link.name == *name);
            if known.is_none() || observer.link_index(name)? != known.map(|link| link.index) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the links to an observation made without them.
    fn complete(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.observed.links = self.links.clone();
        snapshot.observed.link_status = self.status.clone();
        snapshot.mark_read(Kind::Link, None);
        snapshot
    }
}

/// The comparison of routes as they arrive, resolved once for an observation. Routes in sync with
/// the desired state are not stored.
struct InSyncFilter<'a> {
    routes: &'a Routes,
    names: Resolution,
    /// Keys of which all rows are kept.
    kept: BTreeSet<RouteKey>,
}

impl<'a> InSyncFilter<'a> {
    fn matcher(&self) -> Option<DumpMatcher<'a>> {
        self.names.matcher(self.routes, self.kept.clone())
    }
}

/// The objects to read, and the facts known about them.
struct Reader<'a> {
    /// The links, if they need not be read.
    known_links: Option<&'a KnownLinks>,
    keys: &'a Keys,
    rows: Read,
    /// The desired objects on the keys.
    desired: &'a Desired,
    ledger_view: &'a LedgerView,
    policy: &'a Policy,
    /// Our routes without the marker.
    unmarked: &'a BTreeSet<RouteKey>,
    /// The known foreign routes on our keys.
    foreign: &'a ForeignKeys,
}

impl<'a> Reader<'a> {
    /// Reads the managed objects. Reads again if objects of ours by the ledger were missing, and
    /// treats only those missing twice as gone.
    fn read(&self, observer: &mut Observer) -> Result<Observation, Error> {
        let managed = self.desired.managed();
        let mut snapshot = self.read_all_but_routes(observer, self.with_addresses(managed))?;
        if self.desired.addresses.iter().flatten().next().is_some() {
            observer.mark_lost_routes(&mut snapshot.observed)?;
        }
        if let Some(routes) = &self.desired.routes {
            snapshot.observed.gateways = observer.gateways(&routes.open_gateways())?;
        }
        let drops = managed.contains(Kind::Route)
            && self.rows == Read::OutOfSync
            && !route_scopes(self.keys, self.policy.marker).is_empty();
        let filter = drops.then(|| self.filter(&snapshot.observed)).flatten();
        let replaces =
            filter.as_ref().is_some_and(|filter| self.has_routes_to_replace(observer, filter));
        let of_all_writers = if replaces {
            vec![Family::Inet, Family::Inet6]
        } else {
            Vec::from_iter(self.may_be_behind().then_some(Family::Inet))
        };
        let scopes = self.route_scopes(&of_all_writers);
        let mut matcher = filter.as_ref().and_then(InSyncFilter::matcher);
        self.read_routes(observer, managed, &scopes, matcher.as_mut(), &mut snapshot)?;
        let foreign = self.foreign_keys(&snapshot, &of_all_writers);
        let missing = self.ledger_view.missing(&snapshot.observed);
        if missing != Kinds::NONE {
            let mut again = self.read_all_but_routes(observer, missing)?;
            let mut of_routes = matcher.as_mut().filter(|_| missing.contains(Kind::Route));
            if let Some(matcher) = &mut of_routes {
                matcher.begin_again();
            }
            self.read_routes(observer, missing, &scopes, of_routes.as_deref_mut(), &mut again)?;
            fill(&mut snapshot, again, missing);
            if let Some(matcher) = of_routes {
                let reason = matcher.join().then_some(Incomplete::Changing(Kind::Route));
                snapshot.mark_read(Kind::Route, reason);
            }
        }
        let out_of_sync = matcher.map(|matcher| {
            let there = &snapshot.observed.routes;
            let routes = self.desired.routes.as_ref().filter(|_| matcher.matched() > 0);
            OutOfSync {
                routes: routes.map(|routes| matcher.out_of_sync(routes, there)),
                dependencies: matcher.into_dependencies(),
            }
        });
        if replaces {
            // They can be most of a pass's memory, and the plan is as large again.
            snapshot.observed.compact_routes(self.policy);
        }
        let names = filter.map(|filter| filter.names);
        Ok(Observation { snapshot, names, out_of_sync, foreign, ..Observation::default() })
    }

    /// Adds addresses to the kinds read if links are to be ports, since addresses on ports are
    /// reported.
    fn with_addresses(&self, managed: Kinds) -> Kinds {
        let mut links = self.desired.links.iter().flatten();
        if links.any(|link| link.master.flatten().is_some()) {
            managed.with(Kind::Address)
        } else {
            managed
        }
    }

    /// Returns true if the first rows of a dump show routes of ours that must be replaced. Before
    /// that, the foreign routes on their keys must be known.
    fn has_routes_to_replace(&self, observer: &mut Observer, filter: &InSyncFilter<'_>) -> bool {
        let is_worth_it = self.keys.is_everything() && filter.routes.len() >= MIN_SAMPLED;
        // Routes that are ours by the ledger are read separately.
        if !is_worth_it || !filter.kept.is_empty() {
            return false;
        }
        let scope = marked_routes(self.policy.marker);
        filter.matcher().is_some_and(|mut matcher| {
            let differing = observer.sample_routes(&scope, &mut matcher);
            // An error shows in the full read.
            differing.is_ok_and(|differing| differing > 0)
        })
    }

    /// Returns true if another writer's IPv4 route may be in front of one of ours. The kernel uses
    /// the first of several on a key, and `ip route prepend` adds one there.
    fn may_be_behind(&self) -> bool {
        let Some(routes) = &self.desired.routes else {
            return false;
        };
        let ForeignKeys { keys, tables } = self.foreign;
        let has_unknown = self.keys.is_everything()
            && routes.tables().iter().any(|it| it.0 == Family::Inet && !tables.contains(it));
        has_unknown
            || keys
                .iter()
                .any(|key| key.dst.family() == Family::Inet && self.desired.has_route(key))
    }

    /// Returns the routes to read: ours, and all others of these families.
    fn route_scopes(&self, of_all_writers: &[Family]) -> Vec<ReadScope> {
        let scopes = route_scopes(self.keys, self.policy.marker).into_iter();
        if of_all_writers.is_empty() {
            return scopes.collect();
        }
        scopes
            .flat_map(|scope| scope.families().map(move |family| scope.clone().with_family(family)))
            .map(|mut scope| {
                if scope.family.is_some_and(|family| of_all_writers.contains(&family)) {
                    scope.protocol = None;
                }
                scope
            })
            .collect()
    }

    /// Returns the foreign routes on desired keys, if all writers' were read.
    fn foreign_keys(&self, snapshot: &Snapshot, of_all_writers: &[Family]) -> ForeignKeys {
        let mut foreign = ForeignKeys::default();
        let routes = self.desired.routes.as_ref().filter(|_| !of_all_writers.is_empty());
        let Some(routes) = routes else {
            return foreign;
        };
        snapshot
            .observed
            .routes
            .iter()
            .filter(|route| route.protocol != self.policy.marker)
            .map(ObjectKind::key)
            .filter(|key| self.desired.has_route(key))
            .for_each(|key| foreign.add(key));
        if snapshot.observed.complete.contains(Kind::Route) {
            let mut tables = routes.tables();
            tables.retain(|(family, _)| of_all_writers.contains(family));
            foreign.tables = tables;
        }
        foreign
    }

    /// Returns the filter for arriving rows, or `None` if a route's marker and value do not suffice
    /// to decide.
    fn filter(&self, observed: &Observed) -> Option<InSyncFilter<'a>> {
        let routes = self.desired.routes.as_ref()?;
        if self.policy.by_ledger.contains(Kind::Route) {
            return None;
        }
        let owned = self.ledger_view.owned(observed);
        // An error in a link shows when the plan is made.
        let names = Resolution::of(self.desired, observed, &owned, self.policy).ok()?.with_routes(
            self.desired,
            observed,
            self.policy,
        );
        let of_ledger = self.ledger_view.keys().filter_map(|key| match key {
            RecordKey::Route(key) => Some(*key),
            _ => None,
        });
        let kept = self
            .unmarked
            .iter()
            .copied()
            .chain(of_ledger)
            // They count as another writer's, and an op may cost that writer something.
            .chain(names.outside_domain(routes, &observed.links, &owned, self.policy))
            .collect();
        Some(InSyncFilter { routes, names, kept })
    }

    fn read_all_but_routes(
        &self,
        observer: &mut Observer,
        managed: Kinds,
    ) -> Result<Snapshot, Error> {
        let scope = read_scope(self.keys, managed, self.policy.marker);
        match self.known_links {
            Some(known) => Ok(known.complete(observer.snapshot_beside(&scope, &known.links)?)),
            None => require_all_links(observer.snapshot(&scope)?),
        }
    }

    /// Adds the routes in these scopes to a snapshot, without those that a matcher drops.
    fn read_routes(
        &self,
        observer: &mut Observer,
        managed: Kinds,
        scopes: &[ReadScope],
        mut matcher: Option<&mut DumpMatcher<'_>>,
        snapshot: &mut Snapshot,
    ) -> Result<(), Error> {
        if !managed.contains(Kind::Route) {
            return Ok(());
        }
        let mut incomplete = Vec::new();
        let mut unread = Cow::Borrowed(self.unmarked);
        for scope in scopes {
            let (mut routes, not_whole) = match &mut matcher {
                Some(matcher) => observer.match_routes(scope, matcher)?,
                None => observer.routes_where(scope, |route| self.is_wanted(route))?,
            };
            if scope.protocol.is_none() {
                routes.retain(|route| self.is_wanted(route));
                unread.to_mut().retain(|key| scope.family != Some(key.dst.family()));
            }
            if snapshot.observed.routes.is_empty() {
                snapshot.observed.routes = routes;
            } else {
                snapshot.observed.routes.extend(routes);
            }
            incomplete.extend(not_whole.filter(|it| !incomplete.contains(it)));
        }
        snapshot.mark_read(Kind::Route, incomplete);
        snapshot.incomplete.sort_by_key(Incomplete::kind);
        if !unread.is_empty() {
            let scope = scope_of_keys(unread.iter());
            let (routes, not_whole) = observer.routes_where(&scope, |route| {
                route.protocol != self.policy.marker && unread.contains(&route.key())
            })?;
            snapshot.observed.routes.extend(routes);
            snapshot.mark_read(Kind::Route, not_whole);
        }
        Ok(())
    }

    /// Returns true if a route is ours, or is on a key of ours.
    fn is_wanted(&self, route: &Route) -> bool {
        let key = route.key();
        route.protocol == self.policy.marker
            || self.unmarked.contains(&key)
            || self.desired.has_route(&key)
    }
}

/// Adds an object to an observation.
pub(super) fn add_object(observed: &mut Observed, object: Object) {
    each_kind!(K => if let Ok(object) = <&K>::try_from(&object) {
        OfKind::<K>::of_kind_mut(observed).push(object.clone());
    });
}

/// Returns the scope to read on keys, without routes.
fn read_scope(keys: &Keys, managed: Kinds, marker: u8) -> ReadScope {
    match keys {
        Keys::Everything => {
            ReadScope::default().with_kinds(managed.without(Kind::Route)).with_protocol(marker)
        }
        Keys::Part(part) | Keys::Objects(part, _) => part_scope(part, managed),
        // Of foreign nexthop objects, only those with a number of ours.
        Keys::Nexthops(part) => {
            let scope = part_scope(part, managed);
            let kinds = scope.kinds.with(Kind::Nexthop);
            scope.with_kinds(kinds).with_protocol(marker)
        }
    }
}

/// Returns the scope of a part's device addresses and neighbours, and of its families' rules.
fn part_scope(part: &DirtyPart, managed: Kinds) -> ReadScope {
    let only = part.rules.first().copied().filter(|_| part.rules.len() == 1);
    let mut scope = ReadScope::default()
        .with_kinds(
            Kind::ALL
                .into_iter()
                .filter(|kind| {
                    managed.contains(*kind)
                        && match kind {
                            Kind::Address | Kind::Neighbour => !part.devices.is_empty(),
                            Kind::Rule => !part.rules.is_empty(),
                            _ => false,
                        }
                })
                .collect::<Kinds>(),
        )
        .with_devices(part.devices.keys().copied().collect::<BTreeSet<_>>());
    scope.family = only;
    scope
}

/// Returns the scopes of our routes on keys.
fn route_scopes(keys: &Keys, marker: u8) -> Vec<ReadScope> {
    let Some(part) = keys.part() else {
        return vec![marked_routes(marker)];
    };
    let mut scopes = Vec::new();
    for family in [Family::Inet, Family::Inet6] {
        let scope = marked_routes(marker).with_family(family);
        let tables: BTreeSet<u32> =
            part.tables.iter().filter(|(of, _)| *of == family).map(|(_, table)| *table).collect();
        if part.routes.contains(&family) {
            scopes.push(scope);
        } else if !tables.is_empty() {
            scopes.push(scope.with_tables(tables));
        }
    }
    scopes
}

/// Returns the scope of routes with the marker.
fn marked_routes(marker: u8) -> ReadScope {
    ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Route)).with_protocol(marker)
}

/// Refuses a snapshot with incomplete links: names could not be resolved.
pub(crate) fn require_all_links(snapshot: Snapshot) -> Result<Snapshot, Error> {
    match snapshot.incomplete.iter().find(|incomplete| incomplete.kind() == Kind::Link) {
        Some(incomplete) => Err(Error::links(incomplete.to_string())),
        None => Ok(snapshot),
    }
}

/// Adds the second snapshot's routes and rules on keys that the first lacks, since its dumps may
/// have lost them. If the second lacks some of the first's, they are changing.
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

/// Adds objects on missing keys. Returns true if `from` lacks a key of `to`.
fn add_missing<T: ObjectKind>(to: &mut Vec<T>, from: Vec<T>) -> bool {
    let there: BTreeSet<T::Key> = to.iter().map(ObjectKind::key).collect();
    let added: BTreeSet<T::Key> = from.iter().map(ObjectKind::key).collect();
    to.extend(from.into_iter().filter(|item| !there.contains(&item.key())));
    !there.is_subset(&added)
}

//! Other hosts' exports, as routes of this host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Context as _, Result, bail};
use trueup_file::{File, exported_route};
use trueup_net::{IfName, Route, RouteKey};
use trueup_reconcile::Source as _;
use trueup_rtnl::{self as rtnl, Namespace, Rtnl};
use trueup_world::{
    Acceptance, Accepted, Collect, Contest, Entry, Grants, Holdings, Protected, ResourceKey, Seen,
};

use super::probation::Sentence;
use crate::observe::authored_routes;

/// Our routes that an earlier process may have collected. They stay until it is known what other
/// hosts export.
#[derive(Clone, Debug, Default)]
pub struct Retained(BTreeMap<RouteKey, Route<IfName>>);

impl Retained {
    /// Reads the routes with our marker that a collection could have made.
    ///
    /// # Errors
    ///
    /// Fails if the namespace cannot be read whole, or if such a route cannot be declared as it is,
    /// because it could not be kept.
    pub fn read(
        namespace: &Namespace,
        options: &rtnl::Options,
        collects: &[Collect],
    ) -> Result<Retained> {
        if collects.is_empty() {
            return Ok(Retained::default());
        }
        let snapshot =
            Rtnl::new().observe(namespace, options)?.context("cannot read the namespace")?;
        if let Some(doubt) = snapshot.incomplete.first() {
            bail!("cannot know which routes were collected before: {doubt}; try again");
        }
        let (routes, left_out) = authored_routes(&snapshot.observed, |route| {
            let key = route.canonical_key();
            let is_ours = route.protocol == options.protocol();
            is_ours && collects.iter().any(|collect| collect.contains(&key))
        });
        if let Some(route) = left_out.first() {
            bail!(
                "a route of ours that may have been collected before cannot be kept as it is, \
                 {route}: delete it"
            );
        }
        let keyed = routes.into_iter().map(|it| (it.canonical_key(), it));
        Ok(Retained(keyed.collect()))
    }

    /// Returns these routes with others that stay as well.
    pub fn with(&self, others: impl IntoIterator<Item = (RouteKey, Route<IfName>)>) -> Retained {
        let mut all: BTreeMap<_, _> = others.into_iter().collect();
        all.extend(self.0.iter().map(|(key, route)| (*key, route.clone())));
        Retained(all)
    }

    /// Returns the keys of the routes that stay.
    pub fn keys(&self) -> impl Iterator<Item = &RouteKey> {
        self.0.keys()
    }
}

/// Other hosts' exports, and the routes made of them. The cost of a change depends on its size
/// alone.
#[derive(Debug)]
pub struct Collection {
    host: String,
    /// The exports that each host may make. If `None`, all are allowed.
    granted: Option<Arc<Grants>>,
    acceptance: Acceptance,
    /// The position in a collector's changes up to which this has taken them in.
    seen: Seen,
    /// The accepted routes that this host declares itself.
    yielded: BTreeSet<RouteKey>,
}

impl Collection {
    /// Makes a collection of `resources` for one look. It judges the exports of all hosts.
    pub fn new(
        declared: &File,
        host: &str,
        protected: Protected,
        granted: Option<Arc<Grants>>,
        resources: &BTreeMap<ResourceKey, Arc<Entry>>,
    ) -> Collection {
        let mut collection = Collection::empty(declared, host, granted, |all| all);
        collection.protect(&protected);
        for (key, resource) in resources {
            collection.acceptance.insert(key, resource);
        }
        collection.settle(declared);
        collection
    }

    /// Makes a collection without resources, to be updated. It judges only the exports of hosts
    /// that the file collects from.
    pub fn to_update(declared: &File, host: &str) -> Collection {
        Collection::empty(declared, host, None, Acceptance::of_collected_hosts)
    }

    /// Makes the collection of a host without a file.
    pub fn none(host: &str) -> Collection {
        Collection {
            host: host.to_owned(),
            granted: None,
            acceptance: Acceptance::new(&[], host, exported_route),
            seen: Seen::default(),
            yielded: BTreeSet::new(),
        }
    }

    fn empty(
        declared: &File,
        host: &str,
        granted: Option<Arc<Grants>>,
        of_hosts: fn(Acceptance) -> Acceptance,
    ) -> Collection {
        let collects = declared.collects.as_deref().unwrap_or_default();
        let exports = declared.exports.iter().flatten().map(|it| (&*it.name, &it.route));
        let open = Acceptance::new(collects, host, exported_route).with_exports(exports);
        let acceptance = match &granted {
            Some(grants) => open.granting(Arc::clone(grants)),
            None => open,
        };
        Collection { granted, acceptance: of_hosts(acceptance), ..Collection::none(host) }
    }

    /// Returns the position in a collector's changes. If `granted` differs from the grants in use,
    /// this is the beginning.
    pub fn seen(&self, granted: Option<&Option<Arc<Grants>>>) -> Seen {
        match granted {
            Some(granted) if *granted != self.granted => Seen::default(),
            _ => self.seen,
        }
    }

    /// Begins again if `granted` differs from the grants in use. Returns the keys of the routes
    /// that may have changed.
    pub fn regrant(&mut self, declared: &File, granted: Option<Arc<Grants>>) -> BTreeSet<RouteKey> {
        if self.granted == granted {
            return BTreeSet::new();
        }
        let mut next =
            Collection::empty(declared, &self.host, granted, Acceptance::of_collected_hosts);
        next.acceptance.protect(self.acceptance.protected());
        next.withhold_as(self);
        std::mem::replace(self, next).acceptance.keys().copied().collect()
    }

    /// Returns the contests between other hosts' exports and this host's.
    pub fn contests(&self) -> Vec<Contest> {
        self.acceptance.contests()
    }

    /// Returns this host's exports that are not granted to it, in words.
    pub fn ungranted(&self, declared: &File) -> Vec<String> {
        let Some(granted) = &self.granted else {
            return Vec::new();
        };
        let mut exports = declared.exports.clone().unwrap_or_default();
        exports.retain(|it| !granted.allows(&self.host, it.route.dst));
        let notes = exports.iter().map(|it| {
            format!(
                "{}, exported by this host as `{}`, is not granted to it by the list of grants {}: \
                 hosts with grants_key refuse it",
                it.route.dst,
                it.name.escape_debug(),
                granted.serial()
            )
        });
        notes.collect()
    }

    /// Takes in a collector's holdings. Returns the keys of the routes that may have changed.
    pub fn update(&mut self, declared: &File, holdings: &Holdings) -> BTreeSet<RouteKey> {
        self.acceptance.update(holdings);
        self.seen = holdings.seen;
        self.settle(declared)
    }

    /// Replaces the destinations that no route may lead away. Returns true if they differ from
    /// before. Takes effect in the next [`update`](Self::update) or [`settle`](Self::settle).
    pub fn protect(&mut self, protected: &Protected) -> bool {
        self.acceptance.protect(protected)
    }

    /// Withholds the routes that another collection withholds.
    pub fn withhold_as(&mut self, other: &Collection) {
        self.acceptance.withhold_as(&other.acceptance);
    }

    /// Decides about suspected routes. The next [`settle`](Self::settle) applies this.
    pub fn carry_out(&mut self, sentence: &Sentence) {
        match sentence {
            Sentence::Withdraw(keys) => {
                let why = "the store was lost right after it came: refused until it changes, or \
                           the store does not answer without it either";
                keys.iter().for_each(|key| self.acceptance.withhold(key, why));
            }
            Sentence::Confirm => self.acceptance.end_withholding(true),
            Sentence::Release => self.acceptance.end_withholding(false),
        }
    }

    /// Returns true if a route with this key is taken, and contains an address of the store.
    pub fn leads_to_store(&self, key: &RouteKey) -> bool {
        self.acceptance.route(key).is_some() && self.acceptance.protected().contains_store(key)
    }

    /// Judges the changes so far. Returns the keys of the routes that may have changed.
    pub fn settle(&mut self, declared: &File) -> BTreeSet<RouteKey> {
        let changed = self.acceptance.settle();
        for key in &changed {
            if self.acceptance.route(key).is_some() && is_declared(declared, key) {
                self.yielded.insert(*key);
            } else {
                self.yielded.remove(key);
            }
        }
        changed
    }

    /// Returns the accepted or retained route with this key, which comes beside those of the file.
    /// `None` if the file declares it.
    pub fn route<'a>(
        &'a self,
        declared: &File,
        retained: &'a Retained,
        key: &RouteKey,
    ) -> Option<&'a Route<IfName>> {
        match self.acceptance.route(key) {
            Some(route) => Some(route).filter(|_| !self.yielded.contains(key)),
            None => {
                let may_stay = !is_declared(declared, key)
                    && declared.collects.iter().flatten().any(|it| it.contains(key))
                    && self.acceptance.protected().covered(key).is_none();
                retained.0.get(key).filter(|_| may_stay)
            }
        }
    }

    /// Returns the number of retained routes in use.
    pub fn retained(&self, declared: &File, retained: &Retained) -> usize {
        let others = retained.keys().filter(|key| self.acceptance.route(key).is_none());
        others.filter(|key| self.route(declared, retained, key).is_some()).count()
    }

    /// Returns the route with this key, whether or not the file declares it. For a route that is
    /// placed.
    pub fn placed(&self, retained: &Retained, key: &RouteKey) -> Option<Route<IfName>> {
        self.acceptance.route(key).or_else(|| retained.0.get(key)).cloned()
    }

    /// Returns all accepted and retained routes, which come beside those of the file.
    pub fn routes(
        &self,
        declared: &File,
        retained: &Retained,
    ) -> BTreeMap<RouteKey, Route<IfName>> {
        (self.acceptance.keys().chain(retained.keys()))
            .filter_map(|key| Some((*key, self.route(declared, retained, key)?.clone())))
            .collect()
    }

    /// Returns the decision about each resource.
    pub fn accepted(&self, declared: &File) -> Accepted {
        let mut accepted = self.acceptance.accepted();
        if let Some(routes) = &declared.desired.routes {
            accepted.yield_to(routes);
        }
        accepted
    }

    /// Returns the number of taken routes.
    pub fn taken(&self) -> usize {
        self.acceptance.keys().len() - self.yielded.len()
    }

    /// Returns the number of refused resources.
    pub fn refused(&self) -> usize {
        self.acceptance.refused() + self.yielded.len()
    }

    /// Returns the number of routes that take traffic from another host's.
    pub fn overlaps(&self) -> usize {
        self.acceptance.overlaps()
    }
}

/// Returns true if the file declares a route with this key.
pub(super) fn is_declared(declared: &File, key: &RouteKey) -> bool {
    let routes = declared.desired.routes.as_ref();
    routes.is_some_and(|routes| routes.get(key).is_some())
}

//! What other hosts export, as routes of this host.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use trueup_file::{
    self as file, Acceptance, Accepted, Collect, Contest, Contests, File, Grant, Hosts, Protected,
};
use trueup_net::{IfName, Kind, Route, RouteKey};
use trueup_reconcile::Source as _;
use trueup_rtnl::{self as rtnl, Namespace, Rtnl};
use trueup_world::{Grants, Resource, ResourceKey, Revision};

use super::probation::Sentence;
use crate::observe::authored_routes;

/// The routes of ours that an earlier process may have collected. They stay until it is known
/// what other hosts export.
#[derive(Clone, Debug, Default)]
pub struct Retained(BTreeMap<RouteKey, Route<IfName>>);

impl Retained {
    /// Reads the routes that bear our marker, and which a collection could have made.
    ///
    /// # Errors
    ///
    /// When the namespace cannot be read whole, or such a route cannot be declared as it is: it
    /// could not be kept.
    pub fn read(
        namespace: &Namespace,
        options: &rtnl::Options,
        collects: &[Collect],
    ) -> Result<Retained> {
        if collects.is_empty() {
            return Ok(Retained::default());
        }
        let snapshot = Rtnl::new().observe(namespace, options)?.observed();
        let snapshot = snapshot.context("cannot read the namespace")?;
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

    /// Returns these, and others that stay as well.
    pub fn with(&self, others: &BTreeMap<RouteKey, Route<IfName>>) -> Retained {
        let mut all = others.clone();
        all.extend(self.0.iter().map(|(key, route)| (*key, route.clone())));
        Retained(all)
    }

    /// Returns the keys of the routes.
    pub fn keys(&self) -> impl Iterator<Item = &RouteKey> {
        self.0.keys()
    }
}

/// What other hosts export, and the routes that are made of it. A change costs what it changes.
#[derive(Debug, Default)]
pub struct Collection {
    host: String,
    /// The hosts whose exports may become routes. Those of others are not judged.
    from: Vec<Hosts>,
    /// What hosts may export; none, anything.
    granted: Option<Arc<Grants>>,
    resources: BTreeMap<ResourceKey, Resource>,
    acceptance: Acceptance,
    contests: Contests,
    /// The accepted routes that this host declares itself.
    yielded: BTreeSet<RouteKey>,
    /// What no route may lead away, also none that is retained.
    protected: Protected,
}

impl Collection {
    /// Makes one of what there is, which judges the exports of all hosts, on a host with something
    /// to protect.
    pub fn new(
        declared: &File,
        host: &str,
        protected: Protected,
        granted: Option<Arc<Grants>>,
        resources: BTreeMap<ResourceKey, Resource>,
    ) -> Collection {
        let mut collection = Collection::empty(declared, host, vec![Hosts::Any], granted);
        collection.protect(protected);
        collection.update(declared, resources);
        collection
    }

    /// Makes one without resources, which judges the exports of the hosts that the file collects
    /// from.
    pub fn to_update(declared: &File, host: &str) -> Collection {
        let from = declared.collects.iter().flatten();
        let from = from.map(|collect| collect.from.clone()).collect();
        Collection::empty(declared, host, from, None)
    }

    fn empty(
        declared: &File,
        host: &str,
        from: Vec<Hosts>,
        granted: Option<Arc<Grants>>,
    ) -> Collection {
        let collects = declared.collects.as_deref().unwrap_or_default();
        let exports = declared.exports.as_deref().unwrap_or_default();
        let mut acceptance = Acceptance::new(collects, host);
        let mut contests = Contests::new(exports, host);
        if let Some(grants) = granted.clone() {
            let grant = Grant::new(move |exporter, dst| grants.allows(exporter, dst));
            acceptance = acceptance.granting(grant.clone());
            contests = contests.granting(grant);
        }
        Collection {
            host: host.to_owned(),
            from,
            granted,
            acceptance,
            contests,
            ..Collection::default()
        }
    }

    /// Takes in what hosts may export now. Returns the keys of the routes that may be others than
    /// before.
    pub fn regrant(&mut self, declared: &File, granted: Option<Arc<Grants>>) -> BTreeSet<RouteKey> {
        if self.granted == granted {
            return BTreeSet::new();
        }
        let mut changed: BTreeSet<RouteKey> = self.acceptance.routes().keys().copied().collect();
        let mut next = Collection::empty(declared, &self.host, self.from.clone(), granted);
        next.protect(self.protected.clone());
        next.withhold_as(self);
        let before = std::mem::replace(self, next);
        changed.extend(self.update(declared, before.resources));
        changed
    }

    /// Returns what other hosts export of the prefixes that this host exports.
    pub fn contests(&self) -> Vec<Contest> {
        self.contests.all()
    }

    /// Returns the exports of this host that are not granted to it, in words.
    pub fn ungranted(&self, declared: &File) -> Vec<String> {
        let Some(granted) = &self.granted else {
            return Vec::new();
        };
        let exports = declared.exports.iter().flatten();
        let exports = exports.filter(|it| !granted.allows(&self.host, it.route.dst));
        exports
            .map(|it| {
                format!(
                    "{}, exported by this host as `{}`, is not granted to it by the list of \
                     grants {}: hosts with grants_key refuse it",
                    it.route.dst,
                    it.name.escape_debug(),
                    granted.serial()
                )
            })
            .collect()
    }

    /// Takes in what there is now. Returns the keys of the routes that may be others than before.
    pub fn update(
        &mut self,
        declared: &File,
        resources: BTreeMap<ResourceKey, Resource>,
    ) -> BTreeSet<RouteKey> {
        let before = std::mem::replace(&mut self.resources, resources);
        let (mut old, mut new) = (before.iter().peekable(), self.resources.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some((old, _)), Some((new, _))) => old.cmp(new),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let was = order.is_le().then(|| old.next()).flatten();
            let now = order.is_ge().then(|| new.next()).flatten();
            // A lease or a revision alone says nothing else.
            if was.map(content) == now.map(content) {
                continue;
            }
            let is_judged = |(key, _): &(&ResourceKey, _)| {
                let mut from = self.from.iter();
                from.any(|it| it.contains(&key.exporter))
            };
            if let Some(was) = was {
                with_exported(was, |it| self.contests.remove(it));
                if is_judged(&was) {
                    with_exported(was, |it| self.acceptance.remove(it));
                }
            }
            if let Some(now) = now {
                with_exported(now, |it| self.contests.insert(it));
                if is_judged(&now) {
                    with_exported(now, |it| self.acceptance.insert(it));
                }
            }
        }
        self.settle(declared)
    }

    /// Replaces what no route may lead away. Returns true if it was something else. It counts from
    /// the next [`update`](Self::update) or [`settle`](Self::settle) on.
    pub fn protect(&mut self, protected: Protected) -> bool {
        let is_new = self.protected != protected;
        if is_new {
            self.acceptance.protect(&protected);
            self.protected = protected;
        }
        is_new
    }

    /// Withholds what another collection withholds.
    pub fn withhold_as(&mut self, other: &Collection) {
        self.acceptance.withhold_as(&other.acceptance);
    }

    /// Decides about suspected routes, as [`settle`](Self::settle) finds then.
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

    /// Returns true if a route of this key is taken, and contains an address of the store.
    pub fn leads_to_store(&self, key: &RouteKey) -> bool {
        self.acceptance.routes().contains_key(key) && self.protected.contains_store(key)
    }

    /// Judges what has changed. Returns the keys of the routes that may be others than before.
    pub fn settle(&mut self, declared: &File) -> BTreeSet<RouteKey> {
        let changed = self.acceptance.settle();
        for key in &changed {
            match self.acceptance.routes().contains_key(key) && is_declared(declared, key) {
                true => self.yielded.insert(*key),
                false => self.yielded.remove(key),
            };
        }
        changed
    }

    /// Returns the route of this key to have beside those of the file: what was accepted, or what
    /// is retained.
    pub fn route<'a>(
        &'a self,
        declared: &File,
        retained: &'a Retained,
        key: &RouteKey,
    ) -> Option<&'a Route<IfName>> {
        match self.acceptance.routes().get(key) {
            Some((route, _)) => Some(route).filter(|_| !self.yielded.contains(key)),
            None => {
                let mut collects = declared.collects.iter().flatten();
                let may_stay = !is_declared(declared, key)
                    && collects.any(|it| it.contains(key))
                    && self.protected.covered(key).is_none();
                retained.0.get(key).filter(|_| may_stay)
            }
        }
    }

    /// Returns how many of those routes are retained.
    pub fn retained(&self, declared: &File, retained: &Retained) -> usize {
        let others = retained.keys().filter(|key| !self.acceptance.routes().contains_key(key));
        others.filter(|key| self.route(declared, retained, key).is_some()).count()
    }

    /// Returns all routes to have beside those of the file.
    pub fn routes(
        &self,
        declared: &File,
        retained: &Retained,
    ) -> BTreeMap<RouteKey, Route<IfName>> {
        let accepted = self.acceptance.routes().keys();
        let keys: BTreeSet<&RouteKey> = accepted.chain(retained.keys()).collect();
        let route = |key: &RouteKey| Some((*key, self.route(declared, retained, key)?.clone()));
        keys.into_iter().filter_map(route).collect()
    }

    /// Returns what became of each resource.
    pub fn accepted(&self, declared: &File) -> Accepted {
        let mut accepted = self.acceptance.accepted();
        if let Some(routes) = &declared.desired.routes {
            accepted.yield_to(routes);
        }
        accepted
    }

    /// Returns how many routes are taken.
    pub fn taken(&self) -> usize {
        self.acceptance.routes().len() - self.yielded.len()
    }

    /// Returns how many resources are refused.
    pub fn refused(&self) -> usize {
        self.acceptance.refused() + self.yielded.len()
    }

    /// Returns how many routes take traffic from another host's.
    pub fn overlaps(&self) -> usize {
        self.acceptance.overlaps()
    }
}

fn is_declared(declared: &File, key: &RouteKey) -> bool {
    let routes = declared.desired.routes.as_ref();
    routes.is_some_and(|routes| routes.get(key).is_some())
}

fn content<'a>((_, resource): (&ResourceKey, &'a Resource)) -> (Revision, &'a [u8]) {
    (resource.created, &resource.data)
}

/// Passes a resource on as the file's crate takes it, if it is a route.
fn with_exported(
    (key, resource): (&ResourceKey, &Resource),
    with: impl FnOnce(file::Resource<'_>),
) {
    if key.kind == Kind::Route.name() {
        with(file::Resource {
            exporter: &key.exporter,
            name: &String::from_utf8_lossy(&key.name),
            created: resource.created.0,
            data: &resource.data,
        });
    }
}

//! [`Acceptance`]: the accepted exports of other hosts, updated with each change. The cost of a
//! change depends on its size, and not on the number of exports.

mod accepted;
mod barrier;
mod contests;
mod offer;
mod overlaps;
mod protected;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use trueup_net::{IfName, Kind, Prefix, Route, RouteKey};

use crate::collector::Holdings;
use crate::resources::ResourceKey;
use crate::store::Entry;
pub use accepted::{Accepted, Origin, Overlap, Refused};
use barrier::Barrier;
use contests::Contests;
pub use contests::{Contest, ContestEffect};
pub use offer::{Collect, check_route};
use offer::{Id, Offer};
use overlaps::{Overlaps, Owners};
pub use protected::Protected;

/// One host's exports for one collection: those that make a route, or would without the limit.
#[derive(Default)]
struct Share {
    taken: BTreeSet<Arc<Id>>,
    /// Refused only because of the limit. Once all are judged, they come after the taken ones.
    waiting: BTreeSet<Arc<Id>>,
}

/// Reads exported data as a route. The error says why it is not one.
type Read = fn(&[u8]) -> Result<Route<IfName>, String>;

/// Returns true if a host may export a route to a destination.
type Granted = Arc<dyn Fn(&str, Prefix) -> bool + Send + Sync>;

/// The accepted exports of other hosts, and their contests of this host's own exports, updated with
/// each change. Exports are untrusted input: checked, bounded and confined.
///
/// If two exports make the same route, the one that was made first wins, on every host. A
/// collection takes a route only from its hosts, to destinations within its prefixes, and up to its
/// limit for each host. The exports that were made first count. The route's table and device are
/// the collection's.
///
/// Inserted and removed exports take effect with the next [`settle`](Self::settle).
pub struct Acceptance {
    /// This host's name.
    host: String,
    read: Read,
    collects: Vec<Collect>,
    /// The check for granted exports. If `None`, all exports count.
    granted: Option<Granted>,
    /// True to leave out exports of hosts that no collection takes from, instead of refusing them.
    is_of_collected: bool,
    offers: HashMap<Arc<ResourceKey>, Offer>,
    contests: Contests,
    /// The exports that would make the same route, by the route's key.
    rivals: HashMap<RouteKey, BTreeSet<Arc<Id>>>,
    /// The shares of each collection, by exporter.
    shares: Vec<HashMap<String, Share>>,
    owners: Owners,
    /// The exports that make no route, with the reasons.
    refused: BTreeMap<Arc<Id>, String>,
    overlaps: Overlaps,
    barrier: Barrier,
    /// The exports to judge.
    dirty: BTreeSet<Arc<Id>>,
    changed: BTreeSet<RouteKey>,
}

impl Acceptance {
    /// Makes an acceptance without any export, for the collections of `host`, this host. `read`
    /// reads exported data.
    pub fn new(
        collects: &[Collect],
        host: &str,
        read: fn(&[u8]) -> Result<Route<IfName>, String>,
    ) -> Acceptance {
        Acceptance {
            host: host.to_owned(),
            read,
            collects: collects.to_vec(),
            granted: None,
            is_of_collected: false,
            offers: HashMap::new(),
            contests: Contests::default(),
            rivals: HashMap::new(),
            shares: collects.iter().map(|_| HashMap::new()).collect(),
            owners: Owners::new(),
            refused: BTreeMap::new(),
            overlaps: Overlaps::default(),
            barrier: Barrier::default(),
            dirty: BTreeSet::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Watches other hosts' exports of the prefixes that this host exports. Each of these has a
    /// name.
    #[must_use]
    pub fn with_exports<'a>(
        mut self,
        exports: impl IntoIterator<Item = (&'a str, &'a Route<IfName>)>,
    ) -> Acceptance {
        for (name, route) in exports {
            self.contests.declare(name, route);
        }
        self
    }

    /// Refuses exports that are not granted. They make no route, and are no rivals of other
    /// exports.
    #[cfg(feature = "grants")]
    #[must_use]
    pub fn granting(self, grants: Arc<crate::Grants>) -> Acceptance {
        let granted: Granted = Arc::new(move |exporter, dst| grants.allows(exporter, dst));
        Acceptance { granted: Some(granted), ..self }
    }

    /// Leaves out exports of hosts that no collection takes from, instead of refusing them.
    #[must_use]
    pub fn of_collected_hosts(self) -> Acceptance {
        Acceptance { is_of_collected: true, ..self }
    }

    /// Takes in a collector's holdings: everything, or the changes.
    pub fn update(&mut self, holdings: &Holdings) {
        if holdings.is_all {
            let gone: Vec<Arc<ResourceKey>> = (self.offers.keys())
                .chain(self.contests.keys())
                .filter(|key| !holdings.changes.contains_key(&***key))
                .cloned()
                .collect();
            gone.iter().for_each(|key| self.remove(key));
        }
        for (key, now) in &holdings.changes {
            match now {
                Some(resource) => self.insert(key, resource),
                None => self.remove(key),
            }
        }
    }

    /// Adds an export, or replaces it.
    pub fn insert(&mut self, key: &ResourceKey, resource: &Arc<Entry>) {
        if key.kind != Kind::Route.name()
            || self.offers.get(key).is_some_and(|it| it.is_of(resource))
        {
            return;
        }
        self.remove(key);
        let is_own = key.exporter == self.host;
        let is_judged = !is_own && self.judges(&key.exporter);
        if !is_judged && self.contests.is_empty() {
            return;
        }
        let exported =
            (self.read)(&resource.value).and_then(|route| check_route(&route).map(|()| route));
        let id = Arc::new(Id { created: resource.created, key: Arc::new(key.clone()) });
        if is_own {
            if let Ok(route) = exported {
                self.contests.insert_own(&id, route.dst);
            }
            return;
        }
        let denied = exported.as_ref().ok().map(|route| route.dst).filter(|dst| {
            self.granted.as_ref().is_some_and(|granted| !granted(&key.exporter, *dst))
        });
        if let (Ok(route), None) = (&exported, denied) {
            self.contests.insert(&id, route);
        }
        if is_judged {
            let mut offer = Offer::new(id, resource, exported.as_ref(), &self.collects);
            if let Some(dst) = denied {
                offer.refuse(format!("{dst} is not granted to host {}", key.exporter));
            }
            self.add(offer);
        }
    }

    /// Removes an export. Does nothing if it was not inserted.
    pub fn remove(&mut self, key: &ResourceKey) {
        self.contests.remove(key);
        let Some(id) = self.offers.get(key).map(|offer| Arc::clone(&offer.id)) else {
            return;
        };
        self.take(&id, BTreeSet::new(), BTreeSet::new());
        let Some(offer) = self.offers.remove(key) else {
            return;
        };
        self.dirty.extend(self.barrier.remove(&offer));
        self.dirty.remove(&id);
        self.refused.remove(&id);
        for key in offer.keys() {
            let Some(rivals) = self.rivals.get_mut(&key) else {
                continue;
            };
            rivals.remove(&id);
            if rivals.is_empty() {
                self.rivals.remove(&key);
            }
        }
    }

    /// Replaces the addresses that no route may lead away. Returns true if they differ from before.
    pub fn protect(&mut self, protected: &Protected) -> bool {
        let is_new = self.barrier.protect(protected);
        if is_new {
            let concerned = self.offers.values().filter(|offer| offer.destination().is_some());
            self.dirty.extend(concerned.map(|offer| Arc::clone(&offer.id)));
        }
        is_new
    }

    /// Returns the addresses that no route may lead away.
    pub fn protected(&self) -> &Protected {
        self.barrier.protected()
    }

    /// Refuses the export that makes the route with this key. The refusal ends when it is
    /// [released](Self::end_withholding), or when the export changes.
    pub fn withhold(&mut self, key: &RouteKey, reason: &str) {
        if let Some(offer) = self.owners.get(key).and_then(|id| self.offers.get(&id.key)) {
            self.dirty.insert(Arc::clone(&offer.id));
            self.barrier.withhold(offer, reason.to_owned());
        }
    }

    /// Ends the [withholding](Self::withhold) of exports. If `is_confirmed`, they stay refused
    /// until they change. If not, they are judged again.
    pub fn end_withholding(&mut self, is_confirmed: bool) {
        if is_confirmed {
            self.barrier.confirm();
        } else {
            self.dirty.extend(self.barrier.release());
        }
    }

    /// Withholds the exports that another acceptance withholds.
    pub fn withhold_as(&mut self, other: &Acceptance) {
        self.dirty.extend(self.barrier.withhold_as(&other.barrier));
    }

    /// Judges the changed exports, in order. Returns the keys of the routes that have changed.
    pub fn settle(&mut self) -> BTreeSet<RouteKey> {
        while let Some(id) = self.dirty.pop_first() {
            self.judge(&id);
        }
        let changed = std::mem::take(&mut self.changed);
        self.overlaps.update(&self.owners, &changed);
        changed
    }

    /// Returns the keys of the accepted routes.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &RouteKey> {
        self.owners.keys()
    }

    /// Returns the accepted route with a key. `None` if there is none.
    pub fn route(&self, key: &RouteKey) -> Option<&Route<IfName>> {
        self.offers.get(&self.owners.get(key)?.key)?.route(key)
    }

    /// Returns the number of refused exports.
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Returns the number of routes that take traffic from another host's.
    pub fn overlaps(&self) -> usize {
        self.overlaps.len()
    }

    /// Returns the contests between other hosts' exports and this host's. For each export of this
    /// host and each other host, there is at most one contest of the whole prefix and one of parts.
    /// Contests that lose traffic come first.
    pub fn contests(&self) -> Vec<Contest> {
        self.contests.all()
    }

    /// Returns all accepted routes, refused exports and overlaps.
    pub fn accepted(&self) -> Accepted {
        Accepted {
            routes: (self.owners.iter())
                .filter_map(|(key, id)| Some((*key, (self.route(key)?.clone(), id.origin()))))
                .collect(),
            refused: (self.refused.iter())
                .map(|(id, reason)| Refused {
                    origin: id.origin(),
                    dst: self.offers.get(&id.key).and_then(|offer| offer.dst),
                    reason: reason.clone(),
                })
                .collect(),
            overlaps: self.overlaps.all(&self.owners),
        }
    }

    /// True if this host's collections judge the exports of `exporter`.
    fn judges(&self, exporter: &str) -> bool {
        !self.is_of_collected || self.collects.iter().any(|it| it.from.contains(exporter))
    }

    fn add(&mut self, offer: Offer) {
        for key in offer.keys() {
            self.rivals.entry(key).or_default().insert(Arc::clone(&offer.id));
        }
        self.dirty.extend(self.barrier.insert(&offer));
        self.dirty.insert(Arc::clone(&offer.id));
        self.offers.insert(Arc::clone(&offer.id.key), offer);
    }

    /// Judges an export. All exports before it are already judged.
    fn judge(&mut self, id: &Arc<Id>) {
        // A withheld export may be gone, or have been replaced.
        let Some(offer) = self.offers.get(&id.key).filter(|offer| offer.id == *id) else {
            return;
        };
        let mut reason = match &offer.error {
            Some(error) => error.clone(),
            None => format!("no collection takes from host {}", id.key.exporter),
        };
        let (mut taken, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        for (position, route) in &offer.routes {
            let key = match route {
                Ok((key, _)) => key,
                Err(why) => {
                    reason.clone_from(why);
                    continue;
                }
            };
            if let Some(why) = self.barrier.refusal(offer, key) {
                reason = why;
            } else if let Some(owner) = self.owners.get(key).filter(|owner| *owner < id) {
                reason = format!("{} was exported first: {}", key.dst, owner.origin());
            } else if self.is_full(*position, id) {
                let limit = self.collects[*position].limit;
                reason = format!("the limit of {limit} from one host is reached");
                waiting.insert(*position);
            } else {
                taken.insert((*position, *key));
            }
        }
        if taken.is_empty() {
            self.refused.insert(Arc::clone(id), reason);
        } else {
            self.refused.remove(id);
        }
        self.take(id, taken, waiting);
    }

    /// True if exports before this one use up the collection's limit for the exporter.
    fn is_full(&self, position: usize, id: &Arc<Id>) -> bool {
        let limit = self.collects[position].limit as usize;
        let Some(Share { taken, .. }) = self.shares[position].get(&id.key.exporter) else {
            return false;
        };
        taken.len() >= limit
            && (taken.last().is_some_and(|last| last < id)
                || taken.range(..Arc::clone(id)).count() >= limit)
    }

    /// Sets the routes that an export makes, and the collections whose limit it waits for. Later
    /// exports that this affects are judged again.
    fn take(&mut self, id: &Arc<Id>, taken: BTreeSet<(usize, RouteKey)>, waiting: BTreeSet<usize>) {
        let Some(offer) = self.offers.get_mut(&id.key) else {
            return;
        };
        let positions: Vec<usize> = offer.routes.iter().map(|(position, _)| *position).collect();
        let before = std::mem::replace(&mut offer.taken, taken.clone());
        for (_, key) in before.difference(&taken) {
            self.release(key, id);
        }
        for (position, key) in &taken {
            let is_owner = self.owners.insert(*key, Arc::clone(id)).as_ref() == Some(id);
            if !is_owner {
                self.judge_rivals(key, id);
            }
            if !is_owner || !before.contains(&(*position, *key)) {
                self.changed.insert(*key);
            }
        }
        for position in positions {
            let is_taken = taken.iter().any(|(of, _)| *of == position);
            self.share(position, id, is_taken, waiting.contains(&position));
        }
    }

    /// Removes the route with a key, if it comes from this export.
    fn release(&mut self, key: &RouteKey, id: &Arc<Id>) {
        if self.owners.get(key) == Some(id) {
            self.owners.remove(key);
            self.changed.insert(*key);
            self.judge_rivals(key, id);
        }
    }

    /// Judges later exports of the same route again.
    fn judge_rivals(&mut self, key: &RouteKey, id: &Arc<Id>) {
        if let Some(rivals) = self.rivals.get(key) {
            self.dirty.extend(after(rivals, id).cloned());
        }
    }

    /// Records whether a collection takes an export. If there are now too many, the last ones are
    /// judged again. If there is room, the first waiting ones are.
    fn share(&mut self, position: usize, id: &Arc<Id>, is_taken: bool, is_waiting: bool) {
        let shares = &mut self.shares[position];
        let exporter = &id.key.exporter;
        if !is_taken && !is_waiting && !shares.contains_key(exporter) {
            return;
        }
        let share = shares.entry(exporter.clone()).or_default();
        for (all, is_in) in [(&mut share.taken, is_taken), (&mut share.waiting, is_waiting)] {
            if is_in {
                all.insert(Arc::clone(id));
            } else {
                all.remove(id);
            }
        }
        let limit = self.collects[position].limit as usize;
        let too_many = share.taken.len().saturating_sub(limit);
        let room = limit.saturating_sub(share.taken.len());
        let last = after(&share.taken, id).rev().take(too_many);
        let first = after(&share.waiting, id).take(room);
        self.dirty.extend(last.chain(first).cloned());
        if share.taken.is_empty() && share.waiting.is_empty() {
            shares.remove(exporter);
        }
    }
}

/// Returns the exports after a given one.
fn after<'a>(
    all: &'a BTreeSet<Arc<Id>>,
    id: &Arc<Id>,
) -> impl DoubleEndedIterator<Item = &'a Arc<Id>> {
    all.range((Excluded(Arc::clone(id)), Unbounded))
}

impl fmt::Debug for Acceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptance(..)")
    }
}

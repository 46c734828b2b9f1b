//! [`Acceptance`]: what is accepted of the resources of other hosts, kept from change to change. A
//! change costs what it changes, and not what there is.

mod barrier;
mod offer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use trueup_net::{IfName, Route, RouteKey};

use super::overlaps::Overlaps;
use super::{Accepted, Collect, Grant, Origin, Protected, Refused, Resource};
use barrier::Barrier;
use offer::{Id, Offer};

/// The resources of one host that make a route of one collection, or would without its limit.
#[derive(Default)]
struct Share {
    taken: BTreeSet<Arc<Id>>,
    /// Refused for the limit alone. Once all are judged they come after those that are taken.
    waiting: BTreeSet<Arc<Id>>,
}

/// What is accepted of the resources of other hosts, kept from change to change.
///
/// What is inserted and removed counts from the next [`settle`](Self::settle) on. The result is
/// that of [`accept`](crate::accept) for the resources that are there then.
#[derive(Default)]
pub struct Acceptance {
    collects: Vec<Collect>,
    /// This host.
    host: String,
    /// Which exports count; none, all do.
    grant: Option<Grant>,
    offers: BTreeMap<Arc<Id>, Offer>,
    /// Those that would make the same route.
    rivals: BTreeMap<RouteKey, BTreeSet<Arc<Id>>>,
    /// For each collection, by the exporter.
    shares: Vec<HashMap<String, Share>>,
    owners: BTreeMap<RouteKey, Arc<Id>>,
    routes: BTreeMap<RouteKey, (Route<IfName>, Origin)>,
    refused: BTreeMap<Arc<Id>, Refused>,
    overlaps: Overlaps,
    barrier: Barrier,
    /// To be judged.
    dirty: BTreeSet<Arc<Id>>,
    changed: BTreeSet<RouteKey>,
}

impl Acceptance {
    /// Makes one without any resource, for the collections of `host`, this host.
    pub fn new(collects: &[Collect], host: &str) -> Acceptance {
        Acceptance {
            collects: collects.to_vec(),
            host: host.to_owned(),
            shares: collects.iter().map(|_| HashMap::new()).collect(),
            ..Acceptance::default()
        }
    }

    /// Refuses what is not granted: it makes no route, and is in nobody's way.
    #[must_use]
    pub fn granting(self, grant: Grant) -> Acceptance {
        Acceptance { grant: Some(grant), ..self }
    }

    /// Adds a resource. What this host exported itself is left out.
    pub fn insert(&mut self, resource: Resource<'_>) {
        if resource.exporter == self.host {
            return;
        }
        let mut id = Id::of(resource);
        id.copy = self.copies(&id);
        let id = Arc::new(id);
        let mut offer = Offer::read(&self.collects, resource);
        if let Some(grant) = &self.grant {
            offer.require(grant, resource.exporter);
        }
        for key in offer.keys() {
            let rivals = self.rivals.entry(key).or_default();
            rivals.insert(Arc::clone(&id));
        }
        self.dirty.extend(self.barrier.insert(&id, &offer));
        self.dirty.insert(Arc::clone(&id));
        self.offers.insert(id, offer);
    }

    /// Removes a resource that was inserted. One that was not is no error.
    pub fn remove(&mut self, resource: Resource<'_>) {
        let mut id = Id::of(resource);
        let Some(last) = self.copies(&id).checked_sub(1) else {
            return;
        };
        id.copy = last;
        let Some((id, _)) = self.offers.get_key_value(&id) else {
            return;
        };
        let id = Arc::clone(id);
        self.take(&id, BTreeMap::new(), BTreeSet::new());
        let Some(offer) = self.offers.remove(&id) else {
            return;
        };
        self.dirty.extend(self.barrier.remove(&id, &offer));
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

    /// Replaces what no route may lead away.
    pub fn protect(&mut self, protected: &Protected) {
        if self.barrier.protect(protected) {
            let offers = self.offers.iter();
            let offers = offers.filter(|(_, offer)| offer.destination().is_some());
            self.dirty.extend(offers.map(|(id, _)| Arc::clone(id)));
        }
    }

    /// Refuses the resource that makes the route of a key, until that is [confirmed or
    /// released](Self::end_withholding), or it changes.
    pub fn withhold(&mut self, key: &RouteKey, reason: &str) {
        if let Some(id) = self.owners.get(key) {
            self.dirty.insert(Arc::clone(id));
            self.barrier.withhold(Arc::clone(id), reason.to_owned());
        }
    }

    /// Refuses the resources that are [withheld](Self::withhold) until they change, or judges them
    /// anew.
    pub fn end_withholding(&mut self, is_confirmed: bool) {
        match is_confirmed {
            true => self.barrier.confirm(),
            false => self.dirty.extend(self.barrier.release()),
        }
    }

    /// Withholds what another acceptance withholds.
    pub fn withhold_as(&mut self, other: &Acceptance) {
        self.dirty.extend(self.barrier.withhold_as(&other.barrier));
    }

    /// Judges what has changed, in order. Returns the keys whose routes are others than before.
    pub fn settle(&mut self) -> BTreeSet<RouteKey> {
        while let Some(id) = self.dirty.pop_first() {
            self.judge(&id);
        }
        let changed = std::mem::take(&mut self.changed);
        self.overlaps.update(&self.routes, &changed);
        changed
    }

    /// Returns the routes, by key, each with its resource.
    pub fn routes(&self) -> &BTreeMap<RouteKey, (Route<IfName>, Origin)> {
        &self.routes
    }

    /// Returns how many resources are refused.
    pub fn refused(&self) -> usize {
        self.refused.len()
    }

    /// Returns how many routes take traffic from another host's.
    pub fn overlaps(&self) -> usize {
        self.overlaps.len()
    }

    /// Returns all that is accepted and refused.
    pub fn accepted(&self) -> Accepted {
        Accepted {
            routes: self.routes.clone(),
            refused: self.refused.values().cloned().collect(),
            overlaps: self.overlaps.all(&self.routes),
        }
    }

    /// Returns how many resources are the same as this one, whatever its number.
    fn copies(&self, id: &Id) -> usize {
        let from = self.offers.range::<Id, _>(id..);
        from.take_while(|(it, _)| it.is_copy_of(id)).count()
    }

    /// Decides about a resource. All that come before it are decided.
    fn judge(&mut self, id: &Arc<Id>) {
        let Some(offer) = self.offers.get(id) else {
            return;
        };
        let mut reason = match &offer.error {
            Some(error) => error.clone(),
            None => format!("no collection takes from host {}", id.exporter),
        };
        let (mut taken, mut waiting) = (BTreeMap::new(), BTreeSet::new());
        for (position, route) in &offer.routes {
            let dst = offer.dst.map(|dst| dst.to_string()).unwrap_or_default();
            let limit = self.collects[*position].limit;
            let (key, route) = match route {
                Ok(made) => made,
                Err(why) => {
                    reason.clone_from(why);
                    continue;
                }
            };
            let owner = self.owners.get(key);
            if let Some(why) = self.barrier.refusal(id, offer, key) {
                reason = why;
            } else if let Some(owner) = owner.filter(|owner| *owner < id) {
                reason = format!("{dst} was exported first: {}", owner.origin());
            } else if self.is_full(*position, id) {
                reason = format!("the limit of {limit} from one host is reached");
                waiting.insert(*position);
            } else {
                taken.insert((*position, *key), route.clone());
            }
        }
        let refused =
            taken.is_empty().then(|| Refused { origin: id.origin(), dst: offer.dst, reason });
        match refused {
            Some(refused) => drop(self.refused.insert(Arc::clone(id), refused)),
            None => drop(self.refused.remove(id)),
        }
        self.take(id, taken, waiting);
    }

    /// True if a collection takes as many of the exporter as it may before a resource.
    fn is_full(&self, position: usize, id: &Arc<Id>) -> bool {
        let limit = self.collects[position].limit as usize;
        let Some(Share { taken, .. }) = self.shares[position].get(&id.exporter) else {
            return false;
        };
        taken.len() >= limit
            && (taken.last().is_some_and(|last| last < id)
                || taken.range(..Arc::clone(id)).count() >= limit)
    }

    /// Has a resource make these routes and no others, and wait for the limits of these
    /// collections. Those after it that this concerns are judged again.
    fn take(
        &mut self,
        id: &Arc<Id>,
        taken: BTreeMap<(usize, RouteKey), Route<IfName>>,
        waiting: BTreeSet<usize>,
    ) {
        let now: BTreeSet<(usize, RouteKey)> = taken.keys().copied().collect();
        let Some(offer) = self.offers.get_mut(id) else {
            return;
        };
        let positions: Vec<usize> = offer.routes.iter().map(|(position, _)| *position).collect();
        let before = std::mem::replace(&mut offer.taken, now.clone());
        for (_, key) in before.difference(&now) {
            self.release(key, id);
        }
        for ((position, key), route) in taken {
            let is_owner = self.owners.insert(key, Arc::clone(id)).as_ref() == Some(id);
            self.routes.insert(key, (route, id.origin()));
            if !is_owner {
                self.judge_rivals(&key, id);
            }
            if !is_owner || !before.contains(&(position, key)) {
                self.changed.insert(key);
            }
        }
        for position in positions {
            let is_taken = now.iter().any(|(of, _)| *of == position);
            self.share(position, id, is_taken, waiting.contains(&position));
        }
    }

    /// Removes the route of a key, if it is of this resource.
    fn release(&mut self, key: &RouteKey, id: &Arc<Id>) {
        if self.owners.get(key) == Some(id) {
            self.owners.remove(key);
            self.routes.remove(key);
            self.changed.insert(*key);
            self.judge_rivals(key, id);
        }
    }

    /// Has those be judged that offer the same route, and come later.
    fn judge_rivals(&mut self, key: &RouteKey, id: &Arc<Id>) {
        let rivals = self.rivals.get(key).map(|rivals| after(rivals, id));
        self.dirty.extend(rivals.into_iter().flatten().cloned());
    }

    /// Notes what a collection makes of a resource. Those that are too many now are judged again,
    /// or those for which there is room.
    fn share(&mut self, position: usize, id: &Arc<Id>, is_taken: bool, is_waiting: bool) {
        let shares = &mut self.shares[position];
        if !is_taken && !is_waiting && !shares.contains_key(&id.exporter) {
            return;
        }
        let share = shares.entry(id.exporter.clone()).or_default();
        for (all, is_in) in [(&mut share.taken, is_taken), (&mut share.waiting, is_waiting)] {
            match is_in {
                true => all.insert(Arc::clone(id)),
                false => all.remove(id),
            };
        }
        let limit = self.collects[position].limit as usize;
        let too_many = share.taken.len().saturating_sub(limit);
        let room = limit.saturating_sub(share.taken.len());
        let last = after(&share.taken, id).rev().take(too_many);
        let first = after(&share.waiting, id).take(room);
        self.dirty.extend(last.chain(first).cloned());
        if share.taken.is_empty() && share.waiting.is_empty() {
            shares.remove(&id.exporter);
        }
    }
}

/// Returns those that come after a resource.
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

//! Makes collected routes a part of the desired state, and follows each change in the store.

mod intake;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use trueup_file::File;
use trueup_graph::{Failure, Verdict};
use trueup_net::RouteKey;
use trueup_reconcile::{ErrorClass, Hints, LateHints};
use trueup_world::{Collector, CollectorConfig, Filter, GrantsFollower, World};

use super::loops::Loops;
use super::world_status::Collection;
use crate::declared::Declared;
use crate::namespace::Desired;
use crate::world::{self, Probation, Retained, Surroundings};

/// A file's collection, and the routes from it that are desired.
pub(crate) struct Collecting {
    world: World,
    config: CollectorConfig,
    hints: LateHints,
    surroundings: Surroundings,
    probation: Arc<Mutex<Probation>>,
    /// Runs if the file has collections, or exports that others can contest.
    collector: Option<Arc<Collector>>,
    /// The operator's grants, if the file has `grants_key`.
    grants: Option<Arc<GrantsFollower>>,
    /// The routes that an earlier process collected, until there is a complete view of the store.
    retained: Retained,
    collection: world::Collection,
    /// The collected routes in the loop's desired state, each with its hash.
    placed: BTreeMap<RouteKey, u64>,
    hasher: RandomState,
    /// True if the loop had no room for a change. `behind` has the keys of its routes.
    is_behind: bool,
    behind: BTreeSet<RouteKey>,
    /// True if the file has, or had, collections: trueup must remove the routes that they made.
    has_collected: bool,
    status: Collection,
}

impl Collecting {
    pub(crate) fn new(
        world: World,
        config: CollectorConfig,
        surroundings: Surroundings,
        retained: Retained,
        (grants, hints): (Option<Arc<GrantsFollower>>, LateHints),
    ) -> Collecting {
        Collecting {
            collection: world::Collection::none(world.host()),
            world,
            config,
            hints,
            surroundings,
            probation: Arc::default(),
            collector: None,
            grants,
            retained,
            placed: BTreeMap::new(),
            hasher: RandomState::new(),
            is_behind: false,
            behind: BTreeSet::new(),
            has_collected: false,
            status: Collection::default(),
        }
    }

    /// Returns the collection of another file, and that file's desired state with its collected
    /// routes. This collection stays as it is. Fails if the operating system refuses the
    /// collector's thread.
    pub(crate) fn of(&self, declared: &Declared) -> Result<(Collecting, Desired)> {
        let file = &declared.file;
        let has_exports = file.exports.as_ref().is_some_and(|it| !it.is_empty());
        let collector = match &self.collector {
            _ if !has_collections(file) && !has_exports => None,
            Some(collector) => Some(Arc::clone(collector)),
            None => Some(Arc::new(self.start(file)?)),
        };
        let mut next = Collecting {
            world: self.world.clone(),
            hints: self.hints.clone(),
            surroundings: self.surroundings.clone(),
            probation: Arc::clone(&self.probation),
            collector,
            grants: self.grants.clone(),
            // Collected routes stay until it is known what to collect.
            retained: if self.status.is_known {
                self.retained.clone()
            } else {
                self.retained.with(
                    self.placed.keys().filter_map(|key| {
                        Some((*key, self.collection.placed(&self.retained, key)?))
                    }),
                )
            },
            collection: world::Collection::to_update(file, self.world.host()),
            placed: BTreeMap::new(),
            hasher: self.hasher.clone(),
            is_behind: false,
            behind: BTreeSet::new(),
            has_collected: self.has_collected || file.collects.is_some(),
            status: Collection { contests: self.status.contests.clone(), ..Collection::default() },
            ..*self
        };
        next.collection.withhold_as(&self.collection);
        next.look(file);
        let collected = next.collection.routes(file, &next.retained);
        next.placed = collected.iter().map(|(key, it)| (*key, next.hasher.hash_one(it))).collect();
        let mut desired = declared.desired();
        if next.has_collected {
            desired.offer(collected);
        }
        Ok((next, desired))
    }

    fn start(&self, declared: &File) -> Result<Collector> {
        let limits = declared.collects.iter().flatten().map(|it| it.limit);
        let damping_burst = limits.fold(self.config.damping_burst, u32::max);
        let config = CollectorConfig { damping_burst, ..self.config };
        self.surroundings.follow(self.hints.hints())?;
        let (filters, hints) = ([Filter::kind("route")], self.hints.hints());
        Ok(Collector::start(&self.world, &filters, config, hints)?)
    }

    /// Updates the network's desired state, so that only changes are planned. Fails if it is not
    /// known yet what to collect, or if the loop has no room for the change.
    pub(crate) fn update(
        &mut self,
        declared: &Declared,
        loops: &Loops,
        apply: bool,
    ) -> Result<Verdict, Failure> {
        let was_known = self.status.unknown().is_none();
        let changed = self.look(&declared.file);
        self.behind.extend(changed);
        let is_known = self.status.unknown().is_none();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for key in &self.behind {
            let now = self.collection.route(&declared.file, &self.retained, key);
            let placed = self.placed.get(key);
            match now {
                None if placed.is_some() => gone.push(*key),
                Some(route) if placed != Some(&self.hasher.hash_one(route)) => {
                    new.push(route.clone());
                }
                _ => {}
            }
        }
        let is_same = gone.is_empty() && new.is_empty();
        if !is_same && !apply {
            return Ok(Verdict::WouldChange);
        }
        // If the collection has become known, that is a change as well: the next pass can converge.
        if !is_same || was_known != is_known || self.is_behind {
            let (out, into) = (gone.clone(), new.clone());
            let changed = loops.network().map(|network| {
                network.change(move |desired: &mut Desired| {
                    let routes = Arc::make_mut(&mut desired.network).routes.get_or_insert_default();
                    out.iter().for_each(|key| drop(routes.remove(key)));
                    desired.offer(into.into_iter().map(|route| (route.canonical_key(), route)));
                })
            });
            self.is_behind = changed.is_none_or(|changed| changed.is_err());
            if self.is_behind {
                let message = "the loop of the network has no room for what has changed yet";
                return Err(Failure::new(ErrorClass::Busy, message));
            }
        }
        self.note_news(&new);
        for key in &gone {
            self.placed.remove(key);
        }
        for route in &new {
            self.placed.insert(route.canonical_key(), self.hasher.hash_one(route));
        }
        self.behind.clear();
        match (self.status.unknown(), is_same) {
            (Some(unknown), _) => Err(Failure::new(ErrorClass::Dependency, unknown)),
            (None, true) => Ok(Verdict::InPlace),
            (None, false) => Ok(Verdict::Changed),
        }
    }

    /// Sets where to send a hint if the collected routes may have changed.
    pub(crate) fn watch(&self, hints: Hints) {
        self.hints.set(hints);
    }

    pub(crate) fn status(&self) -> Collection {
        self.status.clone()
    }
}

fn has_collections(declared: &File) -> bool {
    declared.collects.as_ref().is_some_and(|it| !it.is_empty())
}

//! What is collected becomes a part of the desired state, and follows each change in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup::diff::RouteKey;
use trueup::reconcile::Hints;
use trueup::world::{
    Collector, CollectorConfig, Filter, Holdings, Knowledge, PartitionPolicy, World,
};
use trueup::{IfName, Route};
use trueup_file::File;

use super::exporting::Exporting;
use super::loops::Loops;
use super::reporter::Reporter;
use super::world_status::{Collection, WorldStatus};
use super::{Declared, Shared};
use crate::host::{Desired, Part};
use crate::world::{self, Retained};

/// How often the status is brought up to date when nothing changes.
const TICK: Duration = Duration::from_millis(500);

type Routes = BTreeMap<RouteKey, Route<IfName>>;

/// The collection of a file, and what of it is desired.
pub(super) struct Collecting {
    world: World,
    partition: PartitionPolicy,
    grace: Duration,
    hints: Hints,
    /// It runs while the file has collections.
    collector: Option<Collector>,
    /// What an earlier process collected, until a complete view says what there is.
    retained: Retained,
    collection: world::Collection,
    /// The routes that are in the desired state of the loop.
    desired: Routes,
    /// The loop had no room for a change, of the routes with these keys.
    is_behind: bool,
    behind: BTreeSet<RouteKey>,
    /// The file has, or had, collections: what they made is ours to remove.
    has_collected: bool,
    status: Collection,
}

impl Collecting {
    /// Makes it. The receiver has a message for each change.
    pub(super) fn new(
        world: World,
        partition: PartitionPolicy,
        grace: Duration,
        retained: Retained,
    ) -> (Collecting, Receiver<()>) {
        let (sender, receiver): (SyncSender<()>, _) = sync_channel(1);
        let collecting = Collecting {
            world,
            partition,
            grace,
            hints: Hints::new(move || {
                // One that waits already stands for this one.
                let _is_full = sender.try_send(());
            }),
            collector: None,
            retained,
            collection: world::Collection::default(),
            desired: Routes::new(),
            is_behind: false,
            behind: BTreeSet::new(),
            has_collected: false,
            status: Collection::default(),
        };
        (collecting, receiver)
    }

    /// Returns the desired state of a file, with what is collected for it.
    ///
    /// # Errors
    ///
    /// When the operating system refuses the thread that collects.
    pub(super) fn declare(&mut self, declared: &Declared) -> Result<Desired> {
        let has_collections = declared
            .file
            .collects
            .as_ref()
            .is_some_and(|it| !it.is_empty());
        match has_collections {
            true if self.collector.is_none() => {
                let config = CollectorConfig {
                    partition: self.partition,
                    grace: self.grace,
                    ..CollectorConfig::default()
                };
                let filters = [Filter::kind("route")];
                let hints = self.hints.clone();
                self.collector = Some(Collector::start(&self.world, &filters, config, hints)?);
            }
            true => {}
            false => self.collector = None,
        }
        self.has_collected |= declared.file.collects.is_some();
        self.collection =
            world::Collection::new(&declared.file, self.world.host(), BTreeMap::new());
        self.look(&declared.file);
        self.desired = self.collection.routes(&declared.file, &self.retained);
        self.is_behind = false;
        self.behind.clear();
        let mut desired = declared.desired();
        if self.has_collected {
            let network = Arc::make_mut(&mut desired.network);
            let routes = network.routes.get_or_insert_default();
            let collected = self.desired.values().cloned();
            collected.for_each(|route| drop(routes.insert(route)));
        }
        Ok(desired)
    }

    /// Brings the loop's desired state up to date: only what has changed is planned.
    fn update(&mut self, declared: &Declared, loops: &Loops) {
        let was_known = self.status.is_known;
        let changed = self.look(&declared.file);
        self.behind.extend(changed);
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for key in &self.behind {
            let now = self.collection.route(&declared.file, &self.retained, key);
            match now {
                None if self.desired.contains_key(key) => gone.push(*key),
                Some(route) if self.desired.get(key) != Some(route) => new.push(route.clone()),
                _ => {}
            }
        }
        // That it is known is a change as well: the next pass can be converged.
        let is_same = gone.is_empty() && new.is_empty() && was_known == self.status.is_known;
        if is_same && !self.is_behind {
            self.behind.clear();
            return;
        }
        let (out, into) = (gone.clone(), new.clone());
        let change = move |desired: &mut Desired| {
            let network = Arc::make_mut(&mut desired.network);
            let routes = network.routes.get_or_insert_default();
            out.iter().for_each(|key| drop(routes.remove(key)));
            into.into_iter()
                .for_each(|route| drop(routes.insert(route)));
        };
        let network = loops.of(Part::Network);
        self.is_behind = network.is_none_or(|network| network.change(change).is_err());
        if !self.is_behind {
            gone.iter().for_each(|key| drop(self.desired.remove(key)));
            let new = new.into_iter().map(|route| (route.canonical_key(), route));
            self.desired.extend(new);
            self.behind.clear();
        }
    }

    /// Takes in what is collected now, and notes how the collection stands. Returns the keys of the
    /// routes that may be others than before.
    fn look(&mut self, declared: &File) -> BTreeSet<RouteKey> {
        let Some(collector) = &self.collector else {
            self.status = Collection::none();
            self.retained = Retained::default();
            return BTreeSet::new();
        };
        match collector.knowledge() {
            Knowledge::Unknown {
                cut_off_since,
                error,
            } => {
                self.status = Collection {
                    retained: self.collection.retained(declared, &self.retained),
                    cut_off: cut_off_since.zip(error.map(|it| it.to_string())),
                    ..Collection::default()
                };
                BTreeSet::new()
            }
            Knowledge::Known(holdings) => self.take(declared, holdings),
        }
    }

    fn take(&mut self, declared: &File, mut holdings: Holdings) -> BTreeSet<RouteKey> {
        let mut changed = BTreeSet::new();
        if holdings.is_complete() || holdings.is_withdrawn {
            changed.extend(self.retained.keys());
            self.retained = Retained::default();
        }
        // What nothing takes from is not refused: it is not looked at.
        holdings.resources.retain(|key, _| {
            let mut collects = declared.collects.iter().flatten();
            collects.any(|it| it.from.contains(&key.exporter))
        });
        let collection = &mut self.collection;
        changed.extend(collection.update(declared, holdings.resources));
        self.status = Collection {
            is_known: true,
            revision: holdings.revision.0,
            collected: collection.taken(),
            refused: collection.refused(),
            overlaps: collection.overlaps(),
            retained: collection.retained(declared, &self.retained),
            is_withdrawn: holdings.is_withdrawn,
            cut_off: holdings
                .cut_off
                .map(|(since, error)| (since, error.to_string())),
        };
        changed
    }

    pub(super) fn status(&self) -> Collection {
        self.status.clone()
    }
}

/// Starts the thread that follows the changes of the collection.
pub(super) fn follow(
    changed: Receiver<()>,
    exporting: Exporting,
    loops: Loops,
    shared: Arc<Shared>,
    reporter: Reporter,
) -> Result<()> {
    let run = move || {
        while !loops.is_ended() {
            let is_changed = match changed.recv_timeout(TICK) {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let collection = {
                let mut inner = shared.lock();
                let inner = &mut *inner;
                let (Some(declared), Some(collecting)) = (&inner.declared, &mut inner.collecting)
                else {
                    continue;
                };
                if is_changed || collecting.is_behind {
                    collecting.update(declared, &loops);
                }
                collecting.status()
            };
            let exports = exporting.status();
            let status = WorldStatus {
                collection,
                exports,
            };
            reporter.world(status);
        }
    };
    let thread = thread::Builder::new().name("collected".into());
    thread.spawn(run).context("cannot start a thread")?;
    Ok(())
}

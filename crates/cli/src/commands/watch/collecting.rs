//! What is collected becomes a part of the desired state, and follows each change in the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup::diff::RouteKey;
use trueup::driver::Handle;
use trueup::reconcile::Hints;
use trueup::world::{Collector, CollectorConfig, Filter, Knowledge, PartitionPolicy, World};
use trueup::{IfName, Route};
use trueup_file::{Accepted, File};

use super::exporting::Exporting;
use super::reporter::Reporter;
use super::world_status::{Collection, WorldStatus};
use super::{Declared, Shared};
use crate::host::{Desired, Host};
use crate::world::{Retained, accepted, routes};

/// How often the status is brought up to date when nothing changes.
const TICK: Duration = Duration::from_millis(500);

type Routes = BTreeMap<RouteKey, Route<IfName>>;

/// The collection of a file, and what of it is desired.
pub(super) struct Collecting {
    world: World,
    partition: PartitionPolicy,
    hints: Hints,
    /// It runs while the file has collections.
    collector: Option<Collector>,
    /// What an earlier process collected, until a complete view says what there is.
    retained: Retained,
    /// The routes that are in the desired state of the loop.
    desired: Routes,
    /// The loop had no room for a change.
    is_behind: bool,
    /// The file has, or had, collections: what they made is ours to remove.
    has_collected: bool,
    status: Collection,
}

impl Collecting {
    /// Makes it. The receiver has a message for each change.
    pub(super) fn new(
        world: World,
        partition: PartitionPolicy,
        retained: Retained,
    ) -> (Collecting, Receiver<()>) {
        let (sender, receiver): (SyncSender<()>, _) = sync_channel(1);
        let collecting = Collecting {
            world,
            partition,
            hints: Hints::new(move || {
                // One that waits already stands for this one.
                let _is_full = sender.try_send(());
            }),
            collector: None,
            retained,
            desired: Routes::new(),
            is_behind: false,
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
        self.desired = self.now(&declared.file);
        self.is_behind = false;
        let mut desired = declared.desired();
        if self.has_collected {
            let routes = desired.network.routes.get_or_insert_default();
            let collected = self.desired.values().cloned();
            collected.for_each(|route| drop(routes.insert(route)));
        }
        Ok(desired)
    }

    /// Brings the loop's desired state up to date: only what has changed is planned.
    fn update(&mut self, declared: &Declared, handle: &Handle<Host>) {
        let was_known = self.status.is_known;
        let now = self.now(&declared.file);
        let gone = self.desired.keys().filter(|key| !now.contains_key(key));
        let gone: Vec<RouteKey> = gone.copied().collect();
        let is_new = |(key, route): &(&RouteKey, &Route<IfName>)| {
            self.desired.get(key).is_none_or(|was| was != *route)
        };
        let new: Vec<Route<IfName>> = now
            .iter()
            .filter(is_new)
            .map(|(_, it)| it.clone())
            .collect();
        // That it is known is a change as well: the next pass can be converged.
        let is_same = gone.is_empty() && new.is_empty() && was_known == self.status.is_known;
        if is_same && !self.is_behind {
            return;
        }
        let change = move |desired: &mut Desired| {
            let routes = desired.network.routes.get_or_insert_default();
            gone.iter().for_each(|key| drop(routes.remove(key)));
            new.into_iter().for_each(|route| drop(routes.insert(route)));
        };
        self.is_behind = handle.change(change).is_err();
        if !self.is_behind {
            self.desired = now;
        }
    }

    /// Returns what is to be there beside the file's own routes, and notes how the collection
    /// stands.
    fn now(&mut self, declared: &File) -> Routes {
        let Some(collector) = &self.collector else {
            self.status = Collection::none();
            return Routes::new();
        };
        match collector.knowledge() {
            Knowledge::Unknown {
                cut_off_since,
                error,
            } => {
                let retained = routes(declared, &Accepted::default(), &self.retained);
                self.status = Collection {
                    retained: retained.len(),
                    cut_off: cut_off_since.zip(error.map(|it| it.to_string())),
                    ..Collection::default()
                };
                retained
            }
            Knowledge::Known(holdings) => {
                if holdings.is_complete() || holdings.is_withdrawn {
                    self.retained = Retained::default();
                }
                let mut accepted = accepted(declared, self.world.host(), &holdings.resources);
                let collects = declared.collects.iter().flatten();
                accepted.refused.retain(|refused| {
                    let exporter = &refused.origin.exporter;
                    collects.clone().any(|it| it.from.contains(exporter))
                });
                let routes = routes(declared, &accepted, &self.retained);
                self.status = Collection {
                    is_known: true,
                    revision: holdings.revision.0,
                    collected: accepted.routes.len(),
                    refused: accepted.refused.len(),
                    overlaps: accepted.overlaps.len(),
                    retained: routes.len() - accepted.routes.len(),
                    is_withdrawn: holdings.is_withdrawn,
                    cut_off: holdings
                        .cut_off
                        .map(|(since, error)| (since, error.to_string())),
                };
                routes
            }
        }
    }

    pub(super) fn status(&self) -> Collection {
        self.status.clone()
    }
}

/// Starts the thread that follows the changes of the collection.
pub(super) fn follow(
    changed: Receiver<()>,
    exporting: Exporting,
    handle: Handle<Host>,
    shared: Arc<Shared>,
    reporter: Reporter,
) -> Result<()> {
    let run = move || {
        while !handle.is_ended() {
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
                    collecting.update(declared, &handle);
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

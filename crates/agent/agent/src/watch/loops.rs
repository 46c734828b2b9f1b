//! The loops of the parts of the namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_loop::{Handle, ObjectStatus, Stats};
use trueup_reconcile::{OpKey, Status};

use crate::error::Error;
use crate::lock;
use crate::namespace::NetworkSource;
use crate::part::Part;
use crate::source::AnySource;

/// The loops. Clones share them. That of the network is there until the end, and the others as the
/// file in force needs them.
#[derive(Clone, Default)]
pub(crate) struct Loops(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sources: Mutex<BTreeMap<Part, Arc<dyn AnySource>>>,
    /// Why they were stopped, if not by a signal.
    failure: Mutex<Option<Error>>,
}

impl Loops {
    /// Adds the loop of a part.
    pub(crate) fn join(&self, part: Part, source: Arc<dyn AnySource>) {
        lock(&self.0.sources).insert(part, source);
    }

    /// Removes the loop of a part.
    pub(crate) fn leave(&self, part: Part) -> Option<Arc<dyn AnySource>> {
        lock(&self.0.sources).remove(&part)
    }

    /// Returns the loop of a part, if there is one.
    pub(crate) fn of(&self, part: Part) -> Option<Arc<dyn AnySource>> {
        lock(&self.0.sources).get(&part).cloned()
    }

    /// Returns the loop of the network.
    pub(crate) fn network(&self) -> Option<Handle<NetworkSource>> {
        self.of(Part::NETWORK)?.handle().downcast_ref().cloned()
    }

    /// Stops all loops.
    pub(crate) fn stop(&self) {
        self.all().values().for_each(|source| source.stop());
    }

    /// Stops all loops, because of a failure; the first one counts.
    pub(crate) fn fail(&self, failure: Error) {
        lock(&self.0.failure).get_or_insert(failure);
        self.stop();
    }

    /// Takes the failure that they were stopped for.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.0.failure).take()
    }

    /// Requests a full pass of each.
    pub(crate) fn force(&self) {
        self.all().values().for_each(|source| source.force());
    }

    /// Returns true if no pass has been running for longer than `longest`.
    pub(crate) fn is_within(&self, longest: Duration) -> bool {
        self.all().values().all(|source| source.busy().is_none_or(|busy| busy <= longest))
    }

    /// Returns true if one of the loops has ended: no other goes on without it.
    pub(crate) fn is_ended(&self) -> bool {
        self.all().values().any(|source| source.is_ended())
    }

    /// Returns false if the loop of the network has not ended after that time.
    pub(crate) fn wait_ended(&self, within: Duration) -> bool {
        self.of(Part::NETWORK).is_none_or(|network| network.wait_ended(within))
    }

    /// Returns the counts of all loops in sum, and for the rest what holds for all: the time since
    /// all of them had converged, and the next full pass of any. How long the last pass took, and
    /// the revision, are those of the network.
    pub(crate) fn stats(&self) -> Stats {
        let mut others = self.all();
        let network = others.remove(&Part::NETWORK);
        let mut sum = network.map_or_else(Stats::default, |network| network.stats());
        for source in others.values() {
            let stats = source.stats();
            sum.full_passes += stats.full_passes;
            sum.dirty_passes += stats.dirty_passes;
            sum.failed_passes += stats.failed_passes;
            sum.truncated_passes += stats.truncated_passes;
            sum.hints += stats.hints;
            sum.overruns += stats.overruns;
            sum.subscription_failures += stats.subscription_failures;
            sum.backed_off += stats.backed_off;
            for (kind, ops) in stats.ops {
                *sum.ops.entry(kind).or_default() += ops;
            }
            sum.next_full_pass = sum.next_full_pass.into_iter().chain(stats.next_full_pass).min();
            let since = sum.since_converged.zip(stats.since_converged);
            sum.since_converged = since.map(|(one, other)| one.max(other));
            sum.subscribed &= stats.subscribed;
        }
        sum
    }

    /// Returns the objects that are not in place. A pass that could not run is reported by itself.
    pub(crate) fn exceptions(&self) -> Vec<ObjectStatus> {
        let statuses = self.with_statuses().into_values().flat_map(|source| source.exceptions());
        statuses.filter(|status| status.key != OpKey::SCOPE).collect()
    }

    /// Returns their numbers by kind and condition.
    pub(crate) fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        let mut sum = BTreeMap::new();
        for source in self.with_statuses().values() {
            let counts = source.exception_counts().into_iter();
            for (key, number) in counts.filter(|((kind, _), _)| *kind != Status::SCOPE) {
                *sum.entry(key).or_default() += number;
            }
        }
        sum
    }

    /// Returns the loops whose statuses count: the network has those of the links.
    fn with_statuses(&self) -> BTreeMap<Part, Arc<dyn AnySource>> {
        let mut all = self.all();
        all.remove(&Part::LINKS);
        all
    }

    /// Returns all of them, to call them without the lock.
    fn all(&self) -> BTreeMap<Part, Arc<dyn AnySource>> {
        lock(&self.0.sources).clone()
    }
}

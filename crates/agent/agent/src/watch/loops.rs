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

/// The loops of the parts. Clones share them. The network's loop runs until the end; the others run
/// while the file in force needs them.
#[derive(Clone, Default)]
pub(crate) struct Loops(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sources: Mutex<BTreeMap<Part, Arc<dyn AnySource>>>,
    /// The failure that stopped them. `None` if it was a signal.
    failure: Mutex<Option<Error>>,
}

impl Loops {
    /// Adds a part's loop.
    pub(crate) fn join(&self, part: Part, source: Arc<dyn AnySource>) {
        lock(&self.0.sources).insert(part, source);
    }

    /// Removes a part's loop, and returns it.
    pub(crate) fn leave(&self, part: Part) -> Option<Arc<dyn AnySource>> {
        lock(&self.0.sources).remove(&part)
    }

    /// Returns a part's loop, if there is one.
    pub(crate) fn of(&self, part: Part) -> Option<Arc<dyn AnySource>> {
        lock(&self.0.sources).get(&part).cloned()
    }

    /// Returns the handle of the network's loop.
    pub(crate) fn network(&self) -> Option<Handle<NetworkSource>> {
        self.of(Part::NETWORK)?.handle().downcast_ref().cloned()
    }

    /// Stops all loops.
    pub(crate) fn stop(&self) {
        self.all().values().for_each(|source| source.stop());
    }

    /// Stops all loops because of a failure. Only the first failure is kept.
    pub(crate) fn fail(&self, failure: Error) {
        lock(&self.0.failure).get_or_insert(failure);
        self.stop();
    }

    /// Takes the failure that stopped the loops.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        lock(&self.0.failure).take()
    }

    /// Requests a full pass of each loop.
    pub(crate) fn force(&self) {
        self.all().values().for_each(|source| source.force());
    }

    /// Returns true if no pass has been running for longer than `longest`.
    pub(crate) fn is_within(&self, longest: Duration) -> bool {
        self.all().values().all(|source| source.busy().is_none_or(|busy| busy <= longest))
    }

    /// Returns true if one of the loops has ended. The others then end as well.
    pub(crate) fn is_ended(&self) -> bool {
        self.all().values().any(|source| source.is_ended())
    }

    /// Waits for the end of the network's loop. Returns false if it still runs after `within`.
    pub(crate) fn wait_ended(&self, within: Duration) -> bool {
        self.of(Part::NETWORK).is_none_or(|network| network.wait_ended(within))
    }

    /// Returns the sums of the loops' counts. For the time since convergence, all loops must have
    /// converged; the next full pass is the next of any loop. The last pass's duration and the
    /// revision are the network's.
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

    /// Returns the number of objects that are not in place, by kind and condition.
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

    /// Returns the loops whose statuses count. The links' statuses are among the network's.
    fn with_statuses(&self) -> BTreeMap<Part, Arc<dyn AnySource>> {
        let mut all = self.all();
        all.remove(&Part::LINKS);
        all
    }

    /// Returns all loops, to call them without the lock.
    fn all(&self) -> BTreeMap<Part, Arc<dyn AnySource>> {
        lock(&self.0.sources).clone()
    }
}

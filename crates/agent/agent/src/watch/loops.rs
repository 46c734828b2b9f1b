//! The loops of the parts of the namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trueup_graph::SourceVertex;
use trueup_loop::{Budget, Config, Handle, Loop, ObjectStatus, Revision, Stats};
use trueup_reconcile::{OpKey, Source, Status, Subscribed};
use trueup_rtnl::Namespace;

use super::Shared;
use super::reporter::Reporter;
use crate::lock;
use crate::namespace::NetworkSource;
use crate::report::{PassReport, has_applied};
use crate::section::Part;
use crate::source::AnySource;
use crate::state::State;

/// The loops. Clones share them. That of the network is there until the end, and the others as the
/// file in force needs them.
#[derive(Clone, Default)]
pub(crate) struct Loops(Arc<Mutex<BTreeMap<Part, Arc<dyn AnySource>>>>);

impl Loops {
    /// Returns the loop of a part, if there is one.
    pub(crate) fn of(&self, part: Part) -> Option<Arc<dyn AnySource>> {
        lock(&self.0).get(&part).cloned()
    }

    /// Returns the loop of the network.
    pub(crate) fn network(&self) -> Option<Handle<NetworkSource>> {
        self.of(Part::NETWORK)?.handle().downcast_ref().cloned()
    }

    /// Stops all loops.
    pub(crate) fn stop(&self) {
        self.all().values().for_each(|source| source.stop());
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
        lock(&self.0).clone()
    }
}

/// What the loops of all parts are made of.
pub(crate) struct PartMaker {
    pub(crate) scope: Namespace,
    pub(crate) state: State,
    pub(crate) config: Config,
    /// The limit of ops, which all of them keep together.
    pub(crate) budget: Option<Budget>,
    pub(crate) reporter: Reporter,
    pub(crate) shared: Arc<Shared>,
    pub(crate) loops: Loops,
}

impl PartMaker {
    /// Makes the loop of a part, whose passes are reported. It counts from now on: its first pass may
    /// be over before the graph is said to have it.
    pub(crate) fn looped<S>(
        &self,
        part: Part,
        source: S,
        desired: S::Desired,
        options: S::Options,
    ) -> Arc<dyn AnySource>
    where
        S: Source<Scope = Namespace, Report: PassReport> + Send + 'static,
        SourceVertex<S>: AnySource,
    {
        let config = if part < Part::NETWORK {
            // It sees a new device before the network does, and comes before the addresses on it.
            self.config.with_debounce(self.config.debounce() / 2)
        } else {
            self.config
        };
        let (scope, ledger) = (self.scope.clone(), self.state.ledger(part.ledger));
        let (reporter, drift) = (self.reporter.clone(), self.reporter.clone());
        let (shared, loops, namespace) =
            (Arc::clone(&self.shared), self.loops.clone(), scope.clone());
        let mut passes = Loop::new(source, scope, desired, ledger, options, config)
            .on_report(move |revision, result| {
                shared.wait_in_force();
                match result {
                    Ok(done) => {
                        reporter.report(part, revision, done);
                        shared.note_missing(&reporter, done, &namespace);
                        if part == Part::SETTINGS
                            && has_applied(done)
                            && let Some(of_links) = loops.of(Part::LINK_SETTINGS)
                        {
                            // The kernel copies some settings to links.
                            of_links.look();
                        }
                    }
                    Err(error) => {
                        reporter.failed(part, shared.explain(error));
                        if S::is_scope_gone(error) {
                            // No other part goes on without the namespace.
                            loops.stop();
                        }
                    }
                }
            })
            .on_drift(move |done| drift.drift(done));
        if part == Part::NETWORK {
            let (overrun, subscription) = (self.reporter.clone(), self.reporter.clone());
            passes = passes.on_overrun(move |times| overrun.overrun(times)).on_subscribe(
                move |answer| match answer {
                    Subscribed::Active(()) => subscription.subscription(None),
                    Subscribed::Unsupported => {}
                    Subscribed::Failed(error) => subscription.subscription(Some(error)),
                },
            );
        }
        let limited = self.budget.iter().fold(passes, Loop::with_budget);
        let source: Arc<dyn AnySource> = Arc::new(SourceVertex::of_loop(limited));
        lock(&self.loops.0).insert(part, Arc::clone(&source));
        self.reporter.part_joined(part, &*source);
        source
    }

    /// Has a loop count from this revision on.
    pub(crate) fn declare(&self, part: Part, revision: Revision) {
        self.reporter.part_declared(part, revision);
    }

    /// Has a loop that has left count no longer.
    pub(crate) fn leave(&self, part: Part) {
        let left = lock(&self.loops.0).remove(&part);
        if let Some(source) = left {
            self.reporter.part_left(part, &*source);
        }
    }
}

//! The loops of the parts of the namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Result;
use trueup_graph::SourceVertex;
use trueup_loop::{Budget, Config, Handle, Loop, ObjectStatus, Revision, Stats};
use trueup_reconcile::{OpKey, Source, Status};
use trueup_rtnl::Namespace;

use super::Shared;
use super::reporter::Reporter;
use crate::options::Options;
use crate::report::PassReport;
use crate::section::{NetworkSource, Part, Sections, foreign};
use crate::source::{AnyDesired, AnyHandle, AnySource};
use crate::state::State;

/// The handles of the loops. Clones share them. That of the network is there until the end, and
/// the others as the file in force needs them.
#[derive(Clone, Default)]
pub(crate) struct Loops(Arc<Mutex<BTreeMap<Part, Arc<dyn AnyHandle>>>>);

impl Loops {
    fn insert(&self, part: Part, handle: Arc<dyn AnyHandle>) {
        self.lock().insert(part, handle);
    }

    fn remove(&self, part: Part) -> Option<Arc<dyn AnyHandle>> {
        self.lock().remove(&part)
    }

    /// Returns the loop of a part, if there is one.
    pub(crate) fn of(&self, part: Part) -> Option<Arc<dyn AnyHandle>> {
        self.lock().get(&part).cloned()
    }

    /// Returns the loop of the network.
    pub(crate) fn network(&self) -> Option<Handle<NetworkSource>> {
        self.of(Part::Network)?.as_any().downcast_ref().cloned()
    }

    /// Stops all loops.
    pub(crate) fn stop(&self) {
        self.all().iter().for_each(|(_, handle)| handle.stop());
    }

    /// Requests a full pass of each.
    pub(crate) fn force(&self) {
        for (_, handle) in self.all() {
            handle.force();
        }
    }

    /// Has the settings of links looked at: the kernel copies some others to them. A dirty pass, as
    /// a change has one, reads all of them.
    pub(crate) fn look_at_settings_of_links(&self) {
        if let Some(of_links) = self.of(Part::LinkSettings) {
            of_links.look();
        }
    }

    /// Returns true if no pass has been running for longer than `longest`.
    pub(crate) fn is_within(&self, longest: Duration) -> bool {
        self.all().iter().all(|(_, handle)| handle.busy().is_none_or(|busy| busy <= longest))
    }

    /// Returns true if one of the loops has ended: no other goes on without it.
    pub(crate) fn is_ended(&self) -> bool {
        self.all().iter().any(|(_, handle)| handle.is_ended())
    }

    /// Returns false if the loop of the network has not ended after that time.
    pub(crate) fn wait_ended(&self, within: Duration) -> bool {
        self.of(Part::Network).is_none_or(|network| network.wait_ended(within))
    }

    /// Returns the counts of all loops in sum, and for the rest what holds for all: the time since
    /// all of them had converged, and the next full pass of any. How long the last pass took, and
    /// the revision, are those of the network.
    pub(crate) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        if let Some(network) = self.of(Part::Network) {
            sum = network.stats();
        }
        for (_, handle) in self.all().iter().filter(|(part, _)| *part != Part::Network) {
            let stats = handle.stats();
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
            let next = sum.next_full_pass.into_iter().chain(stats.next_full_pass);
            sum.next_full_pass = next.min();
            let since = sum.since_converged.zip(stats.since_converged);
            sum.since_converged = since.map(|(one, other)| one.max(other));
            sum.subscribed &= stats.subscribed;
        }
        sum
    }

    /// Returns the objects that are not in place. A pass that could not run is reported by itself.
    pub(crate) fn exceptions(&self) -> Vec<ObjectStatus> {
        let all = self.with_statuses();
        let all = all.iter().flat_map(|handle| handle.exceptions());
        all.filter(|status| status.key != OpKey::SCOPE).collect()
    }

    /// Returns their numbers by kind and condition.
    pub(crate) fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        let mut sum = BTreeMap::new();
        for handle in self.with_statuses() {
            let counts = handle.exception_counts().into_iter();
            for (key, number) in counts.filter(|((kind, _), _)| *kind != Status::SCOPE) {
                *sum.entry(key).or_default() += number;
            }
        }
        sum
    }

    /// Returns the loops whose statuses count: the network has those of the links.
    fn with_statuses(&self) -> Vec<Arc<dyn AnyHandle>> {
        let all = self.all().into_iter();
        let all = all.filter(|(part, _)| *part != Part::Links);
        all.map(|(_, handle)| handle).collect()
    }

    /// Returns all of them in order, to call them without the lock.
    fn all(&self) -> Vec<(Part, Arc<dyn AnyHandle>)> {
        let all = self.lock();
        all.iter().map(|(part, it)| (*part, it.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, Arc<dyn AnyHandle>>> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the loops of all parts are made of.
pub(crate) struct PartMaker {
    pub(crate) scope: Namespace,
    pub(crate) state: Arc<State>,
    pub(crate) options: Options,
    pub(crate) config: Config,
    /// The limit of ops, which all of them keep together.
    pub(crate) budget: Option<Budget>,
    pub(crate) reporter: Reporter,
    pub(crate) shared: Arc<Shared>,
    pub(crate) loops: Loops,
    pub(crate) sections: Sections,
}

impl PartMaker {
    /// Makes the loop of a part.
    ///
    /// # Errors
    ///
    /// When the desired state is another part's.
    pub(crate) fn make(&self, part: Part, desired: AnyDesired) -> Result<Box<dyn AnySource>> {
        let kind = self.sections.of(part).ok_or_else(|| foreign(part))?;
        kind.make(self, part, desired)
    }

    /// Makes a loop whose passes are reported; `then` is called with each report.
    pub(crate) fn looped<S>(
        &self,
        part: Part,
        source: S,
        desired: S::Desired,
        options: S::Options,
        then: impl Fn(&S::Report) + Send + 'static,
    ) -> Loop<'static, S>
    where
        S: Source<Scope = Namespace, Report: PassReport> + Send + 'static,
    {
        let config = match part {
            // It sees a new device before the network does, and comes before the addresses on it.
            Part::Settings | Part::Links | Part::LinkSettings => {
                self.config.with_debounce(self.config.debounce() / 2)
            }
            Part::Network | Part::Section(_) => self.config,
        };
        let (scope, ledger) = (self.scope.clone(), self.state.ledger(part.ledger()));
        let (reporter, drift) = (self.reporter.clone(), self.reporter.clone());
        let (shared, loops, namespace) =
            (Arc::clone(&self.shared), self.loops.clone(), scope.clone());
        Loop::new(source, scope, desired, ledger, options, config)
            .on_report(move |pass| {
                shared.wait_in_force();
                match pass.result {
                    Ok(done) => {
                        reporter.report(part, pass.revision, done);
                        shared.note_missing(&reporter, done, &namespace);
                        then(done);
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
            .on_drift(move |done| drift.drift(done))
    }

    /// Returns the source of a loop, which keeps the limit of ops.
    pub(crate) fn finish<S: Source + 'static>(&self, passes: Loop<'static, S>) -> Box<dyn AnySource>
    where
        SourceVertex<S>: AnySource,
    {
        let passes = self.budget.iter().fold(passes, Loop::with_budget);
        Box::new(SourceVertex::of_loop(passes))
    }

    /// Has a loop count from now on.
    pub(crate) fn join(&self, part: Part, source: &dyn AnySource) {
        self.loops.insert(part, source.handle());
        self.reporter.part_joined(part, &*source.handle());
    }

    /// Has a loop count from this revision on.
    pub(crate) fn declare(&self, part: Part, revision: Revision) {
        self.reporter.part_declared(part, revision);
    }

    /// Has a loop that has left count no longer.
    pub(crate) fn leave(&self, part: Part) {
        if let Some(handle) = self.loops.remove(part) {
            self.reporter.part_left(part, &*handle);
        }
    }
}

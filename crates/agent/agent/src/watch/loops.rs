//! The loops of the parts of the namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trueup_graph::SourceVertex;
use trueup_loop::{Budget, Config, Handle, Loop, ObjectStatus, Revision, Stats};
use trueup_reconcile::{OpKey, Source as _, Status, Subscribed};
use trueup_rtnl::Namespace;

use super::Shared;
use super::reporter::Reporter;
use crate::host::{Desired, Host, Options, Part, PassTimer};
use crate::state::State;

/// The handles of the loops. Clones share them. That of the network is there until the end, and
/// the others as the file in force needs them.
#[derive(Clone, Default)]
pub(crate) struct Loops(Arc<Mutex<BTreeMap<Part, Handle<Host>>>>);

impl Loops {
    fn insert(&self, part: Part, handle: &Handle<Host>) {
        self.lock().insert(part, handle.clone());
    }

    fn remove(&self, part: Part) -> Option<Handle<Host>> {
        self.lock().remove(&part)
    }

    /// Returns the loop of a part, if there is one.
    pub(crate) fn of(&self, part: Part) -> Option<Handle<Host>> {
        self.lock().get(&part).cloned()
    }

    /// Stops all loops.
    pub(crate) fn stop(&self) {
        self.all().iter().for_each(|(_, handle)| handle.stop());
    }

    /// Requests a full pass of each.
    pub(crate) fn force(&self) {
        for (_, handle) in self.all() {
            // The pass runs without a waiter.
            let _ = handle.force(Duration::ZERO);
        }
    }

    /// Has the settings of links looked at: the kernel copies some others to them. A dirty pass, as
    /// a change has one, reads all of them.
    fn look_at_settings_of_links(&self) {
        let of_links = self.of(Part::LinkSettings);
        // One that has ended needs none.
        let _ended = of_links.map(|handle| handle.change(|_| {}));
    }

    /// Returns true if one of the loops has ended: no other goes on without it.
    pub(crate) fn is_ended(&self) -> bool {
        self.all().iter().any(|(_, handle)| handle.is_ended())
    }

    /// Returns false if the loop of the network has not ended after that time.
    pub(crate) fn wait_ended(&self, within: Duration) -> bool {
        let waited = self.of(Part::Network).map(|it| it.wait_ended(within));
        waited.is_none_or(|waited| !waited.is_err_and(|error| error.is_timeout()))
    }

    /// Returns the counts of all loops in sum, and for the rest what holds for all: the time since
    /// all of them had converged, and the next full pass of any. How long the last pass took, and
    /// the revision, are those of the network.
    pub(crate) fn stats(&self) -> Stats {
        let mut sum = Stats::default();
        for (at, (_, handle)) in self.all().iter().rev().enumerate() {
            let stats = handle.stats();
            if at == 0 {
                // The network.
                sum = stats;
                continue;
            }
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
    fn with_statuses(&self) -> Vec<Handle<Host>> {
        let all = self.all().into_iter();
        let all = all.filter(|(part, _)| *part != Part::Links);
        all.map(|(_, handle)| handle).collect()
    }

    /// Returns all of them in order, to call them without the lock.
    fn all(&self) -> Vec<(Part, Handle<Host>)> {
        let all = self.lock();
        all.iter().map(|(part, it)| (*part, it.clone())).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, Handle<Host>>> {
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
    pub(crate) pass_timer: Arc<PassTimer>,
    pub(crate) reporter: Reporter,
    pub(crate) shared: Arc<Shared>,
    pub(crate) loops: Loops,
}

impl PartMaker {
    /// Makes the loop of a part.
    pub(crate) fn make(&self, part: Part, desired: Desired) -> SourceVertex<Host> {
        let host = Host::new(part, |of| self.state.ledger(of), &self.pass_timer);
        let config = match part {
            Part::Network => self.config,
            // It sees a new device before the network does, and comes before the addresses on it.
            _ => self.config.with_debounce(self.config.debounce() / 2),
        };
        let ledger = self.state.ledger(part.ledger());
        let (scope, options) = (self.scope.clone(), self.options.clone());
        let passes = Loop::new(host, scope, desired, ledger, options, config);
        let passes = self.budget.iter().fold(passes, Loop::with_budget);
        SourceVertex::of_loop(self.reporting(part, passes))
    }

    /// Has a loop count from now on.
    pub(crate) fn join(&self, part: Part, source: &SourceVertex<Host>) {
        self.loops.insert(part, source.handle());
        self.reporter.part_joined(part, source.handle());
    }

    /// Has a loop count from this revision on.
    pub(crate) fn declare(&self, part: Part, revision: Revision) {
        self.reporter.part_declared(part, revision);
    }

    /// Has a loop that has left count no longer.
    pub(crate) fn leave(&self, part: Part) {
        if let Some(handle) = self.loops.remove(part) {
            self.reporter.part_left(part, &handle);
        }
    }

    /// Has the passes of a part reported.
    fn reporting(&self, part: Part, passes: Loop<'static, Host>) -> Loop<'static, Host> {
        let (report, shared) = (self.reporter.clone(), Arc::clone(&self.shared));
        let pass_timer = Arc::clone(&self.pass_timer);
        let (loops, drift) = (self.loops.clone(), self.reporter.clone());
        let namespace = self.scope.clone();
        let passes = passes
            .on_report(move |pass| {
                match pass.result {
                    Ok(done) => {
                        report.report(part, pass.revision, done);
                        shared.note_missing(&report, done, &namespace);
                        if part == Part::Settings && done.set().next().is_some() {
                            loops.look_at_settings_of_links();
                        }
                    }
                    Err(error) => {
                        report.failed(part, error, shared.file_error(error));
                        if Host::is_scope_gone(error) {
                            // No other part goes on without the namespace.
                            loops.stop();
                        }
                    }
                }
                pass_timer.end(part);
            })
            .on_drift(move |done| drift.drift(done));
        if part != Part::Network {
            return passes;
        }
        let (overrun, subscription) = (self.reporter.clone(), self.reporter.clone());
        passes.on_overrun(move |times| overrun.overrun(times)).on_subscribe(move |answer| {
            match answer {
                Subscribed::Active(_) => subscription.subscription(None),
                Subscribed::Unsupported => {}
                Subscribed::Failed(error) => subscription.subscription(Some(error)),
            }
        })
    }
}

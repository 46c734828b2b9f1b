//! The agent: the parts of `trueup watch`, on one thread and by a simulated clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trueup_journal::{Journal, JournalLedger};
use trueup_loop::{Action, Config, PassSummary, Revision, State, SubscriptionState};
use trueup_net::{Desired, Kind};
use trueup_netlink::Namespace;
use trueup_reconcile::{
    Extent, Hints, OpKey, PassInput, PassLimits, Report as _, Source, Status, Subscribed,
};
use trueup_rtnl::{Options, Ownership, Rtnl, ledger_scope_of};
use trueup_testkit::faults::Faults;

use crate::disk::Disk;
use crate::judge::Judge;
use crate::script::Setup;
use crate::world::World;

/// One process of the agent.
pub(crate) struct Agent {
    world: World,
    namespace: Namespace,
    state: State,
    source: Rtnl,
    journal: Journal,
    ledger: JournalLedger,
    options: Options,
    desired: Desired,
    /// True if the desired state changed since the last pass.
    is_changed: bool,
    /// The revision of the last pass with a report.
    last_reported: Option<Revision>,
    /// The objects that are not in place, by the reports so far.
    statuses: BTreeMap<OpKey, Arc<Status>>,
}

/// The result of one step of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// Any act except a pass.
    On,
    Pass {
        converged: bool,
        applied: usize,
        is_full: bool,
        /// True if the pass could not run.
        is_error: bool,
        /// True if the desired state is impossible: a device is missing.
        is_refused: bool,
    },
    /// The loop has ended, as its namespace is gone.
    Ended,
}

/// The loop's longest wait: its interval, plus the jitter.
const LONGEST_WAIT: Duration = Duration::from_millis(5600);

impl Agent {
    pub(crate) fn start(
        world: &World,
        setup: &Setup,
        faults: &Faults,
        desired: &Desired,
        seed: u64,
    ) -> Agent {
        let journal = Journal::open_on(Disk::open(world)).unwrap();
        world.lock().judge.has_links = false;
        let number = world.lock().namespace;
        let scope = ledger_scope_of(number, "boot");
        let ledger = journal.ledger("rtnl", &scope).unwrap();
        let clock = world.clone();
        let mut options = Options::default().with_grace(setup.grace).with_domain(setup.domain());
        if setup.by_ledger {
            for kind in Kind::ALL {
                options = options.with_ownership(kind, Ownership::Ledger);
            }
        }
        let namespace = setup.kernel(faults.namespace());
        let mut config = Config::default();
        if let Some(limit) = setup.limit.and_then(std::num::NonZeroU32::new) {
            config = config.with_budget(limit, limit);
        }
        world.lock().judge.set_bound(None);
        world.lock().judge.set_desired(desired);
        Agent {
            world: world.clone(),
            namespace,
            state: State::new(config).with_seed(seed),
            source: Rtnl::with_clock(move || clock.now()),
            journal,
            ledger,
            options,
            desired: desired.clone(),
            is_changed: false,
            last_reported: None,
            statuses: BTreeMap::new(),
        }
    }

    /// Returns true if the journal no longer writes: only a restart repairs that.
    pub(crate) fn journal_failed(&self) -> bool {
        self.journal.failure().is_some()
    }

    pub(crate) fn set_desired(&mut self, desired: &Desired, is_change: bool) {
        match is_change {
            true => {
                self.change(desired);
                self.is_changed = true;
                self.state.handle_change(self.world.now());
            }
            false => {
                self.desired = desired.clone();
                self.state.handle_desired(self.world.now());
            }
        }
        let mut world = self.world.lock();
        world.step();
        world.judge.set_desired(desired);
    }

    /// Changes the desired state in place, so the source knows which routes have changed.
    fn change(&mut self, desired: &Desired) {
        let routes = self.desired.routes.take();
        self.desired = desired.clone();
        let (Some(mut routes), Some(wanted)) = (routes, &desired.routes) else {
            return;
        };
        let gone = routes.keys().filter(|key| wanted.get(key).is_none());
        for key in gone.collect::<Vec<_>>() {
            routes.remove(&key);
        }
        for route in wanted.iter() {
            if routes.get(&route.canonical_key()).as_ref() != Some(&route) {
                routes.insert(route);
            }
        }
        wanted.adopted().difference(&routes.adopted().clone()).for_each(|key| routes.adopt(*key));
        self.desired.routes = Some(routes);
    }

    /// Makes the driver's next step.
    pub(crate) fn step(&mut self) -> Stepped {
        let now = self.world.now();
        match self.state.poll_action(now) {
            Some(Action::Subscribe) => {
                self.world.lock().step();
                self.subscribe();
                Stepped::On
            }
            Some(Action::Drain) => {
                self.world.lock().step();
                self.drain();
                Stepped::On
            }
            Some(Action::Pass { extent, ops, revision }) => self.pass(extent, ops, revision),
            Some(Action::End) => Stepped::Ended,
            None => {
                self.sleep();
                Stepped::On
            }
        }
    }

    fn sleep(&mut self) {
        if self.state.is_listening() && self.is_readable() {
            self.state.handle_readable();
            return;
        }
        let now = self.world.now();
        let wait = self.state.poll_timeout().map(|at| at.saturating_duration_since(now));
        let mut world = self.world.lock();
        match wait {
            Some(wait) if wait <= LONGEST_WAIT => world.pass_time(wait),
            wait => world.judge.fail(8, format!("the loop waits for {wait:?}")),
        }
    }

    fn is_readable(&self) -> bool {
        let descriptor = self.source.descriptor();
        descriptor.is_some_and(|descriptor| {
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        })
    }

    fn subscribe(&mut self) {
        let subscribed = self.source.subscribe(&self.namespace, Hints::new(|| {}));
        let state = match subscribed {
            Subscribed::Active(()) => {
                let mut world = self.world.lock();
                let number = world.namespace;
                world.judge.set_bound(Some(number));
                SubscriptionState::Polled
            }
            Subscribed::Unsupported => SubscriptionState::Unsupported,
            Subscribed::Failed(_) => SubscriptionState::Failed,
        };
        self.state.handle_subscribed(self.world.now(), state);
    }

    fn drain(&mut self) {
        let drained = self.source.drain();
        let now = self.world.now();
        match drained {
            Ok(drained) => self.state.handle_drained(now, Some(drained)),
            Err(error) => {
                self.state.handle_drained(now, None);
                if Rtnl::is_scope_gone(&error) {
                    self.state.handle_stop(now);
                }
            }
        }
    }

    fn pass(&mut self, extent: Extent, ops: Option<u64>, revision: Revision) -> Stepped {
        let is_full = extent == Extent::Everything;
        {
            let mut world = self.world.lock();
            world.step();
            world.counts.passes += 1;
            let step = world.counts.steps;
            world.judge.pass_begins(step);
            world.say(|| format!("  pass over {extent:?}"));
        }
        if std::mem::take(&mut self.is_changed) {
            let keys = self.source.changed_keys(&self.desired, &self.options);
            self.state.handle_changed_keys(keys.as_deref());
        }
        let state = Arc::new(self.state.clone());
        let (asked, clock) = (Arc::clone(&state), self.world.clone());
        let should_continue = move || asked.should_continue(clock.now());
        let clock = self.world.clone();
        let backoff = |key: OpKey| state.backoff(clock.now(), key);
        let mut limits = PassLimits::default()
            .with_extent(extent)
            .with_due(state.due())
            .with_should_continue(&should_continue);
        if self.last_reported.take() == Some(revision) {
            limits = limits.with_same_desired();
        }
        if let Some(ops) = ops {
            limits = limits.with_ops(ops);
        }
        if state.has_backoff() {
            limits = limits.with_backoff(&backoff);
        }
        let ledger = &mut self.ledger;
        let done = self.source.reconcile(
            PassInput::new(&self.namespace, &self.desired, ledger, &self.options)
                .with_limits(limits),
        );
        let now = self.world.now();
        let mut world = self.world.lock();
        world.judge.pass_ended();
        match done {
            Ok(report) => {
                for op in report.ops() {
                    let (command, outcome) =
                        (op.op.command(op.devices), Judge::outcome_word(op.outcome));
                    world.say(|| format!("    op: {command}: {outcome}"));
                }
                for conflict in report.conflicts() {
                    let text = conflict.foreign.spec(report.devices());
                    world.say(|| format!("    conflict: {text}"));
                }
                let converged = report.converged();
                let doubts = report.doubts().to_vec();
                let trouble = report.trouble().map(str::to_owned);
                world.say(|| format!("    converged {converged} {doubts:?} {trouble:?}"));
                world.counts.converged += u64::from(converged);
                let inner = &mut *world;
                report.statuses(&mut |key, status| match status {
                    Some(status) => drop(self.statuses.insert(key, Arc::clone(status))),
                    None => drop(self.statuses.remove(&key)),
                });
                inner.judge.check_report(&report, is_full);
                inner.judge.check_statuses(&report, is_full, &self.statuses);
                inner.judge.check_converged(&report, &inner.rows, is_full);
                drop(world);
                let tracked = |key: OpKey| state.is_tracked(key);
                let tracked = state.has_backoff().then_some(&tracked as _);
                let summary = PassSummary::of(&report, tracked);
                self.last_reported = Some(revision);
                self.state.handle_pass_done(now, Some(&summary));
                Stepped::Pass {
                    converged,
                    applied: report.applied().count(),
                    is_full,
                    is_error: false,
                    is_refused: false,
                }
            }
            Err(error) => {
                world.say(|| format!("    error: {error}"));
                drop(world);
                self.state.handle_pass_done(now, None);
                if Rtnl::is_scope_gone(&error) {
                    self.state.handle_stop(now);
                }
                Stepped::Pass {
                    converged: false,
                    applied: 0,
                    is_full,
                    is_error: true,
                    is_refused: error.desired().is_some(),
                }
            }
        }
    }
}

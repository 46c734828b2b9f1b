//! A pass over a network namespace, in four stages: observe, plan, apply, verify.
//!
//! [`Pass::run`] is the whole pass. Its [`Mode`], decided beforehand, sets how it works. If the
//! observation or the plan shows that the mode is too narrow, the pass switches to a
//! [wider](Pass::widen) one.

mod apply;
pub(crate) mod baseline;
mod conclude;
mod foreign;
pub(crate) mod mode;
mod observe;
mod plan;
mod verify;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use trueup_net::internal::{Resolution, RouteDependencies, Tracker};
use trueup_net::{
    Action, Desired, Devices, IfName, Kinds, Neighbour, NeighbourKey, Op, Owned, Plan, Policy,
    RouteKey, Routes,
};
use trueup_observe::{DirtySet, Observer, Snapshot};
use trueup_reconcile::{Ledger, OpKey, PassLimits};

use self::baseline::Baseline;
use self::foreign::ForeignKeys;
use self::mode::{Conflicts, Facts, Mode, Read, Verify};
use self::observe::KnownLinks;
use crate::events::Events;
use crate::history::{History, stored_otherwise};
use crate::key::object_id;
use crate::ownership::ledger_view::{LedgerView, commit};
use crate::ownership::record::Records;
use crate::ownership::record_key::RecordKey;
use crate::report::Report;
use crate::round::Rounds;
use crate::{Error, Options};

pub(crate) use observe::require_all_links;
pub(crate) use plan::PassPlan;

/// The objects read on a pass's keys, and the facts derived from them.
#[derive(Debug, Default)]
pub(crate) struct Observation {
    pub(crate) snapshot: Snapshot,
    /// The observed objects that are ours by the ledger.
    owned: Owned,
    /// The devices and the desired routes, once resolved.
    names: Option<Resolution>,
    /// True if the devices must be resolved anew.
    are_devices_stale: bool,
    /// True if a route must move to an unknown nexthop object, or may point at one that has
    /// appeared. Only a full pass can do that.
    moves_routes: bool,
    /// True if new routes are appended before former ones are deleted. `None` until decided.
    appends_then_deletes: Option<bool>,
    /// The desired routes out of sync, if those in sync were dropped as they arrived.
    out_of_sync: Option<OutOfSync>,
    /// The foreign routes on desired keys that were read along with ours.
    foreign: ForeignKeys,
}

/// The desired routes that remain after those in sync were dropped as they arrived.
#[derive(Debug)]
struct OutOfSync {
    /// The desired routes out of sync. `None` if all are, since they can be many.
    routes: Option<Routes>,
    /// The dependencies of the dropped routes.
    dependencies: RouteDependencies,
}

/// A pass, with the objects that are ours in it.
pub(crate) struct Pass<'a> {
    pub(crate) observer: &'a mut Observer,
    pub(crate) desired: &'a Desired,
    options: &'a Options,
    pub(crate) policy: Policy,
    facts: Facts,
    mode: Mode,
    /// The desired objects on the mode's keys.
    wanted: Cow<'a, Desired>,
    /// The result of the last pass.
    baseline: Option<Baseline>,
    /// The ledger's records on the keys.
    pub(crate) ledger_view: LedgerView,
    /// Our routes without the marker.
    unmarked: BTreeSet<RouteKey>,
    foreign: ForeignKeys,
    /// Outcomes that the ledger has yet to commit.
    uncommitted: Records,
    /// The reason why the ledger or the namespace could not be used.
    trouble: Option<String>,
    limits: PassLimits<'a>,
    /// The number of ops that may still be carried out.
    ops_left: u64,
    /// The events, which are to ignore this pass.
    events: Option<&'a mut Events>,
    /// The links of the last observation, for the next one to reuse.
    known_links: Option<KnownLinks>,
}

impl<'a> Pass<'a> {
    pub(crate) fn open(
        observer: &'a mut Observer,
        (facts, mode): (Facts, Mode),
        desired: &'a Desired,
        options: &'a Options,
        policy: Policy,
        ledger: &dyn Ledger,
        limits: &PassLimits<'a>,
    ) -> Result<Pass<'a>, Error> {
        let ledger_view = LedgerView::read(ledger, |location| mode.keys.contains(location))?;
        Ok(Pass {
            observer,
            desired,
            options,
            wanted: mode.keys.narrow(desired),
            facts,
            mode,
            baseline: None,
            unmarked: ledger_view.unmarked_routes(policy.marker),
            policy,
            ledger_view,
            foreign: ForeignKeys::default(),
            uncommitted: Records::new(),
            trouble: None,
            ops_left: limits.ops(),
            limits: *limits,
            events: None,
            known_links: None,
        })
    }

    /// Adds the subscription's reports, and the last pass's result.
    pub(crate) fn subscribed(
        mut self,
        events: Option<&'a mut Events>,
        mut baseline: Option<Baseline>,
        dirty: &DirtySet,
    ) -> Pass<'a> {
        if let Some(baseline) = baseline.as_mut().filter(|_| !dirty.everything) {
            self.foreign = std::mem::take(&mut baseline.foreign);
        }
        self.events = events;
        self.baseline = baseline;
        self
    }

    /// Runs the pass. Returns the baseline for the next one.
    pub(crate) fn run(
        mut self,
        history: &mut History,
        dirty: &DirtySet,
        ledger: &mut dyn Ledger,
        clock: impl Fn() -> Instant,
    ) -> Result<(Report, Option<Baseline>), Error> {
        let mut next = loop {
            let mut is_exceeded = false;
            // Observe.
            if let Some(mut seen) = self.observe()? {
                // An earlier pass may have left intents open.
                let closed = self.close_intents(&mut seen, &BTreeSet::new());
                if let Err(error) = commit(ledger, &closed) {
                    self.trouble = Some(error.to_string());
                }
                // Plan.
                match self.plan_completely(history, seen) {
                    Ok(next) if self.is_sufficient_for(&next) => break next,
                    Ok(next) => is_exceeded = self.is_exceeded_by(&next),
                    Err(error) if self.is_over_everything() => return Err(error),
                    Err(_) => {}
                }
            }
            self.widen(ledger, is_exceeded)?;
        };
        history.allow_deletes(self.is_over_everything() && self.options.take_allowance());
        let now = clock();
        let mut overwritten = self.review(history, &mut next, dirty, now)?;

        let mut rounds = Rounds::default();
        while rounds.has_due(&next.plan) && !self.is_exceeded_by(&next) {
            if next.plan.ops.iter().all(|op| op.hold.is_some()) {
                // No op is sent, so the read stays valid.
                let plan = rounds.untried(next.plan.clone());
                let held = self.apply(history, plan, Kinds::NONE, Verify::Read, ledger);
                rounds.done.push(held.round);
                break;
            }
            // Apply.
            let PassPlan { plan, mut seen } = next;
            let verify = self.verification(&plan, &rounds, &seen);
            let plan = rounds.untried(plan);
            // If nothing was read and a route is refused, the state of its key is unknown.
            let is_known = self.mode.read == Read::Nothing;
            let complete = if is_known { Kinds::NONE } else { seen.snapshot.observed.complete };
            let before = if verify == Verify::Echo {
                Some(seen)
            } else {
                // An observation can be large. Drop it before the next.
                self.keep_links(&mut seen.snapshot.observed);
                drop(seen);
                None
            };
            let recorded =
                stored_otherwise::changes_to_record(&plan).filter(|_| verify == Verify::Read);
            if let Some(most) = recorded {
                self.observer.record_changes(most);
            }
            let mut applied = self.apply(history, plan, complete, verify, ledger);
            if recorded.is_some() {
                self.observer.mark_writes_done();
            }
            rounds.note(&applied.round);
            let was_unchecked = self.mode.conflicts == Conflicts::ByKernel;
            if applied.round.has_refusal() {
                self.mode.conflicts = Conflicts::BeforeWrite;
            }
            // Verify.
            next = match self.verify(history, &mut applied, before) {
                Ok(next) => next,
                Err(error) => {
                    // The report contains the changes. The intents stay open, and the next pass
                    // finds out their results.
                    self.trouble.get_or_insert(error.to_string());
                    rounds.done.push(applied.round);
                    let (mut report, baseline) =
                        self.conclude(history, rounds, None, overwritten, ledger);
                    if error.have_links_changed() {
                        report.requeue_after = Some(Duration::ZERO);
                    }
                    return Ok((report, baseline));
                }
            };
            let mut round = applied.round;
            if was_unchecked {
                for object in round.redundant_creates(&next.plan) {
                    history.cancel_loss(&object, &round.plan.devices, now);
                }
                if self.mode.conflicts == Conflicts::BeforeWrite {
                    // The verification has checked these.
                    overwritten.extend(self.overwritten(history, &next.plan));
                }
            }
            history.stored_otherwise.find(
                &mut round,
                &next.plan,
                || recorded.and_then(|_| self.observer.take_changes()),
                now,
            );
            self.hold(history, &mut next, None, now);
            rounds.end(round, &next.plan);
        }
        Ok(self.conclude(history, rounds, Some(next), overwritten, ledger))
    }

    /// Observes everything and plans, without changing the kernel or the ledger. Ops that the
    /// driver does not want tried are held.
    pub(crate) fn dry_run(
        &mut self,
        history: &mut History,
        clock: impl Fn() -> Instant,
    ) -> Result<PassPlan, Error> {
        let mut seen = self.read()?;
        self.close_intents(&mut seen, &BTreeSet::new());
        let mut next = self.plan_completely(history, seen)?;
        let everything = DirtySet::everything();
        self.review(history, &mut next, &everything, clock())?;
        self.hold_beyond_limits(history, &mut next.plan);
        Ok(next)
    }

    /// Plans from an observation, after adding the foreign objects that a first plan concerns.
    fn plan_completely(
        &mut self,
        history: &History,
        mut seen: Observation,
    ) -> Result<PassPlan, Error> {
        let mut plan = self.plan(&mut seen)?;
        let foreign = self.concerned(history, &plan, &seen);
        if !foreign.is_empty() && self.observe_foreign(foreign, &mut seen)? {
            // A plan can be large: drop the old one first.
            drop(plan);
            plan = self.plan(&mut seen)?;
        }
        if self.observe_advertised(&plan, &mut seen) {
            plan = self.plan(&mut seen)?;
        }
        Ok(PassPlan { plan, seen })
    }

    /// Closes open intents by the observation, and records the objects that are ours. `refused`
    /// lists keys that another writer had taken by the time of our write.
    fn close_intents(&mut self, seen: &mut Observation, refused: &BTreeSet<RecordKey>) -> Records {
        let (observed, view) = (&seen.snapshot.observed, &mut self.ledger_view);
        // Unread keys answer nothing.
        let closed = if self.mode.read == Read::Nothing {
            Records::new()
        } else {
            view.close_intents(observed, &self.policy, refused)
        };
        seen.owned = view.owned(observed);
        if !closed.is_empty() {
            // A link that has become ours may need to be recreated.
            seen.are_devices_stale = true;
        }
        closed
    }

    /// Switches to the next wider mode, or to everything if a plan affects objects beyond the keys.
    fn widen(&mut self, ledger: &dyn Ledger, is_exceeded: bool) -> Result<(), Error> {
        self.set_wider_mode();
        while is_exceeded && !self.is_over_everything() {
            self.set_wider_mode();
        }
        if self.is_over_everything() {
            self.ledger_view = LedgerView::read(ledger, |_| true)?;
            self.unmarked = self.ledger_view.unmarked_routes(self.policy.marker);
            self.trouble = None;
        }
        Ok(())
    }

    fn set_wider_mode(&mut self) {
        self.mode = self.mode.clone().wider(self.facts);
        self.wanted = self.mode.keys.narrow(self.desired);
    }

    fn is_over_everything(&self) -> bool {
        self.mode.keys.is_everything()
    }

    /// Returns true if the first plan can be carried out in this mode.
    fn is_sufficient_for(&self, next: &PassPlan) -> bool {
        // Without an op, nothing is read.
        let is_doubtful = self.mode.read == Read::Nothing
            && self.mode.verify == Verify::Read
            && next.plan.ops.is_empty();
        !is_doubtful && !self.is_exceeded_by(next)
    }

    /// Returns true if a plan affects objects beyond the keys.
    fn is_exceeded_by(&self, next: &PassPlan) -> bool {
        !self.is_over_everything()
            && (next.seen.moves_routes
                || crate::dirty_part::exceeds_part(&next.plan)
                || self.moves_neighbour(&next.plan))
    }

    /// Returns true if a plan deletes a neighbour that is to move to another device. It stays until
    /// it can be there, which only a plan over everything shows.
    fn moves_neighbour(&self, plan: &Plan) -> bool {
        let deletes = plan.ops.iter().filter(|op| op.action == Action::Delete);
        let mut going = deletes.filter_map(|op| <&Neighbour>::try_from(&op.object).ok()).peekable();
        let declared = self.desired.neighbours.as_ref().filter(|_| going.peek().is_some());
        let Some((declared, before)) = declared.zip(self.baseline.as_ref()) else {
            return false;
        };
        let interfaces = before.interfaces(&self.wanted);
        going.any(|neighbour| {
            let on = |dev: &IfName| NeighbourKey::new(*dev, neighbour.dst, neighbour.proxy);
            let moves = |key: &NeighbourKey<IfName>| declared.contains(key) && before.may_lack(key);
            interfaces.iter().any(|dev| moves(&on(dev)))
        })
    }

    /// Returns the tracker, if it knows the routes' nexthop objects.
    fn assigned(&self) -> Option<&Tracker> {
        self.baseline.as_ref()?.tracker.as_ref().filter(|tracker| tracker.has_objects())
    }

    /// Returns the time until an op that failed is retried. `None` if another writer's object was
    /// in its place until now: then the failure has another cause.
    fn backoff(&self, history: &History, op: &Op, devices: &Devices) -> Option<Duration> {
        if !self.limits.has_backoff() {
            return None;
        }
        let id = object_id(&op.object, devices);
        self.limits.backoff(OpKey(id)).filter(|_| !history.is_in_conflict(id))
    }
}

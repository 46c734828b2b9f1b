//! A pass over a network namespace, in four stages: observe, plan, apply, verify.
//!
//! [`Pass::run`] is the pass from beginning to end. How much it looks at is its [`PassScope`],
//! decided beforehand; each stage asks the scope, and none asks what another stage did. The file of
//! each scope says what is read in it: `everything`, `dirty_keys`, `tracked_routes`,
//! `nexthop_table`.

mod apply;
pub(crate) mod baseline;
mod conclude;
mod conflict_check;
mod dirty_keys;
mod everything;
mod foreign_keys;
mod in_sync_filter;
mod known_links;
mod nexthop_table;
mod observe;
mod pass_plan;
mod plan;
mod review;
mod rounds;
pub(crate) mod scope;
mod tracked_routes;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use trueup_net::{Desired, Devices, IfName, Kind, Kinds, Observed, Op, Policy, RouteKey};
use trueup_observe::{DirtySet, Observer};
use trueup_reconcile::{Ledger, OpKey, PassLimits};

use self::apply::{Applied, Echoed};
use self::baseline::Baseline;
use self::conflict_check::ConflictCheck;
use self::foreign_keys::ForeignKeys;
use self::known_links::KnownLinks;
use self::observe::{Observation, Reader};
use self::plan::Planner;
use self::rounds::Rounds;
use self::scope::PassScope;
use crate::history::{History, stored_otherwise};
use crate::monitor::MonitorHandle;
use crate::object_id::object_id;
use crate::ownership::ledger_view::{LedgerView, commit};
use crate::ownership::record::Records;
use crate::ownership::record_key::RecordKey;
use crate::report::Report;
use crate::{Error, Options, Planned};

pub(crate) use everything::RouteRows;
pub(crate) use observe::require_all_links;
pub(crate) use pass_plan::PassPlan;

/// `ENODEV`: the kernel refuses a dump by device where there is no such device.
const ENODEV: i32 = 19;

/// So many ops cost more while a socket listens than it costs to open another afterwards.
const MANY_OPS: usize = 1 << 12;

/// A pass, and what is ours in it.
pub(crate) struct Pass<'a> {
    pub(crate) observer: &'a mut Observer,
    desired: &'a Desired,
    options: &'a Options,
    pub(crate) policy: Policy,
    scope: PassScope,
    /// The records of the ledger in the scope.
    pub(crate) ledger_view: LedgerView,
    /// Routes of ours that do not bear the marker.
    unmarked: BTreeSet<RouteKey>,
    foreign: ForeignKeys,
    /// What the ledger is yet to commit.
    uncommitted: Records,
    /// Why a ledger or the namespace could not be used, if so.
    trouble: Option<String>,
    limits: PassLimits<'a>,
    /// The number of ops that may yet be carried out.
    ops_left: u64,
    /// The subscription that is to hear nothing of this pass.
    monitor: Option<MonitorHandle>,
    /// The links of the last observation, which the next one may go on with.
    known_links: Option<KnownLinks>,
}

impl<'a> Pass<'a> {
    pub(crate) fn open(
        observer: &'a mut Observer,
        scope: PassScope,
        desired: &'a Desired,
        options: &'a Options,
        policy: Policy,
        ledger: &dyn Ledger,
    ) -> Result<Pass<'a>, Error> {
        let ledger_view = LedgerView::read(ledger, |location| scope.contains(location))?;
        let limits = PassLimits::default();
        Ok(Pass {
            observer,
            desired,
            options,
            scope,
            unmarked: ledger_view.unmarked_routes(policy.marker),
            policy,
            ledger_view,
            foreign: ForeignKeys::default(),
            uncommitted: Records::new(),
            trouble: None,
            ops_left: limits.ops(),
            limits,
            monitor: None,
            known_links: None,
        })
    }

    pub(crate) fn with_limits(mut self, limits: &PassLimits<'a>) -> Self {
        self.limits = *limits;
        self.ops_left = limits.ops();
        self
    }

    pub(crate) fn with_monitor(mut self, monitor: Option<MonitorHandle>) -> Self {
        self.monitor = monitor;
        self
    }

    /// Runs the pass. `baseline` is what the last one found; returns the one for the next.
    pub(crate) fn run(
        mut self,
        history: &mut History,
        mut baseline: Option<Baseline>,
        dirty: &DirtySet,
        ledger: &mut dyn Ledger,
        clock: impl Fn() -> Instant,
    ) -> Result<(Report, Option<Baseline>), Error> {
        if let Some(baseline) = baseline.as_mut().filter(|_| !dirty.everything) {
            self.foreign = std::mem::take(&mut baseline.foreign);
        }
        let mut next = self.observe_and_plan(history, baseline.as_ref(), ledger)?;
        history.allow_deletes(self.scope.is_everything() && self.options.take_allowance());
        let now = clock();
        let mut overwritten = self.review(history, &mut next, dirty, now)?;
        let mut rounds = Rounds::default();
        while rounds.has_due(&next.planned.plan) && !self.scope.is_exceeded_by(&next.planned.plan) {
            if next.planned.plan.ops.iter().all(|op| op.hold.is_some()) {
                // Nothing is sent, so what was read still holds.
                let plan = rounds.untried(next.planned.plan.clone());
                let applied = self.apply(history, plan, Kinds::NONE, false, ledger);
                rounds.done.push(applied.round);
                break;
            }
            let is_whole = rounds.done.is_empty() && next.planned.doubts.is_empty();
            let Planned { plan, observed, .. } = &mut next.planned;
            let plan = rounds.untried(std::mem::take(plan));
            let mut before = std::mem::take(observed);
            // Of tracked routes nothing was read: where one is refused, what is there is not known.
            let complete = match self.scope {
                PassScope::TrackedRoutes(_) => Kinds::NONE,
                _ => before.complete,
            };
            let is_verified_by_echo = self.is_verified_by_echo(&plan, is_whole);
            // What was observed can be large, and another observation takes its place.
            let before = match is_verified_by_echo {
                true => Some(before),
                false => {
                    self.known_links = self.keep_links(&mut before);
                    drop(before);
                    None
                }
            };
            let recorded = stored_otherwise::changes_to_record(&plan);
            let recorded = recorded.filter(|_| !is_verified_by_echo);
            if let Some(most) = recorded {
                self.observer.record_changes(most);
            } else if self.monitor.is_none() && plan.ops.len() >= MANY_OPS {
                self.observer.stop_listening();
            }
            let mut applied = self.apply(history, plan, complete, is_verified_by_echo, ledger);
            if recorded.is_some() {
                self.observer.mark_writes_done();
            }
            rounds.note(&applied.round);
            let was_unchecked = next.check == ConflictCheck::ByKernel;
            let check = match applied.round.has_refusal() {
                true => ConflictCheck::BeforeWrite,
                false => next.check,
            };
            next = match self.verify(history, &mut applied, baseline.as_ref(), next, before, check)
            {
                Ok(next) => next,
                Err(error) => {
                    // The report has what was changed. What was intended stays open: the next pass
                    // finds out what became of it.
                    self.trouble.get_or_insert(error.to_string());
                    rounds.done.push(applied.round);
                    let (mut report, baseline) =
                        self.conclude(history, baseline, rounds, None, overwritten, ledger);
                    if error.have_links_changed() {
                        report.requeue_after = Some(Duration::ZERO);
                    }
                    return Ok((report, baseline));
                }
            };
            let Planned { plan, observed, .. } = &mut next.planned;
            let mut round = applied.round;
            if was_unchecked {
                for object in round.redundant_creates(plan) {
                    history.cancel_loss(&object, &round.plan.devices);
                }
                if check == ConflictCheck::BeforeWrite {
                    // The verification has checked.
                    overwritten.extend(self.overwritten(history, plan));
                }
            }
            let changes = || recorded.and_then(|_| self.observer.take_changes());
            history.stored_otherwise.find(&mut round, plan, changes, now);
            self.hold(history, plan, observed, None, now);
            rounds.end(round, plan);
        }
        Ok(self.conclude(history, baseline, rounds, Some(next), overwritten, ledger))
    }

    /// Observes and plans in the scope, or in the next wider one where it will not do: where the
    /// interfaces have changed, or where the plan has consequences outside.
    fn observe_and_plan(
        &mut self,
        history: &History,
        baseline: Option<&Baseline>,
        ledger: &mut dyn Ledger,
    ) -> Result<PassPlan, Error> {
        loop {
            if let Some(mut observation) = self.observe(baseline)? {
                if !matches!(self.scope, PassScope::TrackedRoutes(_)) {
                    // An earlier pass may have left intents open.
                    let closed = self.close_intents(&mut observation, &BTreeSet::new());
                    if let Err(error) = commit(ledger, &closed) {
                        self.trouble = Some(error.to_string());
                    }
                }
                match self.plan(history, observation, self.scope.conflict_check()) {
                    Ok(next) if self.scope.allows(&next.planned.plan) => return Ok(next),
                    Err(error) if self.scope.is_everything() => return Err(error),
                    _ => {}
                }
            }
            self.widen(ledger)?;
        }
    }

    /// Observes what is in the scope; `None` where the interfaces are not those of the baseline.
    fn observe(&mut self, baseline: Option<&Baseline>) -> Result<Option<Observation>, Error> {
        let observation = match &mut self.scope {
            PassScope::TrackedRoutes(tracked) => {
                let Some(baseline) = baseline else {
                    return Ok(None);
                };
                return Ok(Some(tracked.observation(baseline)));
            }
            PassScope::Everything(_) => return self.read().map(Some),
            PassScope::DirtyKeys(_) | PassScope::NexthopTable(_) => match self.read() {
                // A device of the scope is gone.
                Err(error) if error.errno() == Some(ENODEV) => return Ok(None),
                read => read?,
            },
        };
        let observed = &observation.snapshot.observed;
        let is_same = baseline.is_some_and(|baseline| baseline.has_same_links(observed));
        Ok(is_same.then_some(observation))
    }

    fn read(&mut self) -> Result<Observation, Error> {
        if let Some(monitor) = &self.monitor {
            let dirty = monitor.begin_read(self.scope.part());
            let matters = |key: &RouteKey| {
                let is_recorded = || self.ledger_view.record(&RecordKey::Route(*key)).is_some();
                self.desired.has_route(key) || is_recorded()
            };
            self.foreign.note(&dirty, matters);
        }
        let known_links = match self.known_links.take() {
            Some(known) if known.hold(self.observer, &self.interfaces())? => Some(known),
            _ => None,
        };
        let reader = Reader {
            known_links: known_links.as_ref(),
            scope: &self.scope,
            desired: self.scope.desired(self.desired),
            ledger_view: &self.ledger_view,
            policy: &self.policy,
            unmarked: &self.unmarked,
            foreign: &self.foreign,
        };
        reader.read(self.observer)
    }

    /// Keeps the links of what was observed, if the pass leaves them alone. A subscribed source
    /// reads them anew: it has dropped what was announced of them until the next read.
    fn keep_links(&self, observed: &mut Observed) -> Option<KnownLinks> {
        let is_alone = self.monitor.is_none() && self.scope.is_everything();
        let has_links = self.desired.managed().contains(Kind::Link);
        (is_alone && !has_links).then(|| KnownLinks::take(observed))
    }

    /// The interfaces that what is desired and the ledger name.
    fn interfaces(&self) -> BTreeSet<IfName> {
        let mut names = self.desired.device_names();
        let recorded = self.ledger_view.keys();
        names.extend(recorded.filter_map(|key| Some(key.interface()?.0)));
        names
    }

    /// Closes open intents by what is there. `refused` are keys that another writer had by the time
    /// of our write.
    fn close_intents(
        &mut self,
        observation: &mut Observation,
        refused: &BTreeSet<RecordKey>,
    ) -> Records {
        let observed = &observation.snapshot.observed;
        let view = &mut self.ledger_view;
        let closed = view.close_intents(observed, &self.policy, refused);
        if !closed.is_empty() {
            // A link that is ours by now may have to be recreated.
            observation.devices = None;
        }
        closed
    }

    fn plan(
        &mut self,
        history: &History,
        observation: Observation,
        check: ConflictCheck,
    ) -> Result<PassPlan, Error> {
        let owned = self.ledger_view.owned(&observation.snapshot.observed);
        let limits = self.limits;
        let is_put_off =
            |op: &Op, devices: &Devices| backoff(&limits, history, op, devices).is_some();
        let is_in_conflict =
            |op: &Op, devices: &Devices| history.is_in_conflict(object_id(&op.object, devices));
        let planner = Planner {
            desired: self.desired,
            policy: &self.policy,
            unmarked: &self.unmarked,
            foreign: &mut self.foreign,
            check,
            is_put_off: &is_put_off,
            is_in_conflict: &is_in_conflict,
        };
        planner.plan(self.observer, observation, &mut self.scope, owned)
    }

    /// Observes and plans again: what is left to do is what the plan did not achieve, and what the
    /// kernel took along. Where the kernel has echoed every change, `last`, the plan that was
    /// carried out, and what it was made from, hold but for these changes.
    fn verify(
        &mut self,
        history: &History,
        applied: &mut Applied,
        baseline: Option<&Baseline>,
        last: PassPlan,
        before: Option<Observed>,
        check: ConflictCheck,
    ) -> Result<PassPlan, Error> {
        if let Some((Echoed { there, left }, before)) = applied.echoed.take().zip(before) {
            let done = &applied.round.plan;
            return Ok(PassPlan { planned: Planned::left(left, before, done, there), ..last });
        }
        if let PassScope::TrackedRoutes(_) = self.scope {
            self.set_wider_scope();
        }
        let Some(mut observation) = self.observe(baseline)? else {
            // What is on the new ones is outside of the scope.
            return Err(Error::links_changed());
        };
        let closed = self.close_intents(&mut observation, &applied.refused);
        self.uncommitted.extend(closed);
        match self.plan(history, observation, check) {
            // Its position is one in the scope. A pass over everything says which object it is.
            Err(error) if error.desired().is_some() && !self.scope.is_everything() => {
                Err(Error::links_changed())
            }
            planned => planned,
        }
    }

    /// Goes on in the next wider scope.
    fn widen(&mut self, ledger: &dyn Ledger) -> Result<(), Error> {
        self.set_wider_scope();
        if self.scope.is_everything() {
            self.ledger_view = LedgerView::read(ledger, |_| true)?;
            self.unmarked = self.ledger_view.unmarked_routes(self.policy.marker);
            self.trouble = None;
        }
        Ok(())
    }

    fn set_wider_scope(&mut self) {
        let everything = PassScope::Everything(RouteRows::OutOfSync);
        self.scope = std::mem::replace(&mut self.scope, everything).wider(self.desired);
    }

    /// Observes everything and plans, without a change of the kernel or the ledger. What the
    /// driver does not want tried is held.
    pub(crate) fn dry_run(
        &mut self,
        history: &mut History,
        clock: impl Fn() -> Instant,
    ) -> Result<PassPlan, Error> {
        let mut observation = self.read()?;
        self.close_intents(&mut observation, &BTreeSet::new());
        let mut next = self.plan(history, observation, self.scope.conflict_check())?;
        let everything = DirtySet::everything();
        self.review(history, &mut next, &everything, clock())?;
        self.hold_beyond_limits(history, &mut next.planned.plan);
        Ok(next)
    }
}

/// Returns for how long an op is not tried, because it failed before. Where another writer's object
/// was in its place until now, it is not that failure that it waited for.
fn backoff(
    limits: &PassLimits<'_>,
    history: &History,
    op: &Op,
    devices: &Devices,
) -> Option<Duration> {
    if !limits.has_backoff() {
        return None;
    }
    let id = object_id(&op.object, devices);
    let left = limits.backoff(OpKey(id))?;
    (!history.is_in_conflict(id)).then_some(left)
}

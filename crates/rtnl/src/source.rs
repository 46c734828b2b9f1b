//! The rtnetlink source: its passes from beginning to end.

use std::collections::HashSet;
use std::fmt;
use std::time::{Duration, Instant};

use trueup_apply::Outcome;
use trueup_diff::{
    Action, Desired, Dev, Hold, Kind, Kinds, NexthopMode, Object, Observed, Op, Owned, Reason,
    resolve,
};
use trueup_netlink::{Markers, Namespace, Socket, markers};
use trueup_observe::{DirtySet, Observer, ReadScope, Snapshot};
use trueup_reconcile::{Extent, Hints, Ledger, Observation, PassLimits, Source, Subscribed};

use crate::first::{First, first};
use crate::known::Known;
use crate::ledger::{names, settle};
use crate::look::Planned;
use crate::memory::{self, Memory};
use crate::pass::{Carried, Pass};
use crate::policy::policy;
use crate::record::{Record, RecordKey};
use crate::region::{Part, Place, Region};
use crate::report::Round;
use crate::stored;
use crate::watch::{Listening, Watch};
use crate::why::{self, Explanation, Query};
use crate::{Error, ErrorKind, Options, Report};

/// How often a pass goes over what its own ops took away, at most.
const ROUNDS: usize = 3;

/// The rtnetlink source.
///
/// Between passes it keeps nothing that correctness needs: each opens its socket anew, so that a namespace that was recreated
/// under its old name is met as what it is. What it remembers serves those with whom it shares the kernel (see
/// [`Options::with_grace`] and [`Options::with_contention`]), and saves a pass over what is doubtful from reading the rest.
///
/// Subscribed, it is bound to the namespace that it listens to: once another bears the name, or none does, a pass ends with
/// [`ErrorKind::Ended`](crate::ErrorKind::Ended) and has touched nothing.
pub struct Rtnl {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    memory: Memory,
    /// Of the namespace that was asked last, by its cookie.
    markers: Option<(u64, Markers)>,
    listening: Option<Listening>,
    known: Option<Known>,
}

impl Rtnl {
    /// A source that has seen nothing yet.
    pub fn new() -> Rtnl {
        Rtnl::with_clock(Instant::now)
    }

    /// One that is told the time, which never goes back.
    pub fn with_clock(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Rtnl {
        Rtnl {
            clock: Box::new(clock),
            memory: Memory::default(),
            markers: None,
            listening: None,
            known: None,
        }
    }

    /// What a pass would do now. Changes nothing, neither in the kernel nor in the ledger.
    ///
    /// # Errors
    ///
    /// As [`Source::reconcile`].
    pub fn plan(
        &self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &dyn Ledger,
        options: &Options,
    ) -> Result<Planned, Error> {
        let (_, planned, _) = self.begin(scope, desired, ledger, options, Kinds::NONE)?;
        Ok(planned)
    }

    /// What there is to say of the objects that `query` asks about: what the kernel holds, whose it is and by what proof,
    /// what is desired, and what a pass would do. Without a desired state nothing is managed. Changes nothing, neither in
    /// the kernel nor in the ledger.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    pub fn why(
        &self,
        scope: &Namespace,
        desired: Option<&Desired>,
        ledger: &dyn Ledger,
        options: &Options,
        query: &Query,
    ) -> Result<Explanation, Error> {
        let nothing = Desired::default();
        let desired = desired.unwrap_or(&nothing);
        let asked = Kinds::NONE.with(query.kind());
        let (mut pass, planned, owned) = self.begin(scope, desired, ledger, options, asked)?;
        let resolved = resolve(desired, &planned.observed, &owned, pass.policy)?;
        why::explain(&mut pass.observer, &pass.book, &resolved, planned, query)
    }

    /// A pass up to its first plan, also fit to judge objects of the kinds in `more`.
    fn begin<'a>(
        &self,
        scope: &Namespace,
        desired: &'a Desired,
        ledger: &dyn Ledger,
        options: &'a Options,
        more: Kinds,
    ) -> Result<(Pass<'a>, Planned, Owned), Error> {
        let mut observer = Observer::open(scope)?;
        let judged = |kind: &Kind| desired.managed().contains(*kind) || more.contains(*kind);
        let kinds = Kind::ALL.into_iter().filter(judged).collect();
        let markers = self.markers(observer.socket(), kinds)?;
        let policy = policy(markers.map(|(_, markers)| markers), options)?;
        let mut pass = Pass::open(observer, Region::Whole, desired, options, policy, ledger)?;
        let snapshot = pass.read()?;
        pass.recover(&snapshot.observed);
        let (mut planned, owned) = pass.planned(snapshot, false)?;
        let mut memory = self.memory.clone();
        let unheard = DirtySet::everything();
        let now = (self.clock)();
        pass.judge(&mut memory, &mut planned, &owned, &unheard, now)?;
        Ok((pass, planned, owned))
    }

    /// On what this kernel stores a protocol. It is asked once for a namespace, and only where that matters.
    fn markers(&self, socket: &mut Socket, kinds: Kinds) -> Result<Option<(u64, Markers)>, Error> {
        let in_question = |kind: &Kind| {
            // With a link go addresses, of which not all are foreign.
            *kind != Kind::Route && *kind != Kind::Nexthop && kinds.contains(*kind)
        };
        if !Kind::ALL.iter().any(in_question) {
            return Ok(None);
        }
        let cookie = socket.netns_cookie()?;
        match &self.markers {
            Some((known, markers)) if *known == cookie => Ok(Some((cookie, *markers))),
            _ => Ok(Some((cookie, markers(socket)?))),
        }
    }

    /// Opens the namespace, which has to be the one that is listened to, if one is.
    fn open(&self, scope: &Namespace) -> Result<Observer, Error> {
        let bound = self.listening.as_ref().and_then(Listening::cookie);
        let Some(cookie) = bound else {
            return Ok(Observer::open(scope)?);
        };
        let mut observer = Observer::open(scope).map_err(Error::of_reopening)?;
        match observer.socket().netns_cookie()? == cookie {
            true => Ok(observer),
            false => Err(Error::replaced(scope)),
        }
    }

    /// What a pass is to be about, given what was heard and what is known.
    fn region(
        &self,
        known: Option<&Known>,
        desired: &Desired,
        options: &Options,
        heard: &DirtySet,
    ) -> Region {
        let part = || {
            let known = known?;
            let same = known.options == *options && self.memory.is_same_but_routes(desired);
            let mut part = Part::of(heard, &known.names).filter(|_| same)?;
            if !self.memory.is_same(desired) {
                match (&known.tracker, &known.assignment) {
                    (Some(tracker), _) => tracker
                        .dirty_keys()
                        .for_each(|key| part.add(Place::of_route(key), &known.names)),
                    (None, Some(_)) => part.nexthops = true,
                    (None, None) => return None,
                }
            }
            // What has happened may be what it waits for.
            self.memory
                .unsettled()
                .for_each(|place| part.add(place, &known.names));
            // Which object a route points at follows from all routes.
            let by_objects = desired.nexthops == NexthopMode::Objects && part.has_routes();
            let mut unsettled = self.memory.unsettled();
            let is_part = !by_objects && !unsettled.any(|place| place == Place::Nexthop);
            is_part.then_some(part)
        };
        part().map_or(Region::Whole, Region::Part)
    }
}

impl Default for Rtnl {
    fn default() -> Rtnl {
        Rtnl::new()
    }
}

impl fmt::Debug for Rtnl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rtnl").finish_non_exhaustive()
    }
}

impl Source for Rtnl {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = Snapshot;
    type Error = Error;
    type Subscription = Watch;

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        self.reconcile_within(scope, desired, ledger, options, &PassLimits::default())
    }

    fn reconcile_within(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
        limits: &PassLimits<'_>,
    ) -> Result<Report, Error> {
        // Whatever goes wrong on the way, the next pass is over the whole.
        let mut known = self.known.take();
        if let Some(known) = &mut known {
            known.desire(desired, options.protocol());
        }
        let heard = self.listening.as_ref().and_then(Listening::take);
        // Who does not listen knows nothing of what happened since the last pass.
        let heard = heard.unwrap_or_else(DirtySet::everything);
        if let Some(listening) = &self.listening {
            listening.widen(desired.managed(), options.protocol());
        }
        let mut observer = self.open(scope)?;
        let markers = self.markers(observer.socket(), desired.managed())?;
        self.markers = markers.or(self.markers);
        let policy = policy(markers.map(|(_, markers)| markers), options)?;
        let region = match limits.extent() {
            Extent::Everything => Region::Whole,
            Extent::Dirty => self.region(known.as_ref(), desired, options, &heard),
        };
        let pass = Pass::open(observer, region, desired, options, policy, ledger)?;
        let pass = pass.with_ops(limits.ops()).passing_over();
        let assignment = known.as_ref().and_then(|known| known.assignment.clone());
        let pass = pass.assignment(assignment);
        let pass = pass.listening(self.listening.clone());
        let First {
            mut pass,
            mut planned,
            owned,
            skip_conflict_check,
        } = first(pass, known.as_ref(), &heard, ledger)?;
        let now = (self.clock)();
        let mut shed = pass.judge(&mut self.memory, &mut planned, &owned, &heard, now)?;
        let first = (planned, skip_conflict_check);
        let done = self.rounds(&mut pass, first, &mut shed, ledger, limits, now);
        Ok(self.conclude(pass, done, shed, known, ledger))
    }

    fn observe(
        &mut self,
        scope: &Namespace,
        _options: &Options,
    ) -> Result<Observation<Snapshot>, Error> {
        let mut observer = Observer::open(scope)?;
        Ok(Observation::Observed(
            observer.snapshot(&ReadScope::whole())?,
        ))
    }

    fn subscribe(&mut self, scope: &Namespace, _hints: Hints) -> Subscribed<Watch, Error> {
        self.known = None;
        match Watch::open(scope) {
            Ok((watch, listening)) => {
                self.listening = Some(listening);
                Subscribed::Active(watch)
            }
            Err(error) => Subscribed::Failed(error),
        }
    }

    fn is_scope_gone(error: &Error) -> bool {
        error.kind() == ErrorKind::Ended
    }
}

/// What came of the rounds of a pass.
struct Done {
    rounds: Vec<Round>,
    /// What is left to do, as of the last look.
    planned: Planned,
    /// Whether there was a look after the last change.
    seen: bool,
}

impl Rtnl {
    /// Carries out what is planned and looks again, until there is nothing left that was not tried.
    fn rounds(
        &mut self,
        pass: &mut Pass<'_>,
        (mut planned, mut skip_conflict_check): (Planned, bool),
        shed: &mut Vec<Object>,
        ledger: &mut dyn Ledger,
        limits: &PassLimits<'_>,
        now: Instant,
    ) -> Done {
        let mut rounds: Vec<Round> = Vec::new();
        // What failed or waits is not tried again in the same pass, and what was made anew is not made anew again.
        let mut spent: HashSet<(Action, u64)> = HashSet::new();
        while rounds.len() < ROUNDS {
            let Planned { plan, observed, .. } = &mut planned;
            let identity = |op: &Op| (op.action, memory::id(&op.object, &plan.devices));
            let is_spent = |op: &Op| spent.contains(&identity(op));
            if plan.ops.iter().all(is_spent) || pass.is_beyond(plan) {
                break;
            }
            let devices = plan.devices.clone();
            let mut plan = std::mem::take(plan);
            // The observation can be large, and what is read next takes its place.
            let Observed { links, .. } = std::mem::take(observed);
            let identity = |op: &Op| (op.action, memory::id(&op.object, &devices));
            if !spent.is_empty() {
                // What points at a nexthop object may be among what was not done.
                let takes =
                    |op: &Op| (op.action, op.object.kind()) == (Action::Delete, Kind::Nexthop);
                plan = plan.retain(|op| !spent.contains(&identity(op)) && !takes(op));
            }
            let watched = stored::watched(&plan);
            if let Some(most) = watched {
                pass.observer.record_changes(most);
            }
            let Carried {
                mut round,
                refused,
                told,
            } = pass.carry_out(plan, ledger, limits);
            if watched.is_some() {
                pass.observer.mark_writes_done();
            }
            for (op, outcome) in round.plan.ops.iter().zip(&round.outcomes.outcomes) {
                if *outcome != Outcome::Applied || op.reason == Reason::Recreated {
                    spent.insert(identity(op));
                }
            }
            let unasked = skip_conflict_check;
            skip_conflict_check = skip_conflict_check && !round.is_refused();
            let looked = match told {
                Some(routes) => Ok(Planned::told(&devices, links, routes)),
                None => pass.read().and_then(|snapshot| {
                    let settled = pass.book.look(&snapshot.observed, pass.policy, &refused);
                    pass.unsettled.extend(settled);
                    Ok(pass.planned(snapshot, skip_conflict_check)?.0)
                }),
            };
            match looked {
                Ok(seen) => planned = seen,
                Err(error) => {
                    // What was changed is told all the same. What was meant stays open: the next pass sees to it.
                    pass.trouble.get_or_insert(error.to_string());
                    rounds.push(round);
                    return Done {
                        rounds,
                        planned: Planned::default(),
                        seen: false,
                    };
                }
            }
            if unasked {
                for object in round.excuse(&planned.plan) {
                    self.memory.forgive(&object, &devices);
                }
                if !skip_conflict_check {
                    // By now it was asked.
                    shed.extend(pass.shed(&self.memory, &planned.plan));
                }
            }
            let (plan, observed) = (&mut planned.plan, &planned.observed);
            let changes = || watched.and_then(|_| pass.observer.take_changes());
            let otherwise = &mut self.memory.otherwise;
            otherwise.find(&mut round, plan, changes, now);
            rounds.push(round);
            pass.hold(&mut self.memory, plan, observed, None, now);
            let held = |op: &&Op| matches!(op.hold, Some(Hold::StoredOtherwise(_)));
            let identity = |op: &Op| (op.action, memory::id(&op.object, &plan.devices));
            spent.extend(plan.ops.iter().filter(held).map(identity));
        }
        Done {
            rounds,
            planned,
            seen: true,
        }
    }

    /// Notes what a pass has found out, in the ledger and for the next one, and tells it.
    fn conclude(
        &mut self,
        mut pass: Pass<'_>,
        done: Done,
        mut shed: Vec<Object>,
        known: Option<Known>,
        ledger: &mut dyn Ledger,
    ) -> Report {
        let Done {
            rounds,
            mut planned,
            seen,
        } = done;
        let mut adopted = Vec::new();
        let mut elsewhere = true;
        if seen {
            let Planned { plan, observed, .. } = &mut planned;
            adopted = std::mem::take(&mut plan.adopted);
            let (gone, rewritten) = pass.book.tidy(observed, pass.policy);
            pass.unsettled.extend(gone);
            let news = rewritten
                .into_iter()
                .filter(|object| !shed.contains(object));
            let news: Vec<Object> = news.collect();
            shed.extend(news);
            let names = names(observed);
            for object in &adopted {
                let name = |dev: Dev| names.get(&dev.as_index()?).copied();
                if let Some(key) = RecordKey::of(object, name) {
                    let (object, former) = (object.clone(), None);
                    pass.unsettled.insert(key, Some(Record { object, former }));
                }
            }
            let left = plan.ops.iter().map(|op| &op.object);
            let left = left.chain(plan.conflicts.iter().map(|conflict| &conflict.desired));
            let name = |dev: Dev| plan.devices.name(dev).copied();
            let place =
                |object: &Object| (memory::id(object, &plan.devices), Place::of(object, name));
            elsewhere = self.memory.end(pass.desired, &pass.region, left.map(place));
        } else {
            self.memory.end_unknown();
        }
        if let Err(error) = settle(ledger, &pass.unsettled) {
            pass.trouble.get_or_insert(error.to_string());
        }
        let beyond = pass.is_beyond(&planned.plan);
        let whole = planned.doubts.is_empty()
            && (pass.region.is_whole() || known.as_ref().is_some_and(|known| known.whole));
        if let Some(listening) = &self.listening
            && seen
            && pass.trouble.is_none()
            && !beyond
        {
            let known = Known::of(&pass, &planned, known, whole, rounds.is_empty());
            // While others write all the time hardly a pass is whole, and still their affairs are not ours.
            listening.attach(known.interest(&pass, elsewhere && known.grounded));
            self.known = Some(known);
        }
        Report {
            converged: pass.trouble.is_none()
                && planned.is_converged()
                && elsewhere
                && whole
                && !beyond,
            rounds,
            conflicts: planned.plan.conflicts,
            devices: planned.plan.devices,
            doubts: planned.doubts,
            trouble: pass.trouble.take(),
            seen,
            adopted,
            shed,
            requeue_after: beyond.then_some(Duration::ZERO),
        }
    }
}

//! One pass at work: what it reads, what it means to do, and what it carries out. Not when it ends, and what is told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use trueup_apply::{ErrorClass, Outcome, Outcomes, apply, apply_with_echo, draw_indexes};
use trueup_diff::{
    Action, Desired, Dev, Devices, Hold, Item as _, Kind, Kinds, NexthopAssignment, NexthopTable,
    Object, Observed, Op, Owned, Plan, Policy, Reason, Route, RouteDependencies, RouteKey, Routes,
    Tracker, assigned, resolve,
};
use trueup_observe::{DirtySet, Observer, ReadScope, Snapshot};
use trueup_reconcile::{Ledger, OpKey, PassLimits};

use crate::intent::Intents;
use crate::ledger::{Book, names, settle};
use crate::look::{self, Passing, Planned};
use crate::memory::{self, Memory};
use crate::record::{RecordKey, Records};
use crate::region::{self, Place, Region};
use crate::report::Round;
use crate::watch::{Echo, Listening};
use crate::{Error, Options};

/// What stays the same throughout a pass, and what is ours in it.
pub(crate) struct Pass<'a> {
    pub(crate) observer: Observer,
    pub(crate) desired: &'a Desired,
    /// What is desired in the region, where that is a part and has been looked at.
    narrowed: Option<Desired>,
    /// What of that the last look has not found in place, where it passed over the rest, and what that rests on.
    sifted: Option<(Desired, RouteDependencies)>,
    /// Whether looks pass over what is in place.
    passes_over: bool,
    /// Whether what the kernel says of each change will do instead of a look.
    hears: bool,
    /// Where routes are to stay on their nexthop objects: on which.
    assignment: Option<NexthopAssignment>,
    /// Whether they cannot.
    strayed: bool,
    pub(crate) region: Region,
    pub(crate) options: &'a Options,
    pub(crate) policy: Policy,
    pub(crate) book: Book,
    /// Routes of ours that do not bear the marker.
    unmarked: BTreeSet<RouteKey>,
    /// What the ledger is yet to be told.
    pub(crate) unsettled: Records,
    pub(crate) trouble: Option<String>,
    /// So many ops may yet be carried out.
    allowed: u64,
    listening: Option<Listening>,
    echo: Option<Echo>,
}

/// What came of a plan.
pub(crate) struct Carried {
    pub(crate) round: Round,
    /// Keys that somebody else had by the time we asked for them.
    pub(crate) refused: BTreeSet<RecordKey>,
    /// The routes that it has put there, where the kernel itself has told of every change.
    pub(crate) told: Option<Vec<Route>>,
}

impl<'a> Pass<'a> {
    pub(crate) fn open(
        observer: Observer,
        region: Region,
        desired: &'a Desired,
        options: &'a Options,
        policy: Policy,
        ledger: &dyn Ledger,
    ) -> Result<Pass<'a>, Error> {
        let book = Book::read(ledger)?.within(&region);
        Ok(Pass {
            observer,
            desired,
            narrowed: None,
            sifted: None,
            passes_over: false,
            hears: false,
            assignment: None,
            strayed: false,
            region,
            options,
            policy,
            unmarked: book.unmarked_routes(policy.marker),
            book,
            unsettled: Records::new(),
            trouble: None,
            allowed: u64::MAX,
            listening: None,
            echo: None,
        })
    }

    pub(crate) fn with_ops(mut self, allowed: u64) -> Self {
        self.allowed = allowed;
        self
    }

    /// One that passes over routes that are in place, and holds nothing of them.
    pub(crate) fn passing_over(mut self) -> Self {
        self.passes_over = true;
        self
    }

    /// Nothing but what the next ops do is in question: what the kernel tells of each is as good as a look.
    pub(crate) fn hear_instead_of_looking(&mut self) {
        let is_route = |key: &RecordKey| matches!(key, RecordKey::Route(_));
        self.hears = !self.book.keys().any(is_route);
    }

    /// One in which routes stay on their nexthop objects, if the region has those.
    pub(crate) fn assignment(mut self, assignment: Option<NexthopAssignment>) -> Self {
        self.assignment = assignment;
        self
    }

    /// Beside a subscription, which is not to hear of this pass.
    pub(crate) fn listening(mut self, listening: Option<Listening>) -> Self {
        self.listening = listening;
        self
    }

    /// The same pass over everything.
    pub(crate) fn widened(self, ledger: &dyn Ledger) -> Result<Pass<'a>, Error> {
        let Pass {
            observer,
            desired,
            options,
            policy,
            allowed,
            listening,
            passes_over,
            ..
        } = self;
        let whole = Pass::open(observer, Region::Whole, desired, options, policy, ledger)?;
        Ok(Pass {
            allowed,
            listening,
            passes_over,
            ..whole
        })
    }

    /// The routes that are ours and do not bear the marker.
    pub(crate) fn unmarked(&self) -> impl Iterator<Item = RouteKey> {
        self.unmarked.iter().copied()
    }

    /// Looks at what is managed, and once more for what is ours by record and is not there: only what is missing twice is gone.
    pub(crate) fn read(&mut self) -> Result<Snapshot, Error> {
        if let (Region::Part(part), None) = (&self.region, &self.narrowed) {
            self.narrowed = Some(part.narrow(self.desired));
        }
        let desired = self.narrowed.as_ref().unwrap_or(self.desired);
        let (managed, marker) = (desired.managed(), self.policy.marker);
        if let Some(listening) = &self.listening {
            listening.looking(&self.region);
        }
        let (observer, region, unmarked) = (&mut self.observer, &self.region, &self.unmarked);
        let passing = self.passes_over.then_some(Passing {
            desired,
            book: &self.book,
            policy: self.policy,
            shape: None,
        });
        let (mut snapshot, mut mismatches) =
            look::read(observer, region, managed, marker, unmarked, passing)?;
        let missing = self.book.missing(&snapshot.observed);
        if missing != Kinds::NONE {
            let shape = mismatches.as_ref().map(|(_, shape)| shape);
            let passing = passing.map(|passing| Passing { shape, ..passing });
            let (again, still) = look::read(observer, region, missing, marker, unmarked, passing)?;
            look::fill(&mut snapshot, again);
            mismatches = match (mismatches, still) {
                (Some((mismatches, shape)), Some((still, _))) => {
                    Some((mismatches.common(&still), shape))
                }
                (mismatches, _) => mismatches,
            };
        }
        self.sifted = mismatches.map(|(mismatches, shape)| {
            let routes = desired.routes.as_ref();
            let routes =
                routes.map(|routes| routes.mismatched(&mismatches, &snapshot.observed.routes));
            let rest = Desired {
                links: desired.links.clone(),
                addresses: desired.addresses.clone(),
                neighbours: desired.neighbours.clone(),
                routes,
                rules: desired.rules.clone(),
                nexthops: shape,
                adopt: desired.adopt.clone(),
            };
            (rest, mismatches.dependencies().clone())
        });
        Ok(snapshot)
    }

    /// Sees what became of the intents that an earlier pass left open.
    pub(crate) fn recover(&mut self, observed: &Observed) -> Records {
        self.book.look(observed, self.policy, &BTreeSet::new())
    }

    pub(crate) fn planned(
        &mut self,
        snapshot: Snapshot,
        skip_conflict_check: bool,
    ) -> Result<(Planned, Owned), Error> {
        let owned = self.book.owned(&snapshot.observed);
        self.stay(&snapshot.observed, &owned)?;
        let sifted = self.sifted.as_ref().map(|(desired, _)| desired);
        let desired = sifted.or(self.narrowed.as_ref()).unwrap_or(self.desired);
        let planned = look::planned(
            &mut self.observer,
            snapshot,
            desired,
            &owned,
            self.policy,
            &self.unmarked,
            skip_conflict_check,
        )?;
        Ok((planned, owned))
    }

    /// Finds the nexthop objects of a part that has them, and whether the routes can stay on theirs.
    fn stay(&mut self, observed: &Observed, owned: &Owned) -> Result<(), Error> {
        let (Some(assignment), Some(narrowed)) = (&self.assignment, &mut self.narrowed) else {
            return Ok(());
        };
        if !self.region.holds(Place::Nexthop) {
            return Ok(());
        }
        narrowed.nexthops = assigned(self.desired, observed, owned, self.policy)?;
        let routes = self.desired.routes.as_ref();
        let objects = narrowed.nexthops.objects();
        let stays = routes.zip(objects).is_some_and(|(routes, objects)| {
            let devices = Devices::observed(&observed.links);
            assignment.is_current(routes, objects, &devices, self.policy.marker)
        });
        self.strayed |= !stays;
        Ok(())
    }

    /// Which nexthop objects the routes point at, as of the last look.
    pub(crate) fn objects(&self) -> Option<&NexthopTable> {
        let sifted = self.sifted.as_ref().map(|(desired, _)| desired);
        sifted.or(self.narrowed.as_ref())?.nexthops.objects()
    }

    /// What there is to do if the routes are there that the tracker says, and no others on its keys. Nothing is taken for read:
    /// what is missing is created exclusively, so that the kernel itself says whether it is so.
    pub(crate) fn plan_from_tracker(
        &mut self,
        tracker: &Tracker,
        mut links: Snapshot,
    ) -> Result<(Planned, Owned), Error> {
        let routes = self.desired.routes.as_ref();
        let (routes, there) = routes.map(|routes| tracker.partial_input(routes)).unzip();
        links.observed.routes = there.unwrap_or_default();
        links.observed.complete = links.observed.complete.with(Kind::Route);
        let gone = Desired {
            routes,
            ..Desired::default()
        };
        let owned = self.book.owned(&links.observed);
        let (observer, policy, unmarked) = (&mut self.observer, self.policy, &self.unmarked);
        let planned = look::planned(observer, links, &gone, &owned, policy, unmarked, true)?;
        Ok((planned, owned))
    }

    /// What the routes rest on that the last look passed over.
    pub(crate) fn dependencies(&self) -> Option<&RouteDependencies> {
        self.sifted.as_ref().map(|(_, dependencies)| dependencies)
    }

    /// The links alone.
    pub(crate) fn links(&mut self) -> Result<Snapshot, Error> {
        look::with_all_links(self.observer.snapshot(&ReadScope::default())?)
    }

    /// Has the memory judge the first plan of a pass, in the light of what was heard since the last one. Returns what was
    /// in another writer's hands meanwhile.
    pub(crate) fn judge(
        &self,
        memory: &mut Memory,
        planned: &mut Planned,
        owned: &Owned,
        heard: &DirtySet,
        now: Instant,
    ) -> Result<Vec<Object>, Error> {
        if memory.is_behind(self.desired, self.options) {
            let resolved = resolve(self.desired, &planned.observed, owned, self.policy)?;
            memory.declare(&resolved);
        }
        let shed = self.shed(memory, &planned.plan);
        self.hold(
            memory,
            &mut planned.plan,
            &planned.observed,
            Some(heard),
            now,
        );
        Ok(shed)
    }

    /// What was ours when the last pass ended, and is another's.
    pub(crate) fn shed(&self, memory: &Memory, plan: &Plan) -> Vec<Object> {
        if !memory.is_same(self.desired) {
            return Vec::new();
        }
        let had = |object: &Object| memory.had(object, &plan.devices);
        let conflicts = plan.conflicts.iter();
        let shed = conflicts.filter(|conflict| had(&conflict.desired));
        let mut shed: Vec<Object> = shed.map(|conflict| conflict.foreign.clone()).collect();
        let taken = plan.ops.iter().filter(|op| op.reason == Reason::Taken);
        let retaken = taken.filter(|op| had(&op.object));
        shed.extend(retaken.filter_map(|op| op.was.as_deref().cloned()));
        shed
    }

    pub(crate) fn hold(
        &self,
        memory: &mut Memory,
        plan: &mut Plan,
        observed: &Observed,
        first: Option<&DirtySet>,
        now: Instant,
    ) {
        let names = names(observed);
        let recorded = |object: &Object| {
            let name = |dev: Dev| names.get(&dev.as_index()?).copied();
            let key = RecordKey::of(object, name);
            key.is_some_and(|key| self.book.record(&key).is_some())
        };
        let recorded = |object: &Object| !self.book.is_empty() && recorded(object);
        let whole = self.region.is_whole();
        memory.judge(
            plan,
            self.desired,
            self.options,
            recorded,
            first,
            whole,
            now,
        );
    }

    /// Whether a plan is for more than this pass is about.
    pub(crate) fn is_beyond(&self, plan: &Plan) -> bool {
        !self.region.is_whole() && (self.strayed || region::is_beyond(plan))
    }

    /// Tells the ledger what is so.
    pub(crate) fn record(&mut self, ledger: &mut dyn Ledger, settled: &Records) {
        if let Err(error) = settle(ledger, settled) {
            self.trouble = Some(error.to_string());
        }
    }

    /// Holds what the driver does not want tried.
    fn limit(&mut self, plan: &mut Plan, limits: &PassLimits<'_>) {
        let Plan { ops, devices, .. } = plan;
        for op in ops.iter_mut().filter(|op| op.hold.is_none()) {
            let held = || limits.backoff(OpKey(memory::id(&op.object, devices)));
            if limits.has_backoff()
                && let Some(left) = held()
            {
                op.hold = Some(Hold::Backoff(left));
            } else if self.allowed == 0 {
                op.hold = Some(Hold::Cut);
            } else {
                self.allowed = self.allowed.saturating_sub(1);
            }
        }
    }

    /// Carries a plan out, recording beforehand what has to be.
    pub(crate) fn carry_out(
        &mut self,
        mut plan: Plan,
        ledger: &mut dyn Ledger,
        limits: &PassLimits<'_>,
    ) -> Carried {
        self.limit(&mut plan, limits);
        let indexes = draw_indexes(&plan);
        let devices = plan.devices.clone();
        let intents = Intents::new(&self.book, self.policy, &devices, &indexes);
        let keys = |op: &Op| intents.of(op).into_iter().map(|(key, _)| key);
        // What an earlier pass meant, and nobody could see the end of, stands in the way of more.
        for op in plan.ops.iter_mut().filter(|op| op.hold.is_none()) {
            if !self.book.is_empty() && keys(op).any(|key| self.book.is_open(&key)) {
                let why = "what became of an earlier intent is not known yet";
                op.hold = Some(Hold::Unrecorded(why.into()));
            }
        }
        let due = intents.of_plan(&plan);
        // A plan can be of a million ops of which few are recorded.
        let recorded = plan.ops.iter().enumerate().filter(|_| !due.is_empty());
        let meant: BTreeMap<usize, Vec<RecordKey>> = recorded
            .map(|(at, op)| (at, keys(op).collect::<Vec<_>>()))
            .filter(|(_, keys)| !keys.is_empty())
            .collect();
        let begun = match self.unsettled.keys().any(|key| due.contains_key(key)) {
            true => settle(ledger, &self.unsettled).map(|()| self.unsettled.clear()),
            false => Ok(()),
        };
        let book = &mut self.book;
        let begun = begun.and_then(|()| book.begin(ledger, due));
        if let Err(error) = begun {
            let why = error.to_string();
            for at in meant.keys() {
                let hold = &mut plan.ops[*at].hold;
                hold.get_or_insert_with(|| Hold::Unrecorded(why.as_str().into()));
            }
            self.trouble.get_or_insert(why);
        }
        let unmarked = self.book.unmarked_routes(self.policy.marker);
        self.unmarked.extend(unmarked);
        let socket = self.observer.socket();
        if let Some(listening) = &self.listening {
            let echo = self.echo.get_or_insert_with(|| listening.writing());
            echo.is_from(socket.port_id(), plan.ops.len());
        }
        let hears = std::mem::take(&mut self.hears) && is_told_cheaply(&plan, self.desired);
        let apply = if hears { apply_with_echo } else { apply };
        let mut outcomes = apply(&plan, socket, &indexes, &|| limits.should_continue());
        let told = hears.then(|| told(&plan, &mut outcomes)).flatten();
        let mut refused = BTreeSet::new();
        for (at, keys) in meant {
            let (op, outcome) = (&plan.ops[at], &outcomes.outcomes[at]);
            match outcome {
                // An equal rule that was made since we looked is not ours, unless it was before.
                Outcome::Applied if outcomes.found_existing.contains(&at) => {
                    let unknown = |key: &RecordKey| self.book.record(key).is_none();
                    refused.extend(keys.into_iter().filter(unknown));
                }
                Outcome::Applied => {}
                // What is to be given back is so until it is there.
                _ if op.reason == Reason::GivenBack => {}
                Outcome::Failed(failure) if failure.class() == ErrorClass::Unknown => {}
                // Of what is to be set on a link the kernel may have done a part before it refused the rest.
                Outcome::Failed(_)
                    if (op.action, op.object.kind()) == (Action::Update, Kind::Link) => {}
                Outcome::Failed(failure)
                    if op.action == Action::Create && failure.class() == ErrorClass::Conflict =>
                {
                    refused.extend(keys);
                }
                Outcome::Failed(_) | Outcome::Pending(_) => {
                    let missing = op.reason == Reason::Missing;
                    keys.iter().for_each(|key| self.book.withdraw(key, missing));
                }
            }
        }
        Carried {
            round: Round { plan, outcomes },
            refused,
            told,
        }
    }
}

/// Whether a dump of all routes costs more than what the kernel tells of these: some five rows for each.
fn is_told_cheaply(plan: &Plan, desired: &Desired) -> bool {
    let routes = desired.routes.as_ref().map_or(0, Routes::len);
    plan.ops.len() <= 64 + routes / 8
}

/// The routes that a plan has put there, if the kernel has told of each op that it did what it was to.
fn told(plan: &Plan, outcomes: &mut Outcomes) -> Option<Vec<Route>> {
    let mut told = std::mem::take(&mut outcomes.echoed);
    let mut there = Vec::new();
    for (at, op) in plan.ops.iter().enumerate() {
        let route = told.remove(&at)?;
        let is_told = match (&op.object, op.action) {
            _ if outcomes.outcomes.get(at) != Some(&Outcome::Applied) => false,
            (Object::Route(gone), Action::Delete) => gone.key() == route.key(),
            (Object::Route(wanted), _) => {
                let same = wanted.key() == route.key() && wanted.protocol == route.protocol;
                same && wanted.agrees(&route)
            }
            _ => false,
        };
        if !is_told {
            return None;
        }
        if op.action != Action::Delete {
            there.push(route);
        }
    }
    Some(there)
}

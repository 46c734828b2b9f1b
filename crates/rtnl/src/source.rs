//! The pass.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::time::Instant;

use trueup_apply::{ErrorClass, Outcome, apply, draw_indexes};
use trueup_diff::{
    Action, Desired, Dev, Hold, Kind, Kinds, Object, Observed, Op, Owned, Plan, Policy, Reason,
    RouteKey, resolve,
};
use trueup_netlink::{Marker, Markers, Namespace, Socket, markers};
use trueup_observe::{Scope, Snapshot, snapshot};
use trueup_reconcile::{Ledger, Observation, Source};

use crate::intent::Intents;
use crate::ledger::{Book, names, settle};
use crate::look::{self, Planned};
use crate::memory::{self, Memory};
use crate::record::{Record, RecordKey, Records};
use crate::report::Round;
use crate::why::{self, Explanation, Query};
use crate::{Error, OnConflict, Options, Ownership, Report};

/// How often a pass goes over what its own ops took away, at most.
const ROUNDS: usize = 3;

/// The rtnetlink source.
///
/// Between passes it keeps nothing that correctness needs: each opens its socket anew, so that a namespace that was recreated
/// under its old name is met as what it is. What it remembers serves those with whom it shares the kernel: see
/// [`Options::with_grace`] and [`Options::with_contention`].
pub struct Rtnl {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    memory: Memory,
    /// Of the namespace that was asked last, by its cookie.
    markers: Option<(u64, Markers)>,
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
        why::explain(&mut pass.socket, &pass.book, &resolved, planned, query)
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
        let mut socket = Socket::open(scope)?;
        let judged = |kind: &Kind| desired.managed().contains(*kind) || more.contains(*kind);
        let kinds = Kind::ALL.into_iter().filter(judged).collect();
        let markers = self.markers(&mut socket, kinds)?;
        let mut pass = Pass::open(socket, desired, options, markers, ledger)?;
        let snapshot = pass.read()?;
        pass.recover(&snapshot.observed);
        let (mut planned, owned) = pass.planned(snapshot)?;
        let mut memory = self.memory.clone();
        pass.judge(&mut memory, &mut planned, &owned, (self.clock)())?;
        Ok((pass, planned, owned))
    }

    /// On what this kernel stores a protocol. It is asked once for a namespace, and only where that matters.
    fn markers(&self, socket: &mut Socket, kinds: Kinds) -> Result<Option<(u64, Markers)>, Error> {
        let in_question = |kind: &Kind| {
            matches!(kind, Kind::Address | Kind::Neighbour | Kind::Rule) && kinds.contains(*kind)
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

/// What stays the same throughout a pass, and what is ours in it.
struct Pass<'a> {
    socket: Socket,
    desired: &'a Desired,
    options: &'a Options,
    policy: Policy,
    book: Book,
    /// Routes of ours that do not bear the marker.
    unmarked: BTreeSet<RouteKey>,
    /// What the ledger is yet to be told.
    unsettled: Records,
    trouble: Option<String>,
}

impl<'a> Pass<'a> {
    fn open(
        socket: Socket,
        desired: &'a Desired,
        options: &'a Options,
        markers: Option<(u64, Markers)>,
        ledger: &dyn Ledger,
    ) -> Result<Pass<'a>, Error> {
        let policy = policy(markers.map(|(_, markers)| markers), options)?;
        let book = Book::read(ledger)?;
        Ok(Pass {
            socket,
            desired,
            options,
            policy,
            unmarked: book.unmarked_routes(policy.marker),
            book,
            unsettled: Records::new(),
            trouble: None,
        })
    }

    /// Looks at what is managed, and once more for what is ours by record and is not there: only what is missing twice is gone.
    fn read(&mut self) -> Result<Snapshot, Error> {
        let (managed, marker) = (self.desired.managed(), self.policy.marker);
        let mut snapshot = look::read(&mut self.socket, managed, marker, &self.unmarked)?;
        let missing = self.book.missing(&snapshot.observed);
        if missing != Kinds::NONE {
            let again = look::read(&mut self.socket, missing, marker, &self.unmarked)?;
            look::fill(&mut snapshot, again);
        }
        Ok(snapshot)
    }

    /// Sees what became of the intents that an earlier pass left open.
    fn recover(&mut self, observed: &Observed) -> Records {
        self.book.look(observed, self.policy, &BTreeSet::new())
    }

    fn planned(&mut self, snapshot: Snapshot) -> Result<(Planned, Owned), Error> {
        let owned = self.book.owned(&snapshot.observed);
        let planned = look::planned(
            &mut self.socket,
            snapshot,
            self.desired,
            &owned,
            self.policy,
            &self.unmarked,
        )?;
        Ok((planned, owned))
    }

    /// Has the memory judge the first plan of a pass. What was in somebody else's hands since the last is answered.
    fn judge(
        &self,
        memory: &mut Memory,
        planned: &mut Planned,
        owned: &Owned,
        now: Instant,
    ) -> Result<Vec<Object>, Error> {
        if memory.is_behind(self.desired, self.options) {
            let resolved = resolve(self.desired, &planned.observed, owned, self.policy)?;
            memory.declare(&resolved);
        }
        let plan = &mut planned.plan;
        let had = |object: &Object| memory.had(self.desired, object, &plan.devices);
        let conflicts = plan.conflicts.iter();
        let shed = conflicts.filter(|conflict| had(&conflict.desired));
        let mut shed: Vec<Object> = shed.map(|conflict| conflict.foreign.clone()).collect();
        let taken = plan.ops.iter().filter(|op| op.reason == Reason::Taken);
        let retaken = taken.filter(|op| had(&op.object));
        shed.extend(retaken.filter_map(|op| op.was.as_deref().cloned()));
        self.hold(memory, plan, &planned.observed, true, now);
        Ok(shed)
    }

    fn hold(
        &self,
        memory: &mut Memory,
        plan: &mut Plan,
        observed: &Observed,
        first: bool,
        now: Instant,
    ) {
        let names = names(observed);
        let recorded = |object: &Object| {
            let name = |dev: Dev| names.get(&dev.as_index()?).copied();
            let key = RecordKey::of(object, name);
            key.is_some_and(|key| self.book.record(&key).is_some())
        };
        let recorded = |object: &Object| !self.book.is_empty() && recorded(object);
        memory.judge(plan, self.desired, self.options, recorded, first, now);
    }

    /// Carries a plan out, recording beforehand what has to be.
    fn carry_out(&mut self, mut plan: Plan, ledger: &mut dyn Ledger) -> Carried {
        let indexes = draw_indexes(&plan);
        let devices = plan.devices.clone();
        let intents = Intents::new(&self.book, self.policy, &devices, &indexes);
        let keys = |op: &Op| intents.of(op).into_iter().map(|(key, _)| key);
        // What an earlier pass meant, and nobody could see the end of, stands in the way of more.
        for op in plan.ops.iter_mut().filter(|op| op.hold.is_none()) {
            if !self.book.is_empty() && keys(op).any(|key| self.book.is_open(&key)) {
                let why = "what became of an earlier intent is not known yet";
                op.hold = Some(Hold::Unrecorded(why.to_owned()));
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
                hold.get_or_insert_with(|| Hold::Unrecorded(why.clone()));
            }
            self.trouble.get_or_insert(why);
        }
        let unmarked = self.book.unmarked_routes(self.policy.marker);
        self.unmarked.extend(unmarked);
        let outcomes = apply(&plan, &mut self.socket, &indexes);
        let mut refused = BTreeSet::new();
        for (at, keys) in meant {
            let (op, outcome) = (&plan.ops[at], &outcomes.outcomes[at]);
            match outcome {
                // An equal rule that was made since we looked is not ours, unless it was before.
                Outcome::Applied if outcomes.found.contains(&at) => {
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
        }
    }
}

/// What came of a plan.
struct Carried {
    round: Round,
    /// Keys that somebody else had by the time we asked for them.
    refused: BTreeSet<RecordKey>,
}

/// What proves objects to be ours here.
fn policy(markers: Option<Markers>, options: &Options) -> Result<Policy, Error> {
    let mut unstored = Kinds::NONE;
    if let Some(markers) = markers {
        let stored = [
            (Kind::Address, markers.address),
            (Kind::Neighbour, markers.neighbour),
            (Kind::Rule, markers.rule),
        ];
        // Where it could not be found out there is no rule whose marker could be missed.
        let not = stored
            .iter()
            .filter(|(_, marker)| *marker == Marker::NotKept);
        unstored = not.map(|(kind, _)| *kind).collect();
    }
    let mut by_ledger = unstored;
    for kind in Kind::ALL {
        match options.ownership(kind) {
            Some(Ownership::Ledger) => by_ledger = by_ledger.with(kind),
            Some(Ownership::Marker) if unstored.contains(kind) || kind == Kind::Link => {
                return Err(Error::unmarked(kind));
            }
            Some(Ownership::Marker) | None => {}
        }
    }
    Ok(Policy {
        marker: options.protocol(),
        by_ledger,
        unstored,
        adopt: options.adopt(),
        take: options.on_conflict() == OnConflict::Take,
    })
}

impl Source for Rtnl {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = Snapshot;
    type Error = Error;
    type Subscription = ();

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        let mut socket = Socket::open(scope)?;
        let markers = self.markers(&mut socket, desired.managed())?;
        self.markers = markers.or(self.markers);
        let mut pass = Pass::open(socket, desired, options, markers, ledger)?;
        let snapshot = pass.read()?;
        let recovered = pass.recover(&snapshot.observed);
        if let Err(error) = settle(ledger, &recovered) {
            pass.trouble = Some(error.to_string());
        }
        let (mut planned, owned) = pass.planned(snapshot)?;
        let now = (self.clock)();
        let mut shed = pass.judge(&mut self.memory, &mut planned, &owned, now)?;
        let mut rounds = Vec::new();
        // What failed or waits is not tried again in the same pass, and what was made anew is not made anew again.
        let mut spent: HashSet<(Action, u64)> = HashSet::new();
        let mut seen = true;
        while rounds.len() < ROUNDS {
            let Planned { plan, observed, .. } = &mut planned;
            let identity = |op: &Op| (op.action, memory::id(&op.object, &plan.devices));
            if plan.ops.iter().all(|op| spent.contains(&identity(op))) {
                break;
            }
            let devices = plan.devices.clone();
            let mut plan = std::mem::take(plan);
            // The observation can be large, and what is read next takes its place.
            *observed = Observed::default();
            if !spent.is_empty() {
                plan = plan
                    .retain(|op| !spent.contains(&(op.action, memory::id(&op.object, &devices))));
            }
            let Carried { round, refused } = pass.carry_out(plan, ledger);
            for (op, outcome) in round.plan.ops.iter().zip(&round.outcomes.outcomes) {
                if *outcome != Outcome::Applied || op.reason == Reason::Recreated {
                    spent.insert((op.action, memory::id(&op.object, &devices)));
                }
            }
            rounds.push(round);
            let looked = pass.read().and_then(|snapshot| {
                let settled = pass.book.look(&snapshot.observed, pass.policy, &refused);
                pass.unsettled.extend(settled);
                pass.planned(snapshot)
            });
            match looked {
                Ok((seen, _)) => {
                    planned = seen;
                    let (plan, observed) = (&mut planned.plan, &planned.observed);
                    pass.hold(&mut self.memory, plan, observed, false, now);
                }
                Err(error) => {
                    // What was changed is told all the same. What was meant stays open: the next pass sees to it.
                    pass.trouble.get_or_insert(error.to_string());
                    planned = Planned::default();
                    seen = false;
                    break;
                }
            }
        }
        let mut adopted = Vec::new();
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
            let left = left.map(|object| memory::id(object, &plan.devices));
            self.memory.end(desired, left);
        } else {
            self.memory.end_unknown();
        }
        if let Err(error) = settle(ledger, &pass.unsettled) {
            pass.trouble.get_or_insert(error.to_string());
        }
        Ok(Report {
            converged: pass.trouble.is_none() && planned.is_converged(),
            rounds,
            conflicts: planned.plan.conflicts,
            devices: planned.plan.devices,
            doubts: planned.doubts,
            trouble: pass.trouble,
            adopted,
            shed,
        })
    }

    fn observe(
        &mut self,
        scope: &Namespace,
        _options: &Options,
    ) -> Result<Observation<Snapshot>, Error> {
        let mut socket = Socket::open(scope)?;
        Ok(Observation::Seen(snapshot(&mut socket, &Scope::whole())?))
    }
}

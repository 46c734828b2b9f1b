//! One look: what there is, and what there is to do.
//!
//! Only what is managed is read at first, and of routes only ours, filtered in the kernel by their
//! marker: a host may hold a million that are not. Foreign ones matter where we mean to create or
//! replace (who sits on the key?) and where we mean to take down what carries others (who would go
//! along?), so only then they are read, and of those only the ones in question are kept.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use trueup_diff::{
    Action, Desired, Dev, Devices, DumpMatcher, Family, ForwardingEntry, Item, Kind, Kinds, Link,
    Mismatches, NextHops, Nexthop, NexthopMode, Object, Observed, Op, Owned, Plan, Policy, Route,
    RouteKey, assigned, plan, resolve,
};
use trueup_observe::{Incomplete, Observer, ReadScope, Snapshot};

use crate::Error;
use crate::ledger::Book;
use crate::record::RecordKey;
use crate::region::Region;

/// What a pass would do, as of one look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    /// The ops and conflicts.
    pub plan: Plan,
    /// What was observed: all that is managed, but of foreign routes only those that matter to the
    /// plan.
    pub observed: Observed,
    /// Why some kinds could not be read whole. Of those nothing is deleted, and while there are
    /// any the state is not called converged.
    pub doubts: Vec<Incomplete>,
}

impl Planned {
    /// Nothing is left to do: the kernel has told of each route that it is as it is to be.
    pub(crate) fn told(devices: &Devices, links: Vec<Link>, routes: Vec<Route>) -> Planned {
        let mut plan = Plan::default();
        plan.devices.clone_from(devices);
        Planned {
            plan,
            observed: Observed {
                links,
                routes,
                ..Observed::default()
            },
            doubts: Vec::new(),
        }
    }

    /// Whether the kernel is as desired, and known to be.
    pub fn is_converged(&self) -> bool {
        self.plan.is_empty() && self.doubts.is_empty()
    }
}

/// What a look passes over: routes of ours that are as desired.
#[derive(Clone, Copy)]
pub(crate) struct Passing<'a> {
    /// What is desired in the region.
    pub(crate) desired: &'a Desired,
    pub(crate) book: &'a Book,
    pub(crate) policy: Policy,
    /// Which nexthop objects the routes point at, once it was found.
    pub(crate) shape: Option<&'a NexthopMode>,
}

impl Passing<'_> {
    /// The matcher for them, and which nexthop objects they point at; none where it takes more than a route's marker and value to
    /// tell.
    fn matcher(
        &self,
        observed: &Observed,
        recorded: &BTreeSet<RouteKey>,
    ) -> Option<(DumpMatcher<'_>, NexthopMode)> {
        let Passing {
            desired,
            book,
            policy,
            shape,
        } = *self;
        let routes = desired.routes.as_ref()?;
        if policy.by_ledger.contains(Kind::Route) {
            return None;
        }
        let owned = book.owned(observed);
        let links = Desired {
            links: desired.links.clone(),
            ..Desired::default()
        };
        // What is wrong with a link, the plan will tell.
        let resolved = resolve(&links, observed, &owned, policy).ok()?;
        let mut kept: BTreeSet<RouteKey> = recorded.iter().copied().collect();
        kept.extend(book.keys().filter_map(|key| match key {
            RecordKey::Route(key) => Some(*key),
            _ => None,
        }));
        let marker = policy.marker;
        let shape = match shape {
            Some(shape) => shape.clone(),
            None => assigned(desired, observed, &owned, policy).ok()?,
        };
        let devices = &resolved.devices;
        let matcher = match &shape {
            NexthopMode::Assigned(objects) => {
                DumpMatcher::with_nexthop_table(routes, devices, marker, kept, objects)
            }
            _ => DumpMatcher::new(routes, devices, marker, kept),
        };
        Some((matcher, shape))
    }
}

/// Reads what is managed in a region. `recorded` are routes of ours that do not bear the marker. Of routes that are to be passed
/// over it tells which of those desired are not.
pub(crate) fn read(
    observer: &mut Observer,
    region: &Region,
    managed: Kinds,
    marker: u8,
    recorded: &BTreeSet<RouteKey>,
    passing: Option<Passing<'_>>,
) -> Result<(Snapshot, Option<(Mismatches, NexthopMode)>), Error> {
    let mut snapshot = with_all_links(observer.snapshot(&others(region, managed, marker))?)?;
    let mut mismatches = None;
    if managed.contains(Kind::Route) {
        let mut doubts = Vec::new();
        let matcher = passing.as_ref();
        let matcher = matcher.and_then(|passing| passing.matcher(&snapshot.observed, recorded));
        let (mut matcher, shape) = matcher.unzip();
        for scope in routes(region, marker) {
            let (routes, doubt) = match &mut matcher {
                Some(matcher) => {
                    let (routes, of_scope, doubt) = observer.match_routes(&scope, matcher)?;
                    let found = || (Mismatches::default(), shape.clone().unwrap_or_default());
                    mismatches.get_or_insert_with(found).0.add(of_scope);
                    (routes, doubt)
                }
                None => observer.routes_where(&scope, |_| true)?,
            };
            snapshot.observed.routes.extend(routes);
            doubts.extend(doubt);
        }
        snapshot.mark_read(Kind::Route, doubts);
        snapshot.incomplete.sort_by_key(Incomplete::kind);
    }
    if managed.contains(Kind::Route) && !recorded.is_empty() {
        let scope = ReadScope {
            kinds: Kinds::NONE.with(Kind::Route),
            tables: Some(recorded.iter().map(|key| key.table).collect()),
            ..ReadScope::default()
        };
        let unmarked = |route: &Route| route.protocol != marker && recorded.contains(&route.key());
        let (routes, doubt) = observer.routes_where(&scope, unmarked)?;
        snapshot.observed.routes.extend(routes);
        snapshot.mark_read(Kind::Route, doubt);
    }
    Ok((snapshot, mismatches))
}

/// Refuses a snapshot whose links are in doubt: without all links, names lead nowhere.
pub(crate) fn with_all_links(snapshot: Snapshot) -> Result<Snapshot, Error> {
    let mut doubts = snapshot.incomplete.iter();
    match doubts.find(|doubt| doubt.kind() == Kind::Link) {
        Some(doubt) => Err(Error::links(doubt.to_string())),
        None => Ok(snapshot),
    }
}

/// What there is to read beside routes.
fn others(region: &Region, managed: Kinds, marker: u8) -> ReadScope {
    let part = match region {
        Region::Part(part) => part,
        Region::Whole => {
            return ReadScope {
                kinds: managed.without(Kind::Route),
                protocol: Some(marker),
                ..ReadScope::default()
            };
        }
    };
    let on_devices = [Kind::Address, Kind::Neighbour].into_iter();
    let mut kinds: Kinds = on_devices
        .filter(|kind| managed.contains(*kind) && !part.devices.is_empty())
        .collect();
    if managed.contains(Kind::Rule) && !part.rules.is_empty() {
        kinds = kinds.with(Kind::Rule);
    }
    if part.nexthops {
        kinds = kinds.with(Kind::Nexthop);
    }
    // Of others' nexthop objects those alone that are in our places.
    let protocol = part.nexthops.then_some(marker);
    let one = (part.rules.len() == 1).then(|| part.rules.first().copied());
    ReadScope {
        kinds,
        protocol,
        devices: Some(part.devices.keys().copied().collect()),
        family: one.flatten(),
        ..ReadScope::default()
    }
}

/// The routes there are to read.
fn routes(region: &Region, marker: u8) -> Vec<ReadScope> {
    let ours = ReadScope {
        kinds: Kinds::NONE.with(Kind::Route),
        protocol: Some(marker),
        ..ReadScope::default()
    };
    let part = match region {
        Region::Whole => return vec![ours],
        Region::Part(part) => part,
    };
    let of = |family: Family| {
        let tables = part.tables.iter().filter(|(of, _)| *of == family);
        let tables: BTreeSet<u32> = tables.map(|(_, table)| *table).collect();
        let all = part.routes.contains(&family);
        (all || !tables.is_empty()).then(|| ReadScope {
            tables: (!all).then_some(tables),
            family: Some(family),
            ..ours.clone()
        })
    };
    [Family::Inet, Family::Inet6]
        .into_iter()
        .filter_map(of)
        .collect()
}

/// Adds the objects of which there are none on the key.
fn add<T: Item>(to: &mut Vec<T>, from: Vec<T>) {
    let there: BTreeSet<T::Key> = to.iter().map(Item::key).collect();
    to.extend(from.into_iter().filter(|item| !there.contains(&item.key())));
}

/// Adds the routes and rules of another look of which the first has none on the key: its dumps may have lost them.
pub(crate) fn fill(snapshot: &mut Snapshot, again: Snapshot) {
    let observed = &mut snapshot.observed;
    add(&mut observed.routes, again.observed.routes);
    add(&mut observed.rules, again.observed.rules);
    for doubt in again.incomplete {
        let is_new = !snapshot.incomplete.contains(&doubt);
        snapshot.mark_read(doubt.kind(), is_new.then_some(doubt));
    }
}

/// More changes of routes are cheaper to look at first than to make one by one beside what they were.
const MAX_APPEND_THEN_DELETE: usize = 256;

/// Plans from what was read, after a look at whoever else the plan concerns. Who sits on the keys of routes that we mean to
/// create, or of few that we mean to change, is not asked where `skip_conflict_check`: a create is exclusive, and so finds out by itself, and a
/// changed route comes [beside](Plan::append_then_delete) what it was.
pub(crate) fn planned(
    observer: &mut Observer,
    snapshot: Snapshot,
    desired: &Desired,
    owned: &Owned,
    policy: Policy,
    recorded: &BTreeSet<RouteKey>,
    skip_conflict_check: bool,
) -> Result<Planned, Error> {
    let marker = policy.marker;
    let Snapshot {
        mut observed,
        incomplete: mut doubts,
    } = snapshot;
    let mut plan = plan(desired, &observed, owned, policy)?;
    let changed = || {
        plan.ops
            .iter()
            .filter(|op| op.can_append_then_delete())
            .count()
    };
    // What is ours by record has to be one on its key.
    let by_record = !recorded.is_empty() || policy.by_ledger.contains(Kind::Route);
    let append_then_delete =
        skip_conflict_check && !by_record && changed() <= MAX_APPEND_THEN_DELETE;
    if append_then_delete {
        plan = plan.append_then_delete();
    }
    let mut question = Question::of(&plan, &observed, skip_conflict_check);
    if !question.is_empty() {
        let doubtful = doubts.len();
        let managed = desired.managed();
        if !question.devs.is_empty() {
            let unread = [Kind::Address, Kind::Neighbour]
                .into_iter()
                .filter(|kind| !managed.contains(*kind));
            let mut kinds: Kinds = unread.collect();
            if question.links {
                kinds = kinds.with(Kind::Nexthop);
            }
            let scope = ReadScope {
                kinds,
                ..ReadScope::default()
            };
            let others = observer.snapshot(&scope)?;
            observed.addresses.extend(others.observed.addresses);
            observed.neighbours.extend(others.observed.neighbours);
            let nexthops = question.nexthops_of(others.observed.nexthops);
            add(&mut observed.nexthops, nexthops);
            observed.nexthops.sort_by_key(|nexthop| nexthop.id);
            doubts.extend(others.incomplete);
            if question.links {
                let on = |entry: &ForwardingEntry| question.devs.contains(&entry.dev);
                let (entries, doubt) = observer.forwarding_where(on)?;
                observed.forwarding = entries;
                doubts.extend(doubt);
            }
            question.note_sources(&observed);
        }
        let read = |route: &Route| {
            let known = route.protocol == marker || recorded.contains(&route.key());
            managed.contains(Kind::Route) && known
        };
        let (foreign, doubt) = observer.routes_where(&question.scope(), |route| {
            !read(route) && question.concerns(route)
        })?;
        let news = !foreign.is_empty() || !question.devs.is_empty();
        observed.routes.extend(foreign);
        doubts.extend(doubt);
        if !(question.devs.is_empty() && question.nexthops.is_empty()) && doubts.len() > doubtful {
            // Not knowing what would go along, nothing that takes others along may go.
            let takers = [Kind::Link, Kind::Address, Kind::Nexthop].into_iter();
            observed.complete = takers.fold(observed.complete, Kinds::without);
        }
        if news {
            // A plan can be large: the old one goes first.
            drop(plan);
            plan = trueup_diff::plan(desired, &observed, owned, policy)?;
            if append_then_delete {
                plan = plan.append_then_delete();
            }
        }
    }
    Ok(Planned {
        plan,
        observed,
        doubts,
    })
}

/// Which foreign objects matter to a plan.
#[derive(Default)]
struct Question {
    /// On a key that we mean to create or replace. Sorted.
    keys: Vec<RouteKey>,
    /// On a device that is to lose something they may rest on.
    devs: BTreeSet<Dev>,
    /// Something happens to links.
    links: bool,
    /// With a source that is to go.
    sources: HashSet<IpAddr>,
    /// Pointing at a nexthop object that is to go.
    nexthops: BTreeSet<u32>,
}

impl Question {
    fn of(plan: &Plan, observed: &Observed, skip_conflict_check: bool) -> Question {
        let devs = plan.devices_hit(observed);
        let mut question = Question {
            links: !devs.is_empty(),
            devs,
            ..Question::default()
        };
        for op in &plan.ops {
            let Op { action, object, .. } = op;
            match (object, action) {
                (Object::Route(_), Action::Create) if skip_conflict_check => {}
                (Object::Route(_), Action::Update) if plan.appends_then_deletes(op) => {}
                (Object::Route(route), Action::Create | Action::Update) => {
                    question.keys.push(route.key());
                }
                (Object::Nexthop(nexthop), Action::Delete) => {
                    question.nexthops.insert(nexthop.id);
                }
                (Object::Address(address), Action::Delete) => {
                    question.devs.insert(address.dev);
                    question.sources.insert(address.address.ip());
                }
                // In IPv6 what is taken for the route to its subnet goes with every change.
                (Object::Address(address), Action::Update) if address.family() == Family::Inet6 => {
                    question.devs.insert(address.dev);
                }
                _ => {}
            }
        }
        // A plan's ops are in key order but for their stages: this is quick, and takes less than
        // half of what a hash set would.
        question.keys.sort_unstable();
        question
    }

    /// Of all nexthop objects those that lead out of the devices in question, and their groups.
    fn nexthops_of(&self, all: Vec<Nexthop>) -> Vec<Nexthop> {
        let leads = |nexthop: &&Nexthop| nexthop.dev().is_some_and(|dev| self.devs.contains(&dev));
        let ids: BTreeSet<u32> = all.iter().filter(leads).map(|nexthop| nexthop.id).collect();
        let concerns =
            |it: &Nexthop| ids.contains(&it.id) || it.members().any(|id| ids.contains(&id));
        all.into_iter().filter(concerns).collect()
    }

    /// What is on a link goes with it: whoever has it for a source is hit.
    fn note_sources(&mut self, observed: &Observed) {
        let on_devs = observed
            .addresses
            .iter()
            .filter(|address| self.devs.contains(&address.dev));
        self.sources
            .extend(on_devs.map(|address| address.address.ip()));
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.devs.is_empty() && self.nexthops.is_empty()
    }

    fn scope(&self) -> ReadScope {
        let tables: BTreeSet<u32> = self.keys.iter().map(|key| key.table).collect();
        let all = !self.devs.is_empty() || !self.nexthops.is_empty() || tables.len() > 16;
        ReadScope {
            kinds: Kinds::NONE.with(Kind::Route),
            tables: (!all).then_some(tables),
            ..ReadScope::default()
        }
    }

    fn concerns(&self, route: &Route) -> bool {
        let points = |id: &u32| self.nexthops.contains(id);
        self.keys.binary_search(&route.key()).is_ok()
            || matches!(&route.nexthops, NextHops::Object(id, _) if points(id))
            || (!self.devs.is_empty()
                && (route.src.is_some_and(|src| self.sources.contains(&src))
                    || route.carriers().any(|dev| self.devs.contains(&dev))))
    }
}

//! A run as data: desired states, other writers' acts and faults, each with its time. It is drawn
//! from a seed, run, and shrunk.

use std::ops::RangeInclusive;
use std::time::Duration;

use fastrand::Rng;
use trueup_e2e::desired::nothing;
use trueup_e2e::world::World as Rows;
use trueup_net::{Desired, Domain, IfName, NextHop, NextHops, NexthopMode, Route};
use trueup_netlink::Namespace;
use trueup_testkit::faults::{At, Fault};
use trueup_testkit::{Kind, RawMessage, mask};

use crate::disk::DiskFault;
use crate::draw;
use crate::writers::Change;

#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) turns: Vec<Turn>,
}

/// The settings of a whole run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// True if the ledger is the proof for every kind.
    pub(crate) by_ledger: bool,
    /// True if the kernel keeps no marker on addresses, neighbours and rules.
    pub(crate) is_masked: bool,
    /// The time for which orphans are left alone.
    pub(crate) grace: Duration,
    /// The limit of changes a second, if any.
    pub(crate) limit: Option<u32>,
    /// True if the agent has a domain. Other writers then use the same marker outside it.
    pub(crate) has_domain: bool,
}

/// The link outside the domain, and the tables and priorities inside.
const OUTSIDE: &str = "ifb0";
const TABLES: RangeInclusive<u32> = 1..=254;
const PRIORITIES: RangeInclusive<u32> = 40_000..=40_999;

impl Setup {
    /// Returns the host's kernel, perhaps masked.
    pub(crate) fn kernel(&self, namespace: Namespace) -> Namespace {
        match self.is_masked {
            true => mask(namespace, &[Kind::Address, Kind::Neighbour, Kind::Rule]),
            false => namespace,
        }
    }

    pub(crate) fn domain(&self) -> Domain {
        if !self.has_domain {
            return Domain::default();
        }
        let interfaces = ["br*", "v*", "mv*", "ext*", "lo"].map(|it| it.parse().unwrap());
        Domain::default()
            .with_interfaces(interfaces)
            .with_tables([TABLES])
            .with_rule_priorities([PRIORITIES])
            .with_nexthop_objects(true)
    }

    /// Returns true if a row is in the domain, computed apart from trueup.
    pub(crate) fn is_in_domain(&self, row: &RawMessage, rows: &Rows) -> bool {
        const FRA_PRIORITY: u16 = 6;
        let names = row.devices().into_iter();
        let mut names = names.filter_map(|device| rows.names.get(&device));
        !self.has_domain
            || match row.kind {
                Kind::Rule => {
                    let priority = row.attr_u32(FRA_PRIORITY).unwrap_or(0);
                    PRIORITIES.contains(&priority)
                }
                Kind::Nexthop => true,
                _ => {
                    names.all(|name| name != OUTSIDE)
                        && row.table().is_none_or(|table| TABLES.contains(&table))
                }
            }
    }

    /// Returns a state that the kernel can hold, all of it in the domain.
    fn draw(&self, seed: u64) -> Desired {
        if !self.has_domain {
            return draw::desired(seed, &[]);
        }
        let mut desired = draw::desired(seed, &[OUTSIDE]);
        if let Some(routes) = desired.routes.take() {
            let inside = routes.iter().filter(|route| TABLES.contains(&route.table));
            desired.routes = Some(inside.collect());
        }
        desired
    }
}

/// The events before and during a pass.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    pub(crate) event: Option<Event>,
    pub(crate) desired: Option<Desired>,
    /// True if the desired state is changed in place, not replaced.
    pub(crate) is_change: bool,
    pub(crate) acts: Vec<Act>,
    pub(crate) faults: Vec<(At, Injection)>,
    pub(crate) disk: Vec<(u32, DiskFault)>,
}

/// An event at the agent or its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Restart,
    Recreate { is_noticed: bool },
    ClockStands,
    Later(Duration),
}

/// An event at a message of a pass.
#[derive(Clone)]
pub(crate) enum Injection {
    Fault(Fault),
    Act(Act),
}

/// Another writer's act.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Drawn when it happens, from the objects present then; of this kind, if given.
    Drawn(u64, Option<Kind>),
    Known(Vec<Change>),
}

impl Script {
    pub(crate) fn draw(seed: u64) -> Script {
        let mut rng = Rng::with_seed(seed);
        let is_masked = rng.u8(..4) == 0;
        let setup = Setup {
            by_ledger: rng.u8(..3) == 0,
            is_masked,
            grace: Duration::from_secs(if rng.u8(..4) == 0 { 10 } else { 0 }),
            limit: (rng.u8(..6) == 0).then(|| rng.u32(1..20)),
            has_domain: rng.u8(..4) == 0,
        };
        let turns = rng.usize(2..10);
        let mut desired = None;
        let turns = (0..turns).map(|_| Turn::draw(&setup, &mut rng, &mut desired));
        let turns = turns.collect();
        Script { seed, setup, turns }
    }
}

impl Turn {
    /// Draws a turn. `last` is the desired state of the turns before.
    fn draw(setup: &Setup, rng: &mut Rng, last: &mut Option<Desired>) -> Turn {
        let mut turn = Turn::default();
        let is_first = last.is_none();
        turn.desired = match last {
            Some(last) if rng.u8(..4) == 0 => {
                turn.is_change = true;
                Some(with_other_routes(setup, last.clone(), rng))
            }
            Some(last) if rng.u8(..6) == 0 => Some(altered(last.clone(), rng)),
            Some(_) if rng.u8(..3) > 0 => None,
            _ => Some(desired(setup, rng)),
        };
        if turn.desired.is_some() {
            last.clone_from(&turn.desired);
        }
        turn.event = match rng.u8(..24) {
            _ if is_first => None,
            0 | 1 => Some(Event::Restart),
            2 => Some(Event::Recreate { is_noticed: rng.bool() }),
            3 => Some(Event::ClockStands),
            4 => Some(Event::Later(Duration::from_secs(rng.u64(1..100)))),
            _ => None,
        };
        for _ in 0..rng.u8(..5) {
            turn.acts.push(Act::Drawn(rng.u64(..), None));
        }
        for _ in 0..rng.u8(..5).saturating_sub(1) {
            turn.faults.push(injection(rng));
        }
        if rng.u8(..4) == 0 {
            turn.faults.extend(lossy_dump(rng));
        }
        if rng.u8(..8) == 0 {
            second_dump(rng, &mut turn, last);
        }
        if rng.u8(..8) == 0 {
            interrupted_nexthops(&mut turn, last);
        }
        if rng.u8(..8) == 0 {
            let fault = match rng.u8(..4) {
                0 => DiskFault::KillBefore,
                1 => DiskFault::KillAfter,
                2 => DiskFault::Full,
                _ => DiskFault::SyncFails,
            };
            turn.disk.push((rng.u32(1..20), fault));
        }
        turn
    }
}

/// Draws a desired state: everything is declared, a few sections, or nothing.
fn desired(setup: &Setup, rng: &mut Rng) -> Desired {
    if rng.u8(..8) == 0 {
        return nothing();
    }
    let mut desired = setup.draw(rng.u64(..));
    if rng.u8(..4) == 0 {
        desired.nexthops = NexthopMode::Objects;
    }
    // An absent section is unmanaged, an empty one manages its kind.
    if rng.u8(..8) == 0 {
        desired.rules = None;
    }
    if rng.u8(..8) == 0 {
        desired.neighbours = None;
    }
    if rng.u8(..8) == 0 {
        desired.routes = None;
    }
    desired
}

/// Replaces some objects by others with the same key, and removes some.
fn altered(mut desired: Desired, rng: &mut Rng) -> Desired {
    let kept = |rng: &mut Rng| rng.u8(..4) > 0;
    if let Some(rules) = desired.rules.take() {
        let altered = rules.into_iter().map(|rule| {
            let not = rule.not ^ rng.bool();
            rule.with_not(not)
        });
        let altered: Vec<_> = altered.collect();
        desired.rules = Some(altered.into_iter().filter(|_| kept(rng)).collect());
    }
    if let Some(neighbours) = desired.neighbours.take() {
        desired.neighbours = Some(neighbours.into_iter().filter(|_| kept(rng)).collect());
    }
    if let Some(routes) = desired.routes.take() {
        desired.routes = Some(routes.iter().filter(|_| kept(rng)).collect());
    }
    desired
}

/// Removes some routes, and adds others that need no address.
fn with_other_routes(setup: &Setup, mut desired: Desired, rng: &mut Rng) -> Desired {
    let others = setup.draw(rng.u64(..)).routes;
    if let (Some(routes), Some(others)) = (&mut desired.routes, others) {
        let gone: Vec<_> = routes.keys().filter(|_| rng.u8(..4) == 0).collect();
        for key in gone {
            routes.remove(&key);
        }
        let needs_none = |route: &Route<IfName>| route.kind.is_reject() && route.src.is_none();
        for route in others.iter().filter(needs_none).filter(|_| rng.bool()) {
            routes.insert(route);
        }
    }
    desired
}

/// Returns a lossy dump's faults: while another writer writes, the kernel may omit a row, or show
/// one twice.
fn lossy_dump(rng: &mut Rng) -> Vec<(At, Injection)> {
    let kinds = [Kind::Neighbour, Kind::Route, Kind::Rule];
    let kind = *rng.choice(&kinds).unwrap_or(&Kind::Rule);
    let at = match rng.u8(..3) {
        0 => At::EveryDump(kind),
        _ => At::Dump(kind, rng.u32(1..6)),
    };
    let row = rng.usize(1..6);
    let fault = match rng.u8(..4) {
        0 => return vec![(at, Injection::Fault(Fault::RepeatRow(row)))],
        _ => Fault::LoseRow(row),
    };
    let act = Act::Drawn(rng.u64(..), Some(kind));
    vec![(at, Injection::Act(act)), (at, Injection::Fault(fault))]
}

/// Spoils a second dump, perhaps while other objects are to be deleted. The agent makes it, one for
/// each family, if it does not find a recorded object: the object is gone, or a dump lost it.
fn second_dump(rng: &mut Rng, turn: &mut Turn, last: &mut Option<Desired>) {
    let kind = *rng.choice(&[Kind::Route, Kind::Rule]).unwrap_or(&Kind::Rule);
    let of_family = rng.u32(1..3);
    // The second dump cannot show the row that the first has lost.
    let row = rng.usize(1..5);
    let act = Act::Drawn(rng.u64(..), Some(kind));
    if rng.bool() {
        turn.acts.push(act);
    } else {
        let at = At::Dump(kind, of_family);
        let lost = Fault::LoseRow(row);
        turn.faults.push((at, Injection::Act(act)));
        turn.faults.push((at, Injection::Fault(lost)));
    }
    let at = At::Dump(kind, of_family + 2);
    let fault = Fault::SpoilRow(row);
    turn.faults.push((at, Injection::Fault(fault)));
    if let Some(last) = last {
        *last = altered(last.clone(), rng);
        turn.desired = Some(last.clone());
    }
}

/// Makes two routes use nexthop objects, and in a later turn none. The objects are then to be
/// deleted while their dump is never complete.
fn interrupted_nexthops(turn: &mut Turn, last: &mut Option<Desired>) {
    let Some(last) = last else { return };
    let Some(routes) = &mut last.routes else {
        return;
    };
    let route = |dst: &str, via: &str| {
        let mut hop = NextHop::via(via.parse().ok()?);
        hop.dev = "ext0".parse::<IfName>().ok();
        let route = Route::new(dst.parse().ok()?, NextHops::One(hop));
        Some(route.with_table(254))
    };
    let both = [("10.60.0.0/24", "10.0.3.90"), ("10.60.1.0/24", "10.0.3.91")];
    let both: Vec<_> = both.into_iter().filter_map(|(dst, via)| route(dst, via)).collect();
    let was_there = both.iter().map(|it| routes.remove(&it.canonical_key()).is_some());
    if was_there.fold(false, |any, one| any | one) {
        let at = At::EveryDump(Kind::Nexthop);
        turn.faults.push((at, Injection::Fault(Fault::Interrupt)));
    } else {
        last.nexthops = NexthopMode::Objects;
        both.into_iter().for_each(|route| drop(routes.insert(route)));
    }
    turn.desired = Some(last.clone());
}

fn injection(rng: &mut Rng) -> (At, Injection) {
    let dumped = *rng.choice(&Kind::ALL).unwrap_or(&Kind::Link);
    let at_change = At::Change(rng.u32(1..12));
    let at_dump = At::Dump(dumped, rng.u32(1..5));
    let row = rng.usize(1..6);
    let fault = match rng.u8(..32) {
        0..=7 => return (at_change, Injection::Act(Act::Drawn(rng.u64(..), None))),
        8..=13 => return (at_dump, Injection::Act(Act::Drawn(rng.u64(..), None))),
        14 => (at_change, Fault::Refuse(*rng.choice(&[16, 12, 105]).unwrap_or(&16))),
        15 | 16 => (at_change, Fault::LoseAnswer),
        17 | 18 => (at_change, Fault::DieBefore),
        19 | 20 => (at_change, Fault::DieAfter),
        21 => (at_dump, Fault::DieBefore),
        22 => (At::EveryDump(dumped), Fault::Interrupt),
        23 => (at_dump, Fault::Interrupt),
        24 | 25 => (at_dump, Fault::SpoilRow(row)),
        26 => (At::EveryDump(dumped), Fault::SpoilRow(row)),
        27 => {
            // An unknown attribute makes the whole rule or route unknown.
            let kinds = [Kind::Link, Kind::Address, Kind::Neighbour];
            let kind = *rng.choice(&kinds).unwrap_or(&Kind::Link);
            (At::EveryDump(kind), Fault::UnknownAttribute)
        }
        28 => (at_dump, Fault::Overrun),
        29 => (at_dump, Fault::BreakOff(12)),
        30 => (at_dump, Fault::Refuse(12)),
        _ => (At::Announcements, Fault::Overrun),
    };
    (fault.0, Injection::Fault(fault.1))
}

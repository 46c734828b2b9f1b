//! Checks the decisions over every order of events: a breadth-first search over discretised time. A
//! model gets the same events and knows only the contract's promises.
//!
//! A tick is 10 ms. States that differ only in past times or in counters count as one. Unless
//! `TRUEUP_LONG=1` asks for all states, a search ends at the first [`SHORT`] of them.

mod fingerprint;
mod model;
mod world;

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, ErrorClass, EventCoverage, Extent, OpKey, Outcome};
use trueup_testkit::is_long;

use self::fingerprint::Fingerprint as _;
use self::world::World;
use crate::state::{DrainCause, Phase, RunningPass};
use crate::{Action, Config, Revision, State, SubscriptionState};

const TICK: Duration = Duration::from_millis(10);
const INTERVAL: u64 = 4;
/// The interval's factor: a full pass of two ticks gets a rest longer than the interval, one of one
/// tick does not.
const FACTOR: u64 = 3;
const DEBOUNCE: u64 = 2;
const DEADLINE: u64 = 1;
const FIRST: u64 = 1;
const LAST: u64 = 3;
const BURST: u64 = 2;
/// The ticks in which the budget gains one op.
const REFILL: u64 = 2;
/// The longest pass, in ticks.
const LONGEST: u64 = 2;
const KEY: OpKey = OpKey(1);
/// The number of states that a search visits, unless it must find all.
const SHORT: usize = 40_000;

fn at(tick: u64) -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now) + TICK * tick as u32
}

/// The part of the events that one test covers. All of them together would be too many states.
#[derive(Clone, Copy)]
struct Setup {
    /// The class of the op that fails; `None` if none does.
    fails: Option<ErrorClass>,
    /// The possible results of subscribing.
    subscribed: &'static [SubscriptionState],
    /// The coverage by events that the passes report.
    coverage: EventCoverage,
    budget: bool,
    /// True if the desired state changes too.
    changes: bool,
    /// The least number of states that the search must find.
    floor: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Tick,
    Hint,
    Heard,
    Readable,
    Desired,
    Change,
    Force,
    Pause,
    Resume,
    Stop,
    Subscribed(SubscriptionState),
    Attended(Option<Drained>),
    Over(Result),
}

/// A pass's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Result {
    Error,
    Converged,
    /// The outcome of the op on the key.
    Op(Outcome),
    /// The pass applied all ops that it was granted, or one, and then was truncated.
    Truncated,
    /// The pass requests another one at once.
    Again,
}

/// Searches breadth-first until there is no new state, or there are `most`. Returns their number.
fn explore(setup: Setup, most: usize) -> usize {
    let mut seen = HashSet::new();
    let mut wave = vec![World::new(setup)];
    let mut steps = 0usize;
    let mut depth = 0;
    while !wave.is_empty() && seen.len() < most {
        let mut next = Vec::new();
        for world in wave {
            for event in world.events() {
                let mut world = world.clone();
                world.event(event);
                steps += 1;
                let fingerprint =
                    world.state.fingerprint(world.now).chain(world.model.fingerprint(world.now));
                if seen.insert(fingerprint.collect::<Vec<u8>>()) && !world.model.ended {
                    next.push(world);
                }
            }
        }
        assert!(seen.len() <= 4 * setup.floor, "states without end");
        wave = next;
        depth += 1;
    }
    let end = if wave.is_empty() { ": all there are" } else { "" };
    println!("{} states, {steps} events, {depth} deep{end}", seen.len());
    seen.len()
}

fn check(setup: Setup) {
    let most = if is_long() { usize::MAX } else { SHORT };
    let states = explore(setup, most);
    assert!(states >= setup.floor.min(most), "{states} states, fewer than there were");
}

#[test]
fn hints_timer_pause_and_stop() {
    check(Setup {
        fails: None,
        subscribed: &[SubscriptionState::Pushed],
        coverage: EventCoverage::Nothing,
        budget: false,
        changes: false,
        floor: 17_000,
    });
}

#[test]
fn a_descriptor_that_fails_and_comes_again() {
    check(Setup {
        fails: None,
        subscribed: &[
            SubscriptionState::Polled,
            SubscriptionState::Failed,
            SubscriptionState::Unsupported,
        ],
        coverage: EventCoverage::Nothing,
        budget: false,
        changes: false,
        floor: 106_000,
    });
}

#[test]
fn a_subscription_that_covers_everything() {
    covered(EventCoverage::Everything, 25_000);
}

#[test]
fn a_subscription_that_covers_a_part() {
    covered(EventCoverage::Part, 28_000);
}

#[test]
fn a_subscription_that_covers_everything_and_loses_events_or_fails() {
    check(Setup {
        fails: None,
        subscribed: &[SubscriptionState::Polled, SubscriptionState::Failed],
        coverage: EventCoverage::Everything,
        budget: false,
        changes: false,
        floor: 160_000,
    });
}

#[test]
fn a_subscription_that_covers_a_part_and_an_op_that_is_busy() {
    check(Setup {
        fails: Some(ErrorClass::Busy),
        subscribed: &[SubscriptionState::Pushed],
        coverage: EventCoverage::Part,
        budget: false,
        changes: false,
        floor: 328_000,
    });
}

fn covered(coverage: EventCoverage, floor: usize) {
    check(Setup {
        fails: None,
        subscribed: &[SubscriptionState::Pushed],
        coverage,
        budget: false,
        changes: false,
        floor,
    });
}

#[test]
fn a_budget() {
    check(Setup {
        fails: None,
        subscribed: &[SubscriptionState::Pushed],
        coverage: EventCoverage::Nothing,
        budget: true,
        changes: false,
        floor: 22_000,
    });
}

#[test]
fn an_op_that_is_busy() {
    fails(ErrorClass::Busy, &[SubscriptionState::Pushed], 125_000);
}

#[test]
fn an_op_that_depends_on_another() {
    fails(ErrorClass::Dependency, &[SubscriptionState::Pushed], 198_000);
}

#[test]
fn an_op_that_is_in_conflict() {
    fails(ErrorClass::Invalid, &[SubscriptionState::Pushed], 173_000);
}

#[test]
fn an_op_that_is_in_conflict_and_nothing_would_say_that_it_no_longer_is() {
    fails(ErrorClass::Invalid, &[SubscriptionState::Unsupported], 23_000);
}

#[test]
fn changes_of_the_desired_state() {
    check(Setup {
        fails: None,
        subscribed: &[SubscriptionState::Pushed],
        coverage: EventCoverage::Nothing,
        budget: false,
        changes: true,
        floor: 78_000,
    });
}

#[test]
fn changes_of_the_desired_state_and_an_op_that_depends_on_another() {
    changes_and_fails(ErrorClass::Dependency, 340_000);
}

#[test]
fn changes_of_the_desired_state_and_an_op_that_is_in_conflict() {
    changes_and_fails(ErrorClass::Invalid, 450_000);
}

fn changes_and_fails(class: ErrorClass, floor: usize) {
    check(Setup {
        fails: Some(class),
        subscribed: &[SubscriptionState::Unsupported],
        coverage: EventCoverage::Nothing,
        budget: false,
        changes: true,
        floor,
    });
}

fn fails(class: ErrorClass, subscribed: &'static [SubscriptionState], floor: usize) {
    check(Setup {
        fails: Some(class),
        subscribed,
        coverage: EventCoverage::Nothing,
        budget: false,
        changes: false,
        floor,
    });
}

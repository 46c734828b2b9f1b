//! Correctness never depends on a hint. Other writers change a world under a simulated clock, and
//! their hints arrive, get lost, repeat or come late. The world always ends in the same state, with
//! no more passes than the debounce allows.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use trueup_loop::{Action, Config, PassSummary, State, SubscriptionState};
use trueup_reconcile::{Drained, Extent};

const INTERVAL: Duration = Duration::from_secs(5);
const DEBOUNCE: Duration = Duration::from_millis(100);
const PASS: Duration = Duration::from_millis(3);

/// The fate of a hint on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Arrives,
    IsDropped,
    /// The number of repetitions, and the milliseconds between them.
    IsRepeated(u64, u64),
    /// The delay in milliseconds: hints of a later change may arrive first.
    IsLate(u64),
}

/// Another writer removes a key, `after` milliseconds after the last change.
#[derive(Clone, Copy, Debug)]
struct Change {
    after: u64,
    key: u8,
    way: Way,
}

/// A hint about a change that did not happen.
#[derive(Clone, Copy, Debug)]
struct Invented {
    at: u64,
    key: u8,
}

/// The world, with a source that restores missing keys: all of them, or the announced ones.
#[derive(Default)]
struct World {
    missing: BTreeSet<u8>,
    doubtful: BTreeSet<u8>,
}

/// Events in the order in which they happen.
enum Happens {
    Change(u8),
    Hint(u8),
}

struct Outcome {
    missing: BTreeSet<u8>,
    whole: usize,
    doubtful: usize,
    elapsed: Duration,
    /// The longest time that a key was missing.
    longest: Duration,
}

fn run(changes: &[Change], invented: &[Invented], seed: u64) -> Outcome {
    let start = Instant::now();
    let mut happens = Vec::new();
    let mut time = 0;
    for change in changes {
        time += change.after;
        happens.push((time, Happens::Change(change.key)));
        let arrivals: Vec<u64> = match change.way {
            Way::Arrives => vec![time],
            Way::IsDropped => vec![],
            Way::IsRepeated(times, apart) => (0..=times).map(|it| time + it * apart).collect(),
            Way::IsLate(by) => vec![time + by],
        };
        happens.extend(arrivals.into_iter().map(|at| (at, Happens::Hint(change.key))));
    }
    happens.extend(invented.iter().map(|it| (it.at, Happens::Hint(it.key))));
    happens.sort_by_key(|(at, _)| *at);
    let last = happens.last().map_or(0, |(at, _)| *at);
    let config = Config::default().with_interval(INTERVAL).with_debounce(DEBOUNCE);
    let end = start + Duration::from_millis(last) + INTERVAL * 11 / 10 + 2 * PASS;

    let mut state = State::new(config).with_seed(seed);
    let mut world = World::default();
    let (mut now, mut whole, mut doubtful) = (start, 0, 0);
    let (mut since, mut longest) = (None, Duration::ZERO);
    let mut happens = happens.into_iter().peekable();
    // The running pass: its end, and the keys it found missing.
    let mut running: Option<(Instant, BTreeSet<u8>)> = None;
    while now <= end {
        match state.poll_action(now) {
            Some(Action::Subscribe) => {
                state.handle_subscribed(now, SubscriptionState::Pushed);
                continue;
            }
            Some(Action::Pass { extent, .. }) => {
                let heard = std::mem::take(&mut world.doubtful);
                let found = match extent {
                    Extent::Everything => world.missing.clone(),
                    Extent::Dirty => &world.missing & &heard,
                };
                match extent {
                    Extent::Everything => whole += 1,
                    Extent::Dirty => doubtful += 1,
                }
                running = Some((now + PASS, found));
            }
            Some(action) => panic!("{action:?}"),
            None => {}
        }
        // The earliest event comes first.
        let next = happens.peek().map(|(at, _)| start + Duration::from_millis(*at));
        let over = running.as_ref().map(|(over, _)| *over);
        now = [next, over, state.poll_timeout()].into_iter().flatten().min().unwrap().max(now);
        if over.is_some_and(|over| over <= now) {
            let (_, found) = running.take().unwrap();
            world.missing.retain(|key| !found.contains(key));
            let mut passed = PassSummary::default();
            passed.converged = world.missing.is_empty();
            state.handle_pass_done(now, Some(&passed));
        } else if next.is_some_and(|next| next <= now) {
            match happens.next().unwrap().1 {
                Happens::Change(key) => drop(world.missing.insert(key)),
                Happens::Hint(key) => {
                    world.doubtful.insert(key);
                    state.handle_notification(now, Drained::Hint);
                }
            }
        }
        match world.missing.is_empty() {
            true => since = None,
            false => longest = longest.max(now - *since.get_or_insert(now)),
        }
    }
    Outcome { missing: world.missing, whole, doubtful, elapsed: end - start, longest }
}

fn check(outcome: &Outcome) {
    assert_eq!(outcome.missing, BTreeSet::new(), "all is put back in the end");
    let windows = (outcome.elapsed.as_nanos() / DEBOUNCE.as_nanos()) as usize;
    assert!(outcome.doubtful <= 1 + windows, "{} in {windows}", outcome.doubtful);
    let ticks = (outcome.elapsed.as_nanos() / (INTERVAL * 9 / 10).as_nanos()) as usize;
    assert!(outcome.whole <= 1 + ticks, "{} in {ticks}", outcome.whole);
}

fn change(way: impl Strategy<Value = Way>) -> impl Strategy<Value = Change> {
    (0u64..400, 0u8..8, way).prop_map(|(after, key, way)| Change { after, key, way })
}

fn changes(way: impl Strategy<Value = Way>) -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(change(way), 0..40)
}

fn any_way() -> impl Strategy<Value = Way> {
    prop_oneof![
        Just(Way::Arrives),
        Just(Way::IsDropped),
        (1u64..5, 0u64..200).prop_map(|(times, apart)| Way::IsRepeated(times, apart)),
        (0u64..1_000).prop_map(Way::IsLate),
    ]
}

fn invented() -> impl Strategy<Value = Vec<Invented>> {
    let one = (0u64..20_000, 0u8..8).prop_map(|(at, key)| Invented { at, key });
    prop::collection::vec(one, 0..200)
}

proptest! {
    #[test]
    fn with_all_hints_what_is_missing_is_back_within_the_debounce(changes in changes(Just(Way::Arrives)), seed: u64) {
        // A change during a pass would start a period of its own, so keep the changes apart.
        let apart: Vec<_> = changes.iter().map(|it| Change { after: it.after + 250, ..*it }).collect();
        let outcome = run(&apart, &[], seed);
        check(&outcome);
        prop_assert!(outcome.longest <= DEBOUNCE + 3 * PASS, "{:?}", outcome.longest);
    }

    #[test]
    fn with_all_hints_dropped_it_is_back_within_the_interval(changes in changes(Just(Way::IsDropped)), seed: u64) {
        let outcome = run(&changes, &[], seed);
        check(&outcome);
        prop_assert_eq!(outcome.doubtful, 0);
    }

    #[test]
    fn with_hints_dropped_repeated_reordered_and_invented_the_end_is_the_same(
        changes in changes(any_way()),
        invented in invented(),
        seed: u64,
    ) {
        check(&run(&changes, &invented, seed));
    }
}

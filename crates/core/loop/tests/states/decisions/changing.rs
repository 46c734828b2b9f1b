//! Changes of the desired state.

use std::num::NonZeroU32;

use trueup_reconcile::{ErrorClass, Ops, Outcome};

use super::*;

const KEY: OpKey = OpKey(7);
const FIRST: Duration = Duration::from_secs(1);

fn doubtful(revision: u64) -> Option<Action> {
    began(Extent::Dirty, revision)
}

fn whole(revision: u64) -> Option<Action> {
    began(Extent::Everything, revision)
}

fn began(extent: Extent, revision: u64) -> Option<Action> {
    let (ops, revision) = (None, Revision(revision));
    Some(Action::Pass { extent, ops, revision })
}

/// Returns the summary of a pass with one op, on [`KEY`].
fn summary_of(outcome: Outcome) -> PassSummary {
    let mut ops = Ops::default();
    ops.count(outcome);
    PassSummary {
        ops: [("thing", ops)].into(),
        objects: [(KEY, outcome)].into(),
        ..PassSummary::default()
    }
}

/// Returns a state whose first pass ended just now; its op failed with this class.
fn failed(class: ErrorClass) -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(config().with_interval(Duration::MAX));
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Pushed);
    assert_eq!(state.poll_action(now), whole(0));
    state.handle_pass_done(now, Some(&summary_of(Outcome::Failed(class))));
    (state, now)
}

#[test]
fn neither_debounce_nor_rest_holds_a_change_back() {
    let (mut state, mut now) = subscribed();
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    now += ms(700);
    state.handle_pass_done(now, Some(&PassSummary::default()));
    assert_eq!(state.handle_change(now), Revision(1));
    assert_eq!(state.poll_timeout(), Some(now));
    assert_eq!(state.poll_action(now), doubtful(1));
    assert_eq!(state.handle_change(now + ms(1)), Revision(2));
    assert_eq!(state.handle_change(now + ms(2)), Revision(3));
    state.handle_pass_done(now + ms(3), Some(&PassSummary::default()));
    assert_eq!(state.poll_action(now + ms(3)), doubtful(3), "one for both");
    state.handle_pass_done(now + ms(4), Some(&PassSummary::default()));
    assert_eq!(state.poll_action(now + ms(4)), None);
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL), "nor does it push the timer back");
}

#[test]
fn a_pass_for_a_hint_has_the_change_too_and_one_for_a_change_answers_the_hint() {
    let (mut state, now) = rested();
    state.handle_notification(now, Drained::Hint);
    state.handle_change(now + ms(1));
    assert_eq!(state.poll_action(now + ms(1)), doubtful(1));
    state.handle_pass_done(now + ms(1), Some(&PassSummary::default()));
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
}

#[test]
fn a_whole_pass_that_is_asked_for_comes_for_the_change_as_soon_as_the_rest_is_over() {
    type Ask = fn(&mut State, Instant);
    let asks: [Ask; 3] = [
        |state, now| {
            state.handle_desired(now);
        },
        |state, now| state.handle_hint(now),
        |state, now| state.handle_notification(now, Drained::Lost),
    ];
    for ask in asks {
        for before in [false, true] {
            let (mut state, mut now) = subscribed();
            assert_eq!(state.poll_action(now), Some(FULL_PASS));
            let revision = |state: &State| state.stats.desired.number();
            if before {
                ask(&mut state, now);
            }
            state.handle_change(now + ms(1));
            if !before {
                ask(&mut state, now + ms(1));
            }
            now += ms(50);
            state.handle_pass_done(now, Some(&PassSummary::default()));
            assert_eq!(state.poll_timeout(), Some(now + ms(50)), "the rest");
            assert_eq!(state.poll_action(now + ms(49)), None);
            let last = revision(&state);
            assert_eq!(state.poll_action(now + ms(50)), whole(last));
        }
    }
}

#[test]
fn a_pause_holds_a_change_and_the_first_whole_pass_has_what_came_before_it() {
    let (mut state, now) = rested();
    state.handle_pause();
    state.handle_change(now);
    assert_eq!(state.poll_action(now), None);
    assert_eq!(state.poll_timeout(), None);
    state.handle_resume(now);
    assert_eq!(state.poll_action(now), whole(1));
    let mut state = State::new(config());
    state.handle_change(now);
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Pushed);
    assert_eq!(state.poll_action(now), whole(1));
    state.handle_pass_done(now, Some(&PassSummary::default()));
    assert_eq!(state.poll_action(now), None, "it is answered");
}

#[test]
fn a_budget_holds_with_nothing_to_spend_it_is_a_look() {
    let one = NonZeroU32::new(1).unwrap();
    let now = Instant::now();
    let mut state = State::new(config().with_budget(one, one));
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Pushed);
    assert!(state.poll_action(now).is_some());
    state.handle_pass_done(now, Some(&summary_of(Outcome::Applied)));
    state.handle_change(now);
    let Some(Action::Pass { extent, ops, .. }) = state.poll_action(now) else {
        panic!("at once");
    };
    assert_eq!((extent, ops), (Extent::Dirty, Some(0)));
    let cut = PassSummary { truncated: true, ..summary_of(Outcome::Pending(())) };
    state.handle_pass_done(now, Some(&cut));
    assert_eq!(state.poll_timeout(), Some(now + Duration::from_secs(1)));
}

#[test]
fn a_change_frees_no_other_object() {
    // An op with a missing dependency is free in each pass that answers a hint.
    let held = ErrorClass::ALL.into_iter();
    for class in held.filter(|it| !it.is_done() && *it != ErrorClass::Dependency) {
        let (mut state, now) = failed(class);
        state.handle_change(now);
        assert_eq!(state.poll_action(now), doubtful(1));
        state.handle_changed_keys(Some(&[OpKey(8)]));
        assert_eq!(state.backoff(now, KEY), Some(FIRST), "{class}");
        state.handle_changed_keys(Some(&[KEY]));
        assert_eq!(state.backoff(now, KEY), None, "{class}");
    }
}

#[test]
fn a_change_frees_what_is_not_for_time_alone_until_it_is_tried_and_its_distance_stays() {
    for class in ErrorClass::ALL.into_iter().filter(|it| !it.is_done()) {
        // The change's objects are not known.
        let timed = matches!(class, ErrorClass::Busy | ErrorClass::Unknown);
        let (mut state, now) = failed(class);
        state.handle_change(now);
        assert_eq!(state.poll_action(now), doubtful(1));
        state.handle_changed_keys(None);
        assert_eq!(state.backoff(now, KEY).is_none(), !timed, "{class}");
        // The op was not part of this pass, or could not be tried, so it is free in the next pass
        // too.
        state.handle_pass_done(now, Some(&PassSummary::default()));
        let retry = now + FIRST + DEBOUNCE;
        assert_eq!(state.poll_timeout(), Some(retry), "{class}");
        state.handle_change(now);
        assert_eq!(state.poll_action(now), doubtful(2));
        state.handle_changed_keys(None);
        assert_eq!(state.backoff(now, KEY).is_none(), !timed, "{class}");
        let failure = summary_of(Outcome::Failed(class));
        state.handle_pass_done(now, Some(&failure));
        assert!(state.backoff(now, KEY).is_some(), "{class}: tried");
        if class.is_permanent() {
            let longest = now + Duration::from_secs(60) + DEBOUNCE;
            assert_eq!(state.poll_timeout(), Some(longest), "{class}: without a hint");
            continue;
        }
        // The change did not lengthen the delay: this is the second failure, at its time.
        assert_eq!(state.poll_action(retry), doubtful(2), "{class}");
        assert_eq!(state.due(), [KEY]);
        state.handle_pass_done(retry, Some(&failure));
        assert_eq!(state.backoff(retry, KEY), Some(2 * FIRST), "{class}");
    }
}

#[test]
fn a_stream_of_changes_has_what_fails_tried_no_more_often_than_its_distances() {
    let (mut state, start) = failed(ErrorClass::Invalid);
    let failure = summary_of(Outcome::Failed(ErrorClass::Invalid));
    let mut tried = Vec::new();
    for step in 1..=200_000 {
        let now = start + ms(step);
        state.handle_change(now);
        assert!(state.poll_action(now).is_some(), "a change is answered at once");
        if state.due().is_empty() {
            state.handle_pass_done(now, Some(&PassSummary::default()));
        } else {
            tried.push((now - start).as_secs());
            state.handle_pass_done(now, Some(&failure));
        }
    }
    assert_eq!(tried, [1, 3, 7, 15, 31, 63, 123, 183]);
}

#[test]
fn what_has_converged_stands_no_longer_once_a_change_was_asked_for() {
    let (mut state, now) = subscribed();
    let converged = PassSummary { converged: true, ..PassSummary::default() };
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    state.handle_pass_done(now, Some(&converged));
    assert!(state.is_converged(Revision(0), 1));
    let revision = state.handle_change(now);
    assert!(!state.is_converged(Revision(0), 1));
    assert_eq!(state.poll_action(now), doubtful(1));
    assert!(!state.is_converged(Revision(0), 1), "nor while it is answered");
    state.handle_pass_done(now, Some(&converged));
    assert!(state.is_converged(revision, 2));
    assert_eq!(state.stats(now).converged, Some(revision));
}

//! Notifications of a subscription, with a descriptor or without, and its failure.

use super::*;
use crate::state::EVENT_COOLDOWN;

/// Returns a polling state, after its first pass and the drain that follows.
fn polled() -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(config());
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Polled);
    pass(&mut state, now);
    attend(&mut state, now, Some(Drained::Nothing));
    (state, now)
}

fn attend(state: &mut State, now: Instant, heard: Option<Drained>) {
    assert_eq!(state.poll_action(now), Some(Action::Drain));
    assert!(!state.is_listening());
    state.handle_drained(now, heard);
    assert_eq!(state.poll_action(now), None);
}

#[test]
fn after_a_pass_it_is_attended_to_once_before_sleep_and_listened_to_at_once() {
    let (mut state, now) = polled();
    assert!(state.is_listening());
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
    state.handle_readable();
    attend(&mut state, now, Some(Drained::Hint));
    assert_eq!(state.poll_action(now + DEBOUNCE), Some(DIRTY_PASS));
    assert!(!state.is_listening(), "not during a pass");
    state.handle_pass_done(now + DEBOUNCE, Some(&PassSummary::default()));
    attend(&mut state, now + DEBOUNCE, Some(Drained::Nothing));
    assert!(state.is_listening());
}

#[test]
fn a_flood_of_events_wakes_it_a_hundred_times_a_second_whatever_they_are() {
    for heard in [Drained::Nothing, Drained::Hint, Drained::Lost] {
        let (mut state, start) = polled();
        let (mut now, mut wakeups, mut passes) = (start, 0, 0);
        // Whenever the state listens, the descriptor is readable.
        for step in 0.. {
            if now >= start + Duration::from_secs(1) {
                break;
            }
            assert!(step < 10_000, "it spins");
            state.handle_readable();
            match state.poll_action(now) {
                Some(Action::Drain) => state.handle_drained(now, Some(heard)),
                Some(Action::Pass { .. }) => {
                    passes += 1;
                    state.handle_pass_done(now, Some(&PassSummary::default()));
                }
                None if state.is_listening() => {}
                None => {
                    wakeups += 1;
                    now = state.poll_timeout().unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        assert!((90..=110).contains(&wakeups), "{heard:?}: {wakeups}");
        let most = if heard == Drained::Nothing { 0 } else { 10 };
        assert!(passes <= most, "{heard:?}: {passes}");
    }
}

#[test]
fn a_loss_is_counted_and_makes_all_doubtful() {
    let (mut state, now) = polled();
    state.handle_readable();
    attend(&mut state, now, Some(Drained::Lost));
    assert_eq!(state.overruns(), 1);
    pass(&mut state, now + DEBOUNCE);
    assert_eq!(state.stats(now).overruns, 1);
}

#[test]
fn losses_until_a_whole_pass_has_ended_without_one_are_one_overrun() {
    let (mut state, mut now) = polled();
    state.handle_notification(now, Drained::Lost);
    let mut answer = |state: &mut State, heard| {
        now += DEBOUNCE;
        assert!(matches!(
            state.poll_action(now),
            Some(Action::Pass { extent: Extent::Everything, .. })
        ));
        state.handle_pass_done(now, None);
        assert_eq!(state.poll_action(now), Some(Action::Drain));
        state.handle_drained(now, Some(heard));
    };
    for _ in 0..5 {
        answer(&mut state, Drained::Lost);
        assert_eq!(state.overruns(), 1);
    }
    answer(&mut state, Drained::Nothing);
    state.handle_notification(now, Drained::Lost);
    assert_eq!(state.overruns(), 2);
}

#[test]
fn a_subscription_that_fails_is_asked_for_again_before_the_pass_by_the_interval() {
    let (mut state, now) = polled();
    state.handle_readable();
    attend(&mut state, now, None);
    assert!(!state.is_listening() && !state.stats(now).subscribed);
    // Its remaining events are read first.
    let looked = now + DEBOUNCE;
    pass(&mut state, looked);
    assert_eq!(state.poll_timeout(), Some(looked + INTERVAL));
    let again = looked + INTERVAL;
    assert_eq!(state.poll_action(again), Some(Action::Subscribe));
    state.handle_subscribed(again, SubscriptionState::Failed);
    pass(&mut state, again);
    assert_eq!(state.poll_action(again), None, "not again and again");
    assert_eq!(state.poll_action(again + INTERVAL), Some(Action::Subscribe));
    state.handle_subscribed(again + INTERVAL, SubscriptionState::Polled);
    pass(&mut state, again + INTERVAL);
    attend(&mut state, again + INTERVAL, Some(Drained::Nothing));
    assert!(state.is_listening() && state.stats(now).subscribed);
    assert_eq!(state.stats(now).subscription_failures, 2);
}

#[test]
fn one_that_is_unsupported_is_not_asked_for_again() {
    let now = Instant::now();
    let mut state = State::new(config());
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Unsupported);
    for tick in 0..3 {
        pass(&mut state, now + tick * INTERVAL);
    }
    assert_eq!(state.stats(now).subscription_failures, 0);
}

#[test]
fn while_paused_it_goes_on_listening_so_that_nothing_overflows() {
    let (mut state, now) = polled();
    state.handle_pause();
    assert!(state.is_listening());
    state.handle_readable();
    attend(&mut state, now, Some(Drained::Hint));
    assert_eq!(state.poll_timeout(), Some(now + EVENT_COOLDOWN));
    assert_eq!(state.poll_action(now + DEBOUNCE), None);
    assert_eq!(state.poll_timeout(), None);
    state.handle_resume(now + DEBOUNCE);
    pass(&mut state, now + DEBOUNCE);
}

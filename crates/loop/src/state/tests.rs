//! The decisions one by one, with the time in the hand.

use super::*;

const INTERVAL: Duration = Duration::from_secs(5);
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The whole pass of the state that a loop is made with.
const WHOLE: Action = Action::Pass {
    extent: Extent::Whole,
    ops: None,
    revision: Revision(0),
};

fn config() -> Config {
    Config::default().with_jitter(0)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A state before its first pass, and the time.
fn subscribed() -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(config());
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, Hearing::Pushed);
    (state, now)
}

/// A state whose first pass ended just now.
fn rested() -> (State, Instant) {
    let (mut state, now) = subscribed();
    pass(&mut state, now);
    (state, now)
}

/// Runs a pass that takes no time.
fn pass(state: &mut State, now: Instant) {
    assert_eq!(state.poll_action(now), Some(WHOLE));
    state.handle_pass_over(now, Some(&Passed::default()));
}

#[test]
fn subscribes_before_the_first_pass_which_comes_at_once() {
    let now = Instant::now();
    let mut state = State::new(config());
    state.handle_force(now);
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    assert_eq!(state.poll_action(now + INTERVAL), None, "still subscribing");
    state.handle_subscribed(now + ms(3), Hearing::Pushed);
    assert_eq!(state.poll_action(now + ms(3)), Some(WHOLE));
}

#[test]
fn the_interval_runs_from_the_end_of_a_pass() {
    let (mut state, now) = subscribed();
    assert_eq!(state.poll_action(now), Some(WHOLE));
    assert_eq!(state.poll_timeout(), None, "no tick during a pass");
    let end = now + INTERVAL * 3;
    assert_eq!(state.poll_action(end), None);
    state.handle_pass_over(end, Some(&Passed::default()));
    assert_eq!(state.poll_timeout(), Some(end + INTERVAL));
    assert_eq!(state.poll_action(end + INTERVAL - ms(1)), None);
    assert_eq!(state.poll_action(end + INTERVAL), Some(WHOLE));
}

#[test]
fn the_first_hint_arms_the_wakeup_and_later_ones_do_not_push_it_back() {
    let (mut state, now) = rested();
    state.handle_hint(now);
    state.handle_hint(now + ms(60));
    state.handle_hint(now + ms(99));
    assert_eq!(state.poll_timeout(), Some(now + DEBOUNCE));
    pass(&mut state, now + DEBOUNCE);
    assert_eq!(
        state.poll_timeout(),
        Some(now + DEBOUNCE + INTERVAL),
        "one pass for all"
    );
}

#[test]
fn a_hint_does_not_put_off_a_tick_that_comes_sooner() {
    let (mut state, now) = rested();
    state.handle_hint(now + INTERVAL - ms(1));
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
}

#[test]
fn a_hint_during_a_pass_leads_to_a_later_pass() {
    let (mut state, now) = subscribed();
    assert_eq!(state.poll_action(now), Some(WHOLE));
    state.handle_hint(now + ms(1));
    assert_eq!(state.poll_action(now + ms(500)), None, "one pass at a time");
    state.handle_pass_over(now + ms(20), Some(&Passed::default()));
    assert_eq!(state.poll_timeout(), Some(now + ms(101)));
}

#[test]
fn a_forced_pass_is_one_that_started_after_the_request() {
    let (mut state, now) = rested();
    assert_eq!(state.handle_force(now), 2);
    assert_eq!(state.poll_action(now), Some(WHOLE));
    assert_eq!(
        state.handle_force(now + ms(1)),
        3,
        "the running one will not do"
    );
    assert_eq!(state.handle_force(now + ms(2)), 3, "requests share a pass");
    state.handle_pass_over(now + ms(3), Some(&Passed::default()));
    assert!(state.is_over(2) && !state.is_over(3) && !state.is_started(3));
    assert_eq!(state.poll_action(now + ms(3)), Some(WHOLE));
    assert!(state.is_started(3) && !state.is_over(3));
    state.handle_pass_over(now + ms(4), Some(&Passed::default()));
    assert!(state.is_over(3));
    assert_eq!(state.poll_timeout(), Some(now + ms(4) + INTERVAL));
}

#[test]
fn no_pass_starts_while_paused_and_resume_looks_at_once() {
    let (mut state, now) = rested();
    assert_eq!(state.handle_pause(), 1);
    assert!(state.is_over(1), "nothing to wait for");
    state.handle_hint(now);
    state.handle_force(now);
    assert_eq!(
        state.poll_timeout(),
        None,
        "paused, it does not even wake up"
    );
    assert_eq!(state.poll_action(now + INTERVAL * 2), None);
    state.handle_pause();
    state.handle_resume(now + INTERVAL * 2);
    assert_eq!(state.poll_action(now + INTERVAL * 2), Some(WHOLE));
    state.handle_pass_over(now + INTERVAL * 2, Some(&Passed::default()));
    assert_eq!(
        state.poll_timeout(),
        Some(now + INTERVAL * 3),
        "and only once"
    );
}

#[test]
fn pause_names_the_running_pass() {
    let (mut state, now) = subscribed();
    assert_eq!(state.poll_action(now), Some(WHOLE));
    assert_eq!(state.handle_pause(), 1);
    assert!(!state.is_over(1));
    state.handle_pass_over(now, Some(&Passed::default()));
    assert!(state.is_over(1));
    assert_eq!(state.poll_action(now + INTERVAL * 2), None);
}

#[test]
fn resuming_what_is_not_paused_is_no_hint() {
    let (mut state, now) = rested();
    state.handle_resume(now + ms(1));
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
}

#[test]
fn stop_ends_at_once_or_within_the_running_pass_even_if_paused() {
    let (mut idle, now) = rested();
    idle.handle_pause();
    idle.handle_stop(now);
    assert_eq!(
        idle.poll_timeout(),
        Some(now),
        "a sleeping driver learns of it"
    );
    assert_eq!(idle.poll_action(now), Some(Action::End));
    idle.handle_hint(now);
    assert_eq!(idle.poll_action(now + INTERVAL * 2), None);
    assert_eq!(idle.poll_timeout(), None);

    let (mut busy, now) = subscribed();
    assert_eq!(busy.poll_action(now), Some(WHOLE));
    busy.handle_stop(now);
    assert!(busy.is_stopping() && !busy.is_ended());
    assert_eq!(busy.poll_action(now), None);
    busy.handle_pass_over(now, Some(&Passed::default()));
    assert_eq!(busy.poll_action(now), Some(Action::End));

    let mut new = State::new(config());
    new.handle_stop(now);
    assert_eq!(new.poll_action(now), Some(Action::End));
}

#[test]
fn times_beyond_the_clock_mean_never() {
    let endless = Config::default()
        .with_interval(Duration::MAX)
        .with_debounce(Duration::ZERO);
    let now = Instant::now();
    let mut state = State::new(endless);
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, Hearing::Pushed);
    pass(&mut state, now);
    assert_eq!(state.poll_timeout(), None);
    state.handle_hint(now);
    pass(&mut state, now);
    assert_eq!(
        Config::default().with_interval(Duration::ZERO).interval(),
        Config::MIN_INTERVAL
    );
}

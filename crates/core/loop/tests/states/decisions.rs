//! Single decisions, with the time given.

mod changing;
mod draining;
mod failing;
mod timer;

use std::time::{Duration, Instant};

use trueup_reconcile::{Drained, Extent, OpKey};

use crate::{Action, Config, PassSummary, Revision, State, Stats, SubscriptionState};

const INTERVAL: Duration = Duration::from_secs(5);
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The full pass over a loop's initial desired state.
const FULL_PASS: Action =
    Action::Pass { extent: Extent::Everything, ops: None, revision: Revision(0) };

const DIRTY_PASS: Action = Action::Pass { extent: Extent::Dirty, ops: None, revision: Revision(0) };

fn config() -> Config {
    Config::default().with_jitter(0)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns a state before its first pass, and the time.
fn subscribed() -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(config());
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Pushed);
    (state, now)
}

/// Returns a state whose first pass ended just now.
fn rested() -> (State, Instant) {
    let (mut state, now) = subscribed();
    pass(&mut state, now);
    (state, now)
}

/// Runs a pass that takes no time.
fn pass(state: &mut State, now: Instant) {
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    state.handle_pass_done(now, Some(&PassSummary::default()));
}

#[test]
fn subscribes_before_the_first_pass_which_comes_at_once() {
    let now = Instant::now();
    let mut state = State::new(config());
    state.handle_force(now);
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    assert_eq!(state.poll_action(now + INTERVAL), None, "still subscribing");
    state.handle_subscribed(now + ms(3), SubscriptionState::Pushed);
    assert_eq!(state.poll_action(now + ms(3)), Some(FULL_PASS));
}

#[test]
fn the_interval_runs_from_the_end_of_a_pass() {
    let (mut state, now) = subscribed();
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    assert_eq!(state.poll_timeout(), None, "no tick during a pass");
    let end = now + INTERVAL * 3;
    assert_eq!(state.poll_action(end), None);
    state.handle_pass_done(end, Some(&PassSummary::default()));
    assert_eq!(state.poll_timeout(), Some(end + INTERVAL));
    assert_eq!(state.poll_action(end + INTERVAL - ms(1)), None);
    assert_eq!(state.poll_action(end + INTERVAL), Some(FULL_PASS));
}

#[test]
fn the_first_hint_arms_the_wakeup_and_later_ones_do_not_push_it_back() {
    let (mut state, now) = rested();
    state.handle_hint(now);
    state.handle_hint(now + ms(60));
    state.handle_hint(now + ms(99));
    assert_eq!(state.poll_timeout(), Some(now + DEBOUNCE));
    pass(&mut state, now + DEBOUNCE);
    assert_eq!(state.poll_timeout(), Some(now + DEBOUNCE + INTERVAL), "one pass for all");
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
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    state.handle_hint(now + ms(1));
    assert_eq!(state.poll_action(now + ms(500)), None, "one pass at a time");
    state.handle_pass_done(now + ms(20), Some(&PassSummary::default()));
    assert_eq!(state.poll_timeout(), Some(now + ms(101)));
}

#[test]
fn a_forced_pass_is_one_that_started_after_the_request() {
    let (mut state, now) = rested();
    assert_eq!(state.handle_force(now), 2);
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    assert_eq!(state.handle_force(now + ms(1)), 3, "the running one will not do");
    assert_eq!(state.handle_force(now + ms(2)), 3, "requests share a pass");
    state.handle_pass_done(now + ms(3), Some(&PassSummary::default()));
    assert!(state.is_done(2) && !state.is_done(3) && !state.is_started(3));
    assert_eq!(state.poll_action(now + ms(3)), Some(FULL_PASS));
    assert!(state.is_started(3) && !state.is_done(3));
    state.handle_pass_done(now + ms(4), Some(&PassSummary::default()));
    assert!(state.is_done(3));
    assert_eq!(state.poll_timeout(), Some(now + ms(4) + INTERVAL));
}

#[test]
fn no_pass_starts_while_paused_and_resume_looks_at_once() {
    let (mut state, now) = rested();
    assert_eq!(state.handle_pause(), 1);
    assert!(state.is_done(1), "nothing to wait for");
    state.handle_hint(now);
    state.handle_force(now);
    assert_eq!(state.poll_timeout(), None, "paused, it does not even wake up");
    assert_eq!(state.poll_action(now + INTERVAL * 2), None);
    state.handle_pause();
    state.handle_resume(now + INTERVAL * 2);
    assert_eq!(state.poll_action(now + INTERVAL * 2), Some(FULL_PASS));
    state.handle_pass_done(now + INTERVAL * 2, Some(&PassSummary::default()));
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL * 3), "and only once");
}

#[test]
fn pause_names_the_running_pass() {
    let (mut state, now) = subscribed();
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    assert_eq!(state.handle_pause(), 1);
    assert!(!state.is_done(1));
    state.handle_pass_done(now, Some(&PassSummary::default()));
    assert!(state.is_done(1));
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
    assert_eq!(idle.poll_timeout(), Some(now), "a sleeping driver learns of it");
    assert_eq!(idle.poll_action(now), Some(Action::End));
    idle.handle_hint(now);
    assert_eq!(idle.poll_action(now + INTERVAL * 2), None);
    assert_eq!(idle.poll_timeout(), None);

    let (mut busy, now) = subscribed();
    assert_eq!(busy.poll_action(now), Some(FULL_PASS));
    busy.handle_stop(now);
    assert!(busy.is_stopping() && !busy.is_ended());
    assert_eq!(busy.poll_action(now), None);
    busy.handle_pass_done(now, Some(&PassSummary::default()));
    assert_eq!(busy.poll_action(now), Some(Action::End));

    let mut new = State::new(config());
    new.handle_stop(now);
    assert_eq!(new.poll_action(now), Some(Action::End));
}

#[test]
fn times_beyond_the_clock_mean_never() {
    let endless = Config::default().with_interval(Duration::MAX).with_debounce(Duration::ZERO);
    let now = Instant::now();
    let mut state = State::new(endless);
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Pushed);
    pass(&mut state, now);
    assert_eq!(state.poll_timeout(), None);
    state.handle_hint(now);
    pass(&mut state, now);
    assert_eq!(Config::default().with_interval(Duration::ZERO).interval(), Config::MIN_INTERVAL);
}

#[test]
fn hints_of_a_subscription_are_answered_over_what_is_doubtful_and_those_of_handles_over_all() {
    let (mut state, now) = rested();
    state.handle_notification(now, Drained::Hint);
    state.handle_hint(now + ms(30));
    assert_eq!(state.poll_action(now + DEBOUNCE), Some(DIRTY_PASS));
    state.handle_pass_done(now + DEBOUNCE, Some(&PassSummary::default()));
    pass(&mut state, now + DEBOUNCE + ms(30));
    state.handle_notification(now + ms(500), Drained::Hint);
    state.handle_notification(now + ms(510), Drained::Lost);
    state.handle_force(now + ms(520));
    pass(&mut state, now + ms(520));
    assert_eq!(
        state.poll_timeout(),
        Some(now + ms(520) + INTERVAL),
        "a whole pass answers all there is"
    );
}

#[test]
fn passes_over_what_is_doubtful_do_not_put_off_the_whole_one() {
    let (mut state, now) = rested();
    for step in 1..49 {
        let then = now + step * DEBOUNCE;
        state.handle_notification(then - DEBOUNCE, Drained::Hint);
        assert_eq!(state.poll_action(then), Some(DIRTY_PASS), "{step}");
        state.handle_pass_done(then, Some(&PassSummary::default()));
    }
    state.handle_notification(now + 49 * DEBOUNCE, Drained::Hint);
    assert_eq!(state.poll_timeout(), Some(now + INTERVAL));
    pass(&mut state, now + INTERVAL);
}

#[test]
fn a_pass_over_what_is_doubtful_that_could_not_run_is_followed_by_a_whole_one() {
    let (mut state, now) = rested();
    state.handle_notification(now, Drained::Hint);
    assert_eq!(state.poll_action(now + DEBOUNCE), Some(DIRTY_PASS));
    state.handle_pass_done(now + DEBOUNCE, None);
    assert_eq!(state.poll_timeout(), Some(now + 2 * DEBOUNCE));
    assert_eq!(state.poll_action(now + 2 * DEBOUNCE), Some(FULL_PASS));
    state.handle_pass_done(now + 2 * DEBOUNCE, None);
    let tick = now + 2 * DEBOUNCE + INTERVAL;
    assert_eq!(state.poll_timeout(), Some(tick), "that one by the timer");
}

#[test]
fn hints_without_end_take_half_of_the_time_even_without_a_debounce() {
    let mut state = State::new(config().with_debounce(Duration::ZERO));
    let mut now = Instant::now();
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, SubscriptionState::Pushed);
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    for _ in 0..50 {
        now += ms(40);
        state.handle_notification(now, Drained::Hint);
        state.handle_pass_done(now, Some(&PassSummary::default()));
        assert_eq!(state.poll_timeout(), Some(now + ms(40)));
        now += ms(40);
        assert_eq!(state.poll_action(now), Some(DIRTY_PASS));
    }
    // A forced pass does not wait for the rest.
    state.handle_force(now);
    state.handle_pass_done(now + ms(40), Some(&PassSummary::default()));
    assert_eq!(state.poll_action(now + ms(40)), Some(FULL_PASS));
}

#[test]
fn intervals_vary_by_the_seed_and_by_no_more_than_the_jitter() {
    let intervals = |seed| {
        let mut state = State::new(Config::default()).with_seed(seed);
        let mut now = Instant::now();
        assert_eq!(state.poll_action(now), Some(Action::Subscribe));
        state.handle_subscribed(now, SubscriptionState::Unsupported);
        let interval = |_| {
            pass(&mut state, now);
            let next = state.poll_timeout().unwrap();
            let interval = next - now;
            now = next;
            interval
        };
        (0..100).map(interval).collect::<Vec<_>>()
    };
    let some = intervals(1);
    assert_eq!(some, intervals(1));
    assert_ne!(some, intervals(2));
    let (least, most) = (INTERVAL * 9 / 10, INTERVAL * 11 / 10);
    assert!(some.iter().all(|it| (least..=most).contains(it)), "{some:?}");
    let distinct: std::collections::HashSet<_> = some.iter().collect();
    assert!(distinct.len() > 90);
}

#[test]
fn a_pass_goes_on_until_its_deadline_or_a_pause_or_a_stop() {
    let (mut state, now) = subscribed();
    assert!(!state.should_continue(now), "none runs");
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    let deadline = config().deadline();
    assert!(state.should_continue(now + deadline - ms(1)));
    assert!(!state.should_continue(now + deadline));
    let mut stopped = state.clone();
    stopped.handle_stop(now);
    assert!(!stopped.should_continue(now));
    state.handle_pause();
    assert!(!state.should_continue(now));
    state.handle_resume(now);
    assert!(state.should_continue(now));
}

#[test]
fn converged_stands_until_something_is_heard_and_again_once_a_pass_says_so() {
    let converged = PassSummary { converged: true, ..PassSummary::default() };
    let (mut state, now) = subscribed();
    let first = Revision::default();
    assert!(!state.is_converged(first, 0));
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    state.handle_pass_done(now, Some(&converged));
    assert!(state.is_converged(first, state.last_started()));
    assert_eq!(state.stats(now + ms(5)).since_converged, Some(ms(0)));

    state.handle_notification(now, Drained::Hint);
    assert!(!state.is_converged(first, 1), "it may no longer be so");
    assert!(state.is_converged(first, 0), "but the first pass did say so");
    assert_eq!(state.stats(now + ms(5)).since_converged, Some(ms(5)));
    assert_eq!(state.poll_action(now + DEBOUNCE), Some(DIRTY_PASS));
    assert!(!state.is_converged(first, 1), "it is being looked at");
    state.handle_pass_done(now + DEBOUNCE, Some(&converged));
    assert!(state.is_converged(first, 2));

    let second = state.handle_desired(now + DEBOUNCE);
    assert!(second > first && !state.is_converged(second, 0));
    let then = now + 2 * DEBOUNCE;
    assert!(state.poll_action(then).is_some());
    assert!(!state.would_be_drift(), "the world has yet to follow");
    state.handle_pass_done(then, Some(&PassSummary::default()));
    assert!(!state.is_converged(second, 0));
    state.handle_force(then);
    assert!(state.poll_action(then).is_some());
    state.handle_pass_done(then, Some(&converged));
    assert!(state.is_converged(second, 9) && state.is_converged(first, 9));
    assert!(!state.is_converged(second.next(), 0));
    state.handle_force(then);
    assert!(state.poll_action(then).is_some());
    assert!(state.would_be_drift());
}

#[test]
fn settings_out_of_range_are_taken_as_the_nearest() {
    let config = Config::default().with_jitter(200).with_backoff(Duration::ZERO, Duration::ZERO);
    assert_eq!(config.jitter(), 100);
    assert_eq!(config.backoff(), (Config::MIN_INTERVAL, Config::MIN_INTERVAL));
    let config = config.with_backoff(Duration::MAX, Duration::ZERO);
    assert_eq!(config.backoff(), (Config::MAX_BACKOFF, Config::MAX_BACKOFF));
}

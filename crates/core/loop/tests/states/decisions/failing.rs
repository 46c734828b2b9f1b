//! Failures, backoff, truncated passes and the budget.

use std::num::NonZeroU32;

use trueup_reconcile::{ErrorClass, Outcome};

use super::*;
use crate::state::pass_done::MIN_REST;

const KEY: OpKey = OpKey(7);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

fn summary_of(key: OpKey, outcome: Outcome) -> PassSummary {
    all([(key, "thing", outcome)])
}

fn all(ops: impl IntoIterator<Item = (OpKey, &'static str, Outcome)>) -> PassSummary {
    let mut passed = PassSummary::default();
    for (key, kind, outcome) in ops {
        passed.ops.entry(kind).or_default().count(outcome);
        passed.objects.insert(key, outcome);
    }
    passed
}

/// Returns a state with an interval that no test reaches, and the time.
fn endless(config: Config, subscription: SubscriptionState) -> (State, Instant) {
    let now = Instant::now();
    let mut state = State::new(config.with_interval(Duration::MAX));
    assert_eq!(state.poll_action(now), Some(Action::Subscribe));
    state.handle_subscribed(now, subscription);
    (state, now)
}

/// Returns a state whose op failed with this class in the first pass.
fn failed(class: ErrorClass, subscription: SubscriptionState) -> (State, Instant) {
    let (mut state, now) = endless(config(), subscription);
    over(&mut state, now, &summary_of(KEY, Outcome::Failed(class)));
    (state, now)
}

/// Runs a pass that takes no time. Returns true if the op could be tried.
fn over(state: &mut State, now: Instant, passed: &PassSummary) -> bool {
    let action = state.poll_action(now);
    assert!(matches!(action, Some(Action::Pass { .. })), "{action:?}");
    let offered = state.backoff(now, KEY).is_none();
    state.handle_pass_done(now, Some(passed));
    offered
}

#[test]
fn distances_double_up_to_the_last_and_a_success_resets_them() {
    for class in [ErrorClass::Busy, ErrorClass::Unknown, ErrorClass::Dependency] {
        let failure = summary_of(KEY, Outcome::Failed(class));
        let (mut state, mut now) = failed(class, SubscriptionState::Pushed);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            let next = now + Duration::from_secs(seconds);
            assert_eq!(state.poll_timeout(), Some(next + DEBOUNCE));
            assert_eq!(state.backoff(now, KEY), Some(next - now));
            assert_eq!(state.stats(now).backed_off, 1);
            now = next + DEBOUNCE;
            assert!(over(&mut state, now, &failure));
        }
        state.handle_force(now + Duration::from_secs(60));
        now += Duration::from_secs(60);
        over(&mut state, now, &summary_of(KEY, Outcome::Applied));
        assert_eq!(state.poll_timeout(), None);
        assert!(!state.has_backoff());
        state.handle_force(now);
        over(&mut state, now, &failure);
        assert_eq!(state.backoff(now, KEY), Some(FIRST), "from the start");
    }
}

#[test]
fn what_is_done_already_is_no_failure() {
    let (state, _) = failed(ErrorClass::DoneAlready, SubscriptionState::Pushed);
    assert!(!state.has_backoff());
    assert_eq!(state.stats.ops["thing"].applied, 1);
}

#[test]
fn events_neither_shorten_the_distance_of_what_is_busy_nor_raise_it() {
    let failure = summary_of(KEY, Outcome::Failed(ErrorClass::Busy));
    let (mut state, start) = failed(ErrorClass::Busy, SubscriptionState::Pushed);
    let mut now = start;
    for _ in 0..5 {
        state.handle_notification(now, Drained::Hint);
        now += DEBOUNCE;
        // The source tries it anyway, and it fails.
        assert!(!over(&mut state, now, &failure), "not offered");
    }
    let retry = start + FIRST + DEBOUNCE;
    assert_eq!(state.poll_timeout(), Some(retry));
    assert!(over(&mut state, retry, &failure));
    let next = retry + 2 * FIRST + DEBOUNCE;
    assert_eq!(state.poll_timeout(), Some(next));
    // A new desired state could change other failures, but the system is still busy.
    state.handle_desired(retry);
    let pending = summary_of(KEY, Outcome::Pending(()));
    assert!(!over(&mut state, retry + DEBOUNCE, &pending));
    assert_eq!(state.poll_timeout(), Some(next));
}

#[test]
fn a_hint_releases_what_waits_for_a_dependency_at_once_and_raises_nothing() {
    let failure = summary_of(KEY, Outcome::Failed(ErrorClass::Dependency));
    let (mut state, now) = failed(ErrorClass::Dependency, SubscriptionState::Pushed);
    for hint in 1..=3 {
        state.handle_notification(now + hint * DEBOUNCE, Drained::Hint);
        let then = now + (hint + 1) * DEBOUNCE;
        assert!(over(&mut state, then, &failure), "in the pass that answers it");
        assert!(state.backoff(then, KEY).is_some(), "and in no other");
    }
    assert_eq!(state.poll_timeout(), Some(now + FIRST + DEBOUNCE), "as before");
}

#[test]
fn what_is_permanent_waits_for_a_hint_and_then_for_its_distance() {
    for class in ErrorClass::ALL.into_iter().filter(|it| it.is_permanent()) {
        let pending = summary_of(KEY, Outcome::Pending(()));
        let failure = summary_of(KEY, Outcome::Failed(class));
        let (mut state, now) = failed(class, SubscriptionState::Pushed);
        let latest = now + LONGEST + DEBOUNCE;
        assert_eq!(state.poll_timeout(), Some(latest), "without a hint");
        assert_eq!(state.backoff(now, KEY), Some(LONGEST));
        state.handle_notification(now, Drained::Hint);
        assert!(!over(&mut state, now + DEBOUNCE, &pending), "too soon");
        let retry = now + FIRST + DEBOUNCE;
        assert_eq!(state.poll_timeout(), Some(retry));
        assert!(over(&mut state, retry, &failure));
        let longest = retry + LONGEST + DEBOUNCE;
        assert_eq!(state.poll_timeout(), Some(longest), "the hint is used up");
        // Long after its delay, a hint makes it try at once.
        let late = now + Duration::from_secs(3600);
        state.handle_notification(late, Drained::Hint);
        assert!(over(&mut state, late + DEBOUNCE, &failure));
    }
}

/// The foreign object may go before the next pass, and the hint about this may be lost.
#[test]
fn a_conflict_is_tried_again_though_no_hint_says_that_it_is_over() {
    let (mut state, now) = failed(ErrorClass::Conflict, SubscriptionState::Pushed);
    assert_eq!(state.backoff(now, KEY), Some(FIRST));
    let retry = now + FIRST + DEBOUNCE;
    assert_eq!(state.poll_timeout(), Some(retry));
    let applied = summary_of(KEY, Outcome::Applied);
    assert!(over(&mut state, retry, &applied));
    assert!(!state.has_backoff());
}

#[test]
fn a_hint_during_the_pass_in_which_it_failed_is_one_after_it() {
    let (mut state, now) = endless(config(), SubscriptionState::Pushed);
    assert!(state.poll_action(now).is_some());
    state.handle_notification(now, Drained::Hint);
    let failure = summary_of(KEY, Outcome::Failed(ErrorClass::Invalid));
    state.handle_pass_done(now, Some(&failure));
    assert!(!over(&mut state, now + DEBOUNCE, &summary_of(KEY, Outcome::Pending(()))));
    assert_eq!(state.poll_timeout(), Some(now + FIRST + DEBOUNCE));
}

#[test]
fn another_desired_state_frees_what_is_permanent_at_once() {
    let (mut state, now) = failed(ErrorClass::Invalid, SubscriptionState::Pushed);
    state.handle_desired(now);
    assert!(over(&mut state, now + DEBOUNCE, &PassSummary::default()));
}

#[test]
fn without_a_hint_what_is_permanent_is_tried_after_the_longest_delay() {
    for subscription in [SubscriptionState::Pushed, SubscriptionState::Unsupported] {
        let (mut state, now) = failed(ErrorClass::Permission, subscription);
        let retry = now + LONGEST + DEBOUNCE;
        assert_eq!(state.poll_timeout(), Some(retry));
        let failure = summary_of(KEY, Outcome::Failed(ErrorClass::Permission));
        assert!(over(&mut state, retry, &failure));
        assert_eq!(state.poll_timeout(), Some(retry + LONGEST + DEBOUNCE));
    }
}

#[test]
fn what_a_whole_pass_no_longer_names_is_forgotten_and_what_is_pending_kept() {
    let (mut state, now) = failed(ErrorClass::Busy, SubscriptionState::Pushed);
    state.handle_notification(now, Drained::Hint);
    over(&mut state, now + DEBOUNCE, &PassSummary::default());
    assert!(state.has_backoff(), "it was not looked at");
    state.handle_force(now + DEBOUNCE);
    over(&mut state, now + DEBOUNCE, &summary_of(KEY, Outcome::Pending(())));
    assert!(state.has_backoff(), "it is still to be done");
    state.handle_force(now + DEBOUNCE);
    let cut = PassSummary { truncated: true, ..PassSummary::default() };
    over(&mut state, now + DEBOUNCE, &cut);
    assert!(state.has_backoff(), "not all was looked at");
    state.handle_force(now + DEBOUNCE);
    over(&mut state, now + DEBOUNCE, &PassSummary::default());
    assert!(!state.has_backoff());
}

#[test]
fn a_retry_that_its_pass_leaves_alone_waits_for_another_delay() {
    let (mut state, now) = failed(ErrorClass::Busy, SubscriptionState::Pushed);
    let mut retry = now + FIRST + DEBOUNCE;
    for passed in [Some(summary_of(KEY, Outcome::Pending(()))), None] {
        assert!(state.poll_action(retry).is_some());
        state.handle_pass_done(retry, passed.as_ref());
        assert_eq!(state.backoff(retry, KEY), Some(FIRST));
        retry += FIRST + DEBOUNCE;
    }
}

#[test]
fn failed_ops_are_tried_again_by_dirty_passes_a_few_at_a_time() {
    let (mut state, mut now) = endless(config(), SubscriptionState::Pushed);
    let failure = Outcome::Failed(ErrorClass::Busy);
    over(&mut state, now, &all((0..100).map(|key| (OpKey(key), "thing", failure))));
    now += FIRST + DEBOUNCE;
    for tried in [64, 36] {
        let action = state.poll_action(now);
        assert!(matches!(action, Some(Action::Pass { extent: Extent::Dirty, .. })));
        let due = state.due().to_vec();
        assert_eq!(due.len(), tried);
        // An op that the pass does not name is no longer needed.
        state.handle_pass_done(now, Some(&PassSummary::default()));
        assert!(due.iter().all(|key| !state.is_tracked(*key)));
    }
    assert!(!state.has_backoff());
}

#[test]
fn no_more_keys_are_kept_than_the_limit() {
    let (mut state, now) = endless(config(), SubscriptionState::Pushed);
    let failed = Outcome::Failed(ErrorClass::Busy);
    let keys = 0..crate::stats::MAX_TRACKED as u64 + 10;
    let passed = all(keys.map(|key| (OpKey(key), "thing", failed)));
    over(&mut state, now, &passed);
    assert_eq!(state.stats(now).backed_off, crate::stats::MAX_TRACKED);
}

#[test]
fn a_budget_grants_a_burst_and_then_what_has_come_in_and_a_forced_pass_may_be_a_look() {
    let (limit, burst) = (NonZeroU32::new(10).unwrap(), NonZeroU32::new(3).unwrap());
    let (mut state, mut now) =
        endless(config().with_budget(limit, burst), SubscriptionState::Pushed);
    let granted = |action| match action {
        Some(Action::Pass { ops, .. }) => ops.unwrap(),
        other => panic!("{other:?}"),
    };
    let ops = |applied: u64, pending: u64| PassSummary {
        truncated: pending > 0,
        ..all((0..applied + pending).map(|key| {
            let outcome = match key < applied {
                true => Outcome::Applied,
                false => Outcome::Pending(()),
            };
            (OpKey(key), "thing", outcome)
        }))
    };
    assert_eq!(granted(state.poll_action(now)), 3);
    state.handle_pass_done(now, Some(&ops(3, 5)));
    state.handle_force(now);
    assert_eq!(granted(state.poll_action(now)), 0, "a look");
    state.handle_pass_done(now, Some(&ops(0, 5)));
    assert_eq!(state.poll_timeout(), Some(now + ms(300)), "the burst again");
    now += ms(300);
    assert_eq!(granted(state.poll_action(now)), 3);
    state.handle_pass_done(now, Some(&ops(3, 2)));
    now += ms(200);
    assert_eq!(state.poll_timeout(), Some(now), "enough for what is left");
    assert_eq!(granted(state.poll_action(now)), 2);
    state.handle_pass_done(now, Some(&ops(2, 0)));
    assert_eq!(state.poll_timeout(), None);
}

#[test]
fn a_pass_that_was_cut_is_gone_on_with_after_a_rest() {
    let cut = |outcome| PassSummary { truncated: true, ..summary_of(KEY, outcome) };
    let (mut state, mut now) = endless(config(), SubscriptionState::Pushed);
    assert!(state.poll_action(now).is_some());
    now += ms(500);
    state.handle_pass_done(now, Some(&cut(Outcome::Applied)));
    assert_eq!(state.poll_timeout(), Some(now + MIN_REST), "it gets somewhere");
    now += MIN_REST;
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    now += ms(500);
    state.handle_pass_done(now, Some(&cut(Outcome::Pending(()))));
    assert_eq!(state.poll_timeout(), Some(now + ms(500)), "it does not");
    assert_eq!(state.stats(now).truncated_passes, 2);
}

#[test]
fn a_source_that_wants_to_look_again_is_heeded_but_does_not_spin() {
    let again = |after| PassSummary { requeue_after: Some(after), ..PassSummary::default() };
    let (mut state, now) = endless(config(), SubscriptionState::Pushed);
    over(&mut state, now, &again(ms(700)));
    assert_eq!(state.poll_timeout(), Some(now + ms(700)));
    over(&mut state, now + ms(700), &again(Duration::ZERO));
    assert_eq!(state.poll_timeout(), Some(now + ms(700) + MIN_REST));
    over(&mut state, now + ms(700) + MIN_REST, &again(Duration::MAX));
    assert_eq!(state.poll_timeout(), None);
}

#[test]
fn ops_are_counted_by_kind_and_outcome_and_passes_by_extent() {
    let (mut state, now) = endless(config(), SubscriptionState::Pushed);
    let kinds = [
        ("route", Outcome::Applied),
        ("route", Outcome::Failed(ErrorClass::Busy)),
        ("rule", Outcome::Pending(())),
        ("rule", Outcome::Applied),
        ("rule", Outcome::Applied),
    ];
    let passed = all(kinds.map(|(kind, outcome)| (KEY, kind, outcome)));
    assert!(state.poll_action(now).is_some());
    state.handle_pass_done(now + ms(8), Some(&passed));
    state.handle_notification(now + ms(8), Drained::Hint);
    assert!(state.poll_action(now + ms(500)).is_some());
    state.handle_pass_done(now + ms(501), None);
    let stats = state.stats(now);
    assert_eq!((stats.full_passes, stats.dirty_passes, stats.failed_passes), (1, 1, 1));
    assert_eq!((stats.hints, stats.last_pass), (1, Some(ms(1))));
    let counted: Vec<_> = stats.ops.into_iter().collect();
    let ops =
        |applied, failed, pending| trueup_reconcile::Ops { applied, failed, pending, declined: 0 };
    assert_eq!(counted, [("route", ops(1, 1, 0)), ("rule", ops(2, 0, 1))]);
}

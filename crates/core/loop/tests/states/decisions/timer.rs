//! The timer of a source whose subscription covers all that it manages.

use trueup_reconcile::{ErrorClass, EventCoverage, Outcome};

use super::*;

const LASTED: Duration = Duration::from_millis(300);

fn covered(coverage: EventCoverage) -> PassSummary {
    PassSummary { converged: true, coverage, ..PassSummary::default() }
}

/// Runs the due pass, which takes `lasted`. Returns its end.
fn run(
    state: &mut State,
    now: Instant,
    lasted: Duration,
    summary: Option<&PassSummary>,
) -> Instant {
    assert_eq!(state.poll_action(now), Some(FULL_PASS));
    let end = now + lasted;
    state.handle_pass_done(end, summary);
    end
}

/// Returns the time from such a full pass to the next one.
fn rest_after(summary: Option<&PassSummary>) -> Duration {
    let (mut state, now) = subscribed();
    let end = run(&mut state, now, LASTED, summary);
    let due = state.poll_timeout().unwrap();
    assert_eq!(state.stats(end).next_full_pass, Some(due - end));
    assert_eq!(state.stats(due + ms(1)).next_full_pass, Some(ms(0)));
    due - end
}

#[test]
fn a_full_pass_that_events_could_replace_takes_a_hundredth_of_the_time() {
    let all = covered(EventCoverage::Everything);
    assert_eq!(rest_after(Some(&all)), 100 * LASTED);
    // Not converged: failures have their own times, and events report the end of a conflict.
    let exceptions = PassSummary {
        converged: false,
        objects: [(OpKey(1), Outcome::Pending(()))].into(),
        ops: [("route", pending(1))].into(),
        ..all
    };
    assert_eq!(rest_after(Some(&exceptions)), 100 * LASTED);
    let (mut state, now) = subscribed();
    let end = run(&mut state, now, ms(49), Some(&exceptions));
    assert_eq!(state.poll_timeout(), Some(end + INTERVAL), "the longer one");
}

fn pending(count: u64) -> trueup_reconcile::Ops {
    trueup_reconcile::Ops { pending: count, ..trueup_reconcile::Ops::default() }
}

#[test]
fn the_interval_alone_counts_where_a_full_pass_is_more_than_a_safety_net() {
    let all = covered(EventCoverage::Everything);
    let mut changed = all.clone();
    changed.ops.entry("route").or_default().applied = 1;
    let mut waits = all.clone();
    waits.ops.insert("route", pending(1));
    let many = (0..65_536).map(|key| (OpKey(key), Outcome::Failed(ErrorClass::Busy)));
    let with = |change: fn(&mut PassSummary)| {
        let mut summary = all.clone();
        change(&mut summary);
        summary
    };
    let plain = [
        ("nothing is covered", covered(EventCoverage::Nothing)),
        ("an op was applied", changed),
        ("an op is pending that has no backoff", waits),
        ("not all was read", with(|it| it.incomplete = true)),
        ("more fails than is tracked", PassSummary { objects: many.collect(), ..all.clone() }),
    ];
    for (why, summary) in &plain {
        let (mut state, now) = subscribed();
        let end = run(&mut state, now, LASTED, Some(summary));
        assert_eq!(state.stats(end).next_full_pass, Some(INTERVAL), "{why}");
    }
    assert_eq!(rest_after(None), INTERVAL, "it could not run");
}

#[test]
fn without_events_or_after_lost_ones_the_interval_alone_counts() {
    let all = covered(EventCoverage::Everything);
    for subscription in [SubscriptionState::Unsupported, SubscriptionState::Failed] {
        let mut state = State::new(config());
        let now = Instant::now();
        assert_eq!(state.poll_action(now), Some(Action::Subscribe));
        state.handle_subscribed(now, subscription);
        let end = run(&mut state, now, LASTED, Some(&all));
        assert_eq!(state.poll_timeout(), Some(end + INTERVAL));
    }
    let (mut state, now) = subscribed();
    state.handle_notification(now, Drained::Lost);
    let end = run(&mut state, now, LASTED, Some(&all));
    assert_eq!(state.poll_timeout(), Some(end + INTERVAL), "some were lost");
    let end = run(&mut state, end + INTERVAL, LASTED, Some(&all));
    assert_eq!(state.poll_timeout(), Some(end + 100 * LASTED), "and no more");
}

#[test]
fn the_factor_is_configured_and_zero_is_none() {
    let rest_with = |factor| {
        let now = Instant::now();
        let mut state = State::new(config().with_interval_factor(factor));
        assert_eq!(state.poll_action(now), Some(Action::Subscribe));
        state.handle_subscribed(now, SubscriptionState::Pushed);
        let end = run(&mut state, now, LASTED, Some(&covered(EventCoverage::Part)));
        state.poll_timeout().map(|due| due - end)
    };
    assert_eq!(rest_with(0), Some(INTERVAL));
    assert_eq!(rest_with(16), Some(INTERVAL));
    let (mut state, now) = subscribed();
    state.config = config().with_interval_factor(20);
    let end = run(&mut state, now, LASTED, Some(&covered(EventCoverage::Everything)));
    assert_eq!(state.poll_timeout(), Some(end + 20 * LASTED));
    // A time beyond the clock's range never comes.
    let (mut state, now) = subscribed();
    state.config = config().with_interval_factor(u32::MAX);
    let lasted = Duration::from_secs(u64::MAX / 1_000_000_000);
    run(&mut state, now, lasted, Some(&covered(EventCoverage::Everything)));
}

#[test]
fn what_events_do_not_cover_is_looked_at_each_interval() {
    let part = covered(EventCoverage::Part);
    let (mut state, now) = subscribed();
    let first = run(&mut state, now, LASTED, Some(&part));
    let mut end = first;
    while end + INTERVAL < first + 100 * LASTED {
        assert_eq!(state.poll_timeout(), Some(end + INTERVAL));
        assert_eq!(state.poll_action(end + INTERVAL), Some(DIRTY_PASS));
        end += INTERVAL + ms(1);
        state.handle_pass_done(end, Some(&part));
    }
    assert!(state.is_converged(Revision::default(), 0), "no request came");
    assert_eq!(state.stats(end).full_passes, 1);
    assert_eq!(state.stats(end).next_full_pass, Some(first + 100 * LASTED - end));
    run(&mut state, first + 100 * LASTED, LASTED, Some(&part));
}

#[test]
fn a_dirty_pass_that_leaves_something_open_brings_the_full_one_forward() {
    let all = covered(EventCoverage::Everything);
    let (mut state, now) = subscribed();
    let first = run(&mut state, now, LASTED, Some(&all));
    let mut dirty = |now: Instant, summary: &PassSummary| {
        state.handle_notification(now, Drained::Hint);
        assert_eq!(state.poll_action(now + DEBOUNCE), Some(DIRTY_PASS));
        state.handle_pass_done(now + DEBOUNCE, Some(summary));
        state.stats(now + DEBOUNCE).next_full_pass
    };
    let mut changed = all.clone();
    changed.ops.entry("route").or_default().applied = 1;
    let left = 100 * LASTED - LASTED - DEBOUNCE;
    assert_eq!(dirty(first + LASTED, &changed), Some(left), "as events had it");
    let mut open = all;
    open.incomplete = true;
    assert_eq!(dirty(first + 2 * LASTED, &open), Some(INTERVAL));
}

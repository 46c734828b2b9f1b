//! The model: the contract's promises, without their implementation.

use super::world::World;
use super::*;

/// The promises. Times are in ticks.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) paused: bool,
    pub(super) stopped: bool,
    pub(super) ended: bool,
    pub(super) awaiting: Option<Action>,
    /// The first hint that calls for a full pass.
    pub(super) requested: Option<u64>,
    /// The first hint of the subscription.
    pub(super) dirty: Option<u64>,
    pub(super) immediate: bool,
    /// When the pass that continues a truncated one is due.
    pub(super) follow_up: Option<u64>,
    /// When a full pass by the timer is due.
    pub(super) timer: Option<u64>,
    /// True if the timer waits longer than one interval.
    pub(super) is_rare: bool,
    /// When a dirty pass by the timer is due.
    pub(super) uncovered: Option<u64>,
    /// Set from a loss of events until a full pass has ended without another: true if events were
    /// lost since that pass began.
    pub(super) lost: Option<bool>,
    pub(super) rest: u64,
    pub(super) running: Option<Run>,
    pub(super) subscription: Option<SubscriptionState>,
    /// True if a new desired state was declared.
    pub(super) replaced: bool,
    /// True if the desired state was changed.
    pub(super) changed: bool,
    pub(super) failing: Option<Failing>,
    /// The budget's level in ops times [`REFILL`], and the time of that level.
    pub(super) tokens: (u64, u64),
}

#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) since: u64,
    pub(super) extent: Extent,
    pub(super) ops: Option<u64>,
    pub(super) offered: bool,
    /// True if the failing op is due in this pass.
    pub(super) is_turn: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Failing {
    pub(super) at: u64,
    pub(super) late: u64,
    pub(super) level: u64,
    /// True if a pass has answered a hint since it was tried.
    pub(super) changed: bool,
    /// True if the desired state was changed since it was tried.
    pub(super) freed: bool,
    /// Its next due time, if the last pass did not try it.
    pub(super) put_off: Option<u64>,
}

impl Failing {
    fn delay(&self) -> u64 {
        (FIRST << self.level.min(8)).min(LAST)
    }

    fn put_off(&mut self, to: u64) {
        self.put_off = Some(to);
    }
}

impl World {
    /// Handles the result of the failing op.
    pub(super) fn failing(&mut self, run: &Run, result: Result) {
        let whole = run.extent == Extent::Everything;
        let failing = &mut self.model.failing;
        match result {
            Result::Op(Outcome::Failed(_) | Outcome::Declined(_)) => {
                let level = match failing {
                    Some(before) if before.at > run.since => {
                        (before.changed, before.freed) = (false, false);
                        before.put_off = None;
                        return;
                    }
                    Some(before) => before.level + 1,
                    None => 0,
                };
                let failed = Failing {
                    at: self.now,
                    late: self.now + LAST,
                    level,
                    changed: false,
                    freed: false,
                    put_off: None,
                };
                let at = self.now + failed.delay();
                *failing = Some(Failing { at, ..failed });
            }
            Result::Op(Outcome::Applied) => *failing = None,
            // It was due, and was not tried.
            Result::Op(Outcome::Pending(())) | Result::Error if run.is_turn => {
                failing.iter_mut().for_each(|it| it.put_off(self.now + it.delay()));
            }
            Result::Truncated if run.is_turn => {
                let rest = (self.now - run.since).max(1);
                failing.iter_mut().for_each(|it| it.put_off(self.now + rest));
            }
            Result::Op(Outcome::Pending(())) | Result::Error | Result::Truncated => {}
            // The pass no longer sees it.
            Result::Converged | Result::Again if whole || run.is_turn => *failing = None,
            Result::Converged | Result::Again => {}
        }
    }

    /// Schedules the timer's passes after a pass.
    pub(super) fn timer(&mut self, run: &Run, result: Result) {
        let model = &mut self.model;
        let is_subscribed = matches!(
            model.subscription,
            Some(SubscriptionState::Polled | SubscriptionState::Pushed)
        );
        let is_pending = match result {
            // The backoff handles an op that failed before.
            Result::Op(Outcome::Pending(())) => model.failing.is_none(),
            _ => false,
        };
        let is_left = matches!(result, Result::Error | Result::Truncated) || is_pending;
        let coverage = match is_subscribed && model.lost.is_none() && !is_left {
            true => self.setup.coverage,
            false => EventCoverage::Nothing,
        };
        let is_covered = coverage != EventCoverage::Nothing;
        if run.extent == Extent::Everything {
            let is_changed = matches!(result, Result::Op(Outcome::Applied));
            let rest = match is_covered && !is_changed {
                true => FACTOR * (self.now - run.since),
                false => 0,
            };
            model.is_rare = rest > INTERVAL;
            model.timer = Some(self.now + rest.max(INTERVAL));
            if model.subscription != Some(SubscriptionState::Polled) {
                model.lost = model.lost.filter(|lost| *lost);
            }
        } else if !is_covered && model.is_rare {
            model.is_rare = false;
            model.timer = model.timer.map(|at| at.min(self.now + INTERVAL));
        }
        let is_part = coverage == EventCoverage::Part && model.is_rare;
        model.uncovered = is_part.then_some(self.now + INTERVAL);
    }

    pub(super) fn fill(&mut self) {
        let (tokens, since) = self.model.tokens;
        let filled = (tokens + self.now - since).min(BURST * REFILL);
        self.model.tokens = (filled, self.now);
    }

    /// Returns when the failing op's delay has passed.
    pub(super) fn retry(&self) -> Option<u64> {
        let failing = self.model.failing?;
        let permanent = self.setup.fails.is_some_and(ErrorClass::is_permanent);
        let at = match !permanent || failing.changed {
            true => failing.at,
            false => failing.late,
        };
        Some(failing.put_off.unwrap_or(at))
    }

    /// Returns the pass that the promises call for now.
    pub(super) fn called_for(&self) -> Option<Extent> {
        let model = &self.model;
        let is_due = |first: Option<u64>| {
            first.is_some_and(|first| (first + DEBOUNCE).max(model.rest) <= self.now)
        };
        // A change does not wait, except for the rest if a full pass will answer it.
        let in_whole = model.changed && model.requested.is_some();
        let at_rest = model.rest <= self.now;
        let is_over = |at: Option<u64>| at.is_some_and(|at| at <= self.now);
        let by_timer = is_over(model.timer);
        let again = is_over(model.follow_up);
        if model.immediate || by_timer || again || is_due(model.requested) || in_whole && at_rest {
            Some(Extent::Everything)
        } else {
            let in_doubtful = model.changed && !in_whole;
            let by_timer = is_over(model.uncovered);
            (is_due(model.dirty) || in_doubtful || by_timer || is_due(self.retry()))
                .then_some(Extent::Dirty)
        }
    }
}

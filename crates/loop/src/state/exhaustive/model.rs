//! The model: the promises of the contract, and nothing of how they are kept.

use super::world::World;
use super::*;

/// The promises. Instants are ticks.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) paused: bool,
    pub(super) stopped: bool,
    pub(super) ended: bool,
    pub(super) awaiting: Option<Action>,
    /// The first hint that calls for a whole pass.
    pub(super) requested: Option<u64>,
    /// The first hint of the subscription.
    pub(super) dirty: Option<u64>,
    pub(super) immediate: bool,
    /// When the pass that continues a truncated one is due.
    pub(super) follow_up: Option<u64>,
    pub(super) last_whole_end: Option<u64>,
    pub(super) rest: u64,
    pub(super) running: Option<Run>,
    pub(super) subscription: Option<SubscriptionState>,
    /// True if a new desired state was declared.
    pub(super) replaced: bool,
    /// True if the desired state was changed.
    pub(super) changed: bool,
    pub(super) failing: Option<Failing>,
    /// In ops times [`REFILL`], and of when.
    pub(super) tokens: (u64, u64),
}

#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) since: u64,
    pub(super) extent: Extent,
    pub(super) ops: Option<u64>,
    pub(super) offered: bool,
    /// It is the turn of the op that fails.
    pub(super) is_turn: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Failing {
    pub(super) at: u64,
    pub(super) late: u64,
    pub(super) level: u64,
    /// A pass has answered a hint since it was tried.
    pub(super) changed: bool,
    /// The desired state was changed since it was tried.
    pub(super) freed: bool,
    /// When it is its turn, where it was not tried at the last one.
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
    /// Takes the result of the op that fails.
    pub(super) fn failing(&mut self, run: &Run, result: Result) {
        let whole = run.extent == Extent::Everything;
        let failing = &mut self.model.failing;
        match result {
            Result::Op(Outcome::Failed(_)) => {
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
            // It was its turn, and it was not tried.
            Result::Op(Outcome::Pending) | Result::Error if run.is_turn => {
                failing
                    .iter_mut()
                    .for_each(|it| it.put_off(self.now + it.delay()));
            }
            Result::Truncated if run.is_turn => {
                let rest = (self.now - run.since).max(1);
                failing
                    .iter_mut()
                    .for_each(|it| it.put_off(self.now + rest));
            }
            Result::Op(Outcome::Pending) | Result::Error | Result::Truncated => {}
            // Not seen any more.
            Result::Converged | Result::Again if whole || run.is_turn => *failing = None,
            Result::Converged | Result::Again => {}
        }
    }

    pub(super) fn fill(&mut self) {
        let (tokens, since) = self.model.tokens;
        let filled = (tokens + self.now - since).min(BURST * REFILL);
        self.model.tokens = (filled, self.now);
    }

    /// Returns when the delay of the failing op has passed.
    pub(super) fn retry(&self) -> Option<u64> {
        let failing = self.model.failing?;
        let permanent = self.setup.fails.is_some_and(ErrorClass::is_permanent);
        let at = match !permanent || failing.changed {
            true => failing.at,
            false => failing.late,
        };
        Some(failing.put_off.unwrap_or(at))
    }

    /// Returns the pass that is due now by the promises.
    pub(super) fn called_for(&self) -> Option<Extent> {
        let model = &self.model;
        let is_due = |first: Option<u64>| {
            first.is_some_and(|first| (first + DEBOUNCE).max(model.rest) <= self.now)
        };
        // A change does not wait, but for the rest where a whole pass is to answer it.
        let in_whole = model.changed && model.requested.is_some();
        let at_rest = model.rest <= self.now;
        let by_timer = model
            .last_whole_end
            .is_some_and(|end| end + INTERVAL <= self.now);
        let again = model.follow_up.is_some_and(|by| by <= self.now);
        if model.immediate || by_timer || again || is_due(model.requested) || in_whole && at_rest {
            Some(Extent::Everything)
        } else {
            let in_doubtful = model.changed && !in_whole;
            (is_due(model.dirty) || in_doubtful || is_due(self.retry())).then_some(Extent::Dirty)
        }
    }
}

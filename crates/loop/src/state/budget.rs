//! How many ops may be carried out: a bucket that fills with time. Not which.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// One op, in the parts that the bucket counts: a limit of one op a second fills one part a nanosecond.
const OP: i128 = 1_000_000_000;

/// A token bucket, full at first. It holds `burst` at most, and owes as much at most: a source that was not bound by the terms is not
/// waited for without end.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    limit: i128,
    burst: i128,
    level: i128,
    /// Of when the level is; none while nothing was ever spent.
    at: Option<Instant>,
}

impl Budget {
    pub(super) fn new((limit, burst): (NonZeroU32, NonZeroU32)) -> Budget {
        let burst = i128::from(burst.get()) * OP;
        Budget {
            limit: limit.get().into(),
            burst,
            level: burst,
            at: None,
        }
    }

    /// How many ops there are to spend.
    pub(super) fn available(&mut self, now: Instant) -> u64 {
        self.fill(now);
        u64::try_from(self.level / OP).unwrap_or(0)
    }

    pub(super) fn spend(&mut self, now: Instant, ops: u64) {
        self.fill(now);
        self.level = (self.level - i128::from(ops) * OP).max(-self.burst);
    }

    /// When it makes sense to go on with so many ops left: once there is one for each, or a second's worth, or all that the bucket
    /// holds; one op at least.
    pub(super) fn refilled(&mut self, now: Instant, left: u64) -> Option<Instant> {
        self.fill(now);
        let wanted = (i128::from(left) * OP)
            .min((self.limit * OP).max(OP))
            .clamp(OP, self.burst);
        let missing = (wanted - self.level).max(0);
        // Rounded up: then it is there, and not just short of it.
        let wait = (missing + self.limit - 1) / self.limit;
        now.checked_add(Duration::from_nanos(
            u64::try_from(wait).unwrap_or(u64::MAX),
        ))
    }

    /// The level in parts of an op.
    #[cfg(test)]
    pub(super) fn differs(&mut self, now: Instant, parts: u64) -> u8 {
        self.fill(now);
        (self.level * i128::from(parts) / OP) as u8
    }

    fn fill(&mut self, now: Instant) {
        let since = self.at.map_or(0, |at| {
            i128::try_from(now.saturating_duration_since(at).as_nanos()).unwrap_or(i128::MAX)
        });
        let filled = self.level.saturating_add(since.saturating_mul(self.limit));
        self.level = filled.min(self.burst);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: u32, burst: u32) -> Budget {
        Budget::new((
            NonZeroU32::new(limit).unwrap(),
            NonZeroU32::new(burst).unwrap(),
        ))
    }

    #[test]
    fn a_burst_at_first_then_the_limit() {
        let (mut budget, now) = (budget(10, 4), Instant::now());
        assert_eq!(budget.available(now), 4);
        budget.spend(now, 4);
        assert_eq!(budget.available(now), 0);
        assert_eq!(budget.available(now + Duration::from_millis(99)), 0);
        assert_eq!(budget.available(now + Duration::from_millis(100)), 1);
        assert_eq!(budget.available(now + Duration::from_secs(3600)), 4);
    }

    #[test]
    fn going_on_waits_for_what_is_left_or_a_seconds_worth_or_the_burst() {
        let now = Instant::now();
        let at = |limit, burst, left| {
            let mut budget = budget(limit, burst);
            budget.spend(now, burst.into());
            let then = budget.refilled(now, left).unwrap();
            assert!(budget.available(then) >= 1, "enough for progress");
            then - now
        };
        assert_eq!(at(10, 100, 5), Duration::from_millis(500));
        assert_eq!(at(10, 100, 1_000), Duration::from_secs(1));
        assert_eq!(at(10, 2, 1_000), Duration::from_millis(200));
        assert_eq!(at(1, 100, 0), Duration::from_secs(1));
        assert_eq!(at(3, 1, 1), Duration::from_nanos(333_333_334));
    }

    #[test]
    fn debt_is_bounded() {
        let (mut budget, now) = (budget(1, 5), Instant::now());
        budget.spend(now, u64::MAX);
        assert_eq!(budget.refilled(now, 1), Some(now + Duration::from_secs(6)));
    }
}

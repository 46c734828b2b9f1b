//! Budget: how many ops may be applied, as a token bucket.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, MutexGuard, lock};

/// One op in the bucket's units: with a limit of one op a second, one unit is added each
/// nanosecond.
const OP: i128 = 1_000_000_000;

/// A limit of ops that several loops keep together: see
/// [`Loop::with_budget`](crate::Loop::with_budget). Clones are the same budget: what one spends, the
/// others do not have.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<Bucket>>);

/// The budget of a loop's state: its own, of which a copy of the state has a copy, or a shared one.
#[derive(Clone, Debug)]
pub(super) enum StateBudget {
    Own(Bucket),
    Shared(Budget),
}

/// A token bucket that starts full. It holds at most `burst`, and owes at most as much: so the wait
/// for a source that exceeds its limits is bounded.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    limit: i128,
    burst: i128,
    level: i128,
    /// The time of `level`; `None` until it is first computed.
    at: Option<Instant>,
}

impl Budget {
    /// Makes a budget of so many ops per second in the long run, and so many at once after a rest.
    pub fn new(limit: NonZeroU32, burst: NonZeroU32) -> Budget {
        Budget(Arc::new(Mutex::new(Bucket::new(limit, burst))))
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // Nothing under the lock leaves it half done.
        lock(&self.0)
    }
}

impl StateBudget {
    pub(super) fn with<R>(&mut self, call: impl FnOnce(&mut Bucket) -> R) -> R {
        match self {
            StateBudget::Own(bucket) => call(bucket),
            StateBudget::Shared(budget) => call(&mut budget.lock()),
        }
    }
}

impl Bucket {
    pub(super) fn new(limit: NonZeroU32, burst: NonZeroU32) -> Bucket {
        let burst = i128::from(burst.get()) * OP;
        Bucket { limit: limit.get().into(), burst, level: burst, at: None }
    }

    /// Returns the number of ops that may be applied.
    pub(super) fn available(&mut self, now: Instant) -> u64 {
        self.fill(now);
        u64::try_from(self.level / OP).unwrap_or(0)
    }

    pub(super) fn spend(&mut self, now: Instant, ops: u64) {
        self.fill(now);
        self.level = (self.level - i128::from(ops) * OP).max(-self.burst);
    }

    /// Returns when a pass with `left` ops is worth it: once the bucket has one for each, or a
    /// second's worth, or is full; and at least one op.
    pub(super) fn refilled(&mut self, now: Instant, left: u64) -> Option<Instant> {
        self.fill(now);
        let wanted = (i128::from(left) * OP).min((self.limit * OP).max(OP)).clamp(OP, self.burst);
        let missing = (wanted - self.level).max(0);
        // Rounded up, so that the ops are there at that time.
        let wait = (missing + self.limit - 1) / self.limit;
        now.checked_add(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Returns the level in units of 1/`parts` of an op.
    #[cfg(test)]
    pub(super) fn fingerprint(&mut self, now: Instant, parts: u64) -> u8 {
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

    fn bucket(limit: u32, burst: u32) -> Bucket {
        let [limit, burst] = [limit, burst].map(|it| NonZeroU32::new(it).unwrap());
        Bucket::new(limit, burst)
    }

    #[test]
    fn a_burst_at_first_then_the_limit() {
        let (mut bucket, now) = (bucket(10, 4), Instant::now());
        assert_eq!(bucket.available(now), 4);
        bucket.spend(now, 4);
        assert_eq!(bucket.available(now), 0);
        assert_eq!(bucket.available(now + Duration::from_millis(99)), 0);
        assert_eq!(bucket.available(now + Duration::from_millis(100)), 1);
        assert_eq!(bucket.available(now + Duration::from_secs(3600)), 4);
    }

    #[test]
    fn going_on_waits_for_what_is_left_or_a_seconds_worth_or_the_burst() {
        let now = Instant::now();
        let at = |limit, burst, left| {
            let mut bucket = bucket(limit, burst);
            bucket.spend(now, burst.into());
            let then = bucket.refilled(now, left).unwrap();
            assert!(bucket.available(then) >= 1, "enough for progress");
            then - now
        };
        assert_eq!(at(10, 100, 5), Duration::from_millis(500));
        assert_eq!(at(10, 100, 1_000), Duration::from_secs(1));
        assert_eq!(at(10, 2, 1_000), Duration::from_millis(200));
        assert_eq!(at(1, 100, 0), Duration::from_secs(1));
        assert_eq!(at(3, 1, 1), Duration::from_nanos(333_333_334));
    }

    #[test]
    fn clones_of_a_budget_are_the_same_and_a_copy_of_a_bucket_is_apart() {
        let (own, now) = (bucket(1, 5), Instant::now());
        let shared = Budget(Arc::new(Mutex::new(own.clone())));
        for (mut first, left) in [(StateBudget::Own(own), 5), (StateBudget::Shared(shared), 1)] {
            let mut second = first.clone();
            first.with(|it| it.spend(now, 4));
            assert_eq!(first.with(|it| it.available(now)), 1);
            assert_eq!(second.with(|it| it.available(now)), left);
        }
    }

    #[test]
    fn debt_is_bounded() {
        let (mut bucket, now) = (bucket(1, 5), Instant::now());
        bucket.spend(now, u64::MAX);
        assert_eq!(bucket.refilled(now, 1), Some(now + Duration::from_secs(6)));
    }
}

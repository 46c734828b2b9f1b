//! Budget: a token bucket that limits the number of ops.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::{Mutex, MutexGuard, lock};

/// One op in the bucket's units. With a limit of one op a second, the bucket gains one unit each
/// nanosecond.
pub(crate) const OP: i128 = 1_000_000_000;

/// A limit on ops that several loops share: see [`Loop::with_budget`](crate::Loop::with_budget).
/// Clones are the same budget: an op that one loop spends is gone for the others.
#[derive(Clone, Debug)]
pub struct Budget(pub(crate) Arc<Mutex<Bucket>>);

/// The budget of a loop's state: its own, copied with the state, or a shared one.
#[derive(Clone, Debug)]
pub(crate) enum StateBudget {
    Own(Bucket),
    Shared(Budget),
}

/// A token bucket that starts full. It holds at most `burst`, and owes at most as much. So the wait
/// after a source has exceeded its limits is bounded.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    pub(crate) limit: i128,
    pub(crate) burst: i128,
    pub(crate) level: i128,
    /// The time of `level`; `None` until it is first computed.
    pub(crate) at: Option<Instant>,
}

impl Budget {
    /// Creates a budget of `limit` ops per second on average, and `burst` ops at once after a rest.
    pub fn new(limit: NonZeroU32, burst: NonZeroU32) -> Budget {
        Budget(Arc::new(Mutex::new(Bucket::new(limit, burst))))
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        // No code under the lock leaves it half done.
        lock(&self.0)
    }
}

impl StateBudget {
    pub(crate) fn with<R>(&mut self, call: impl FnOnce(&mut Bucket) -> R) -> R {
        match self {
            StateBudget::Own(bucket) => call(bucket),
            StateBudget::Shared(budget) => call(&mut budget.lock()),
        }
    }
}

impl Bucket {
    pub(crate) fn new(limit: NonZeroU32, burst: NonZeroU32) -> Bucket {
        let burst = i128::from(burst.get()) * OP;
        Bucket { limit: limit.get().into(), burst, level: burst, at: None }
    }

    /// Returns the number of ops that may be applied.
    pub(crate) fn available(&mut self, now: Instant) -> u64 {
        self.fill(now);
        u64::try_from(self.level / OP).unwrap_or(0)
    }

    pub(crate) fn spend(&mut self, now: Instant, ops: u64) {
        self.fill(now);
        self.level = (self.level - i128::from(ops) * OP).max(-self.burst);
    }

    /// Returns when a pass with `left` ops is worthwhile: once the bucket has one for each, or a
    /// second's worth, or is full; and at least one op.
    pub(crate) fn refilled(&mut self, now: Instant, left: u64) -> Option<Instant> {
        self.fill(now);
        let wanted = (i128::from(left) * OP).min((self.limit * OP).max(OP)).clamp(OP, self.burst);
        let missing = (wanted - self.level).max(0);
        // Rounded up, so that the ops are available by then.
        let wait = (missing + self.limit - 1) / self.limit;
        now.checked_add(Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    pub(crate) fn fill(&mut self, now: Instant) {
        let since = self.at.map_or(0, |at| {
            i128::try_from(now.saturating_duration_since(at).as_nanos()).unwrap_or(i128::MAX)
        });
        let filled = self.level.saturating_add(since.saturating_mul(self.limit));
        self.level = filled.min(self.burst);
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }
}

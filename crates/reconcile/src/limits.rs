//! What a driver asks of one pass beyond what is desired: how much to look at, how much to do, and when to leave off.

use std::fmt;
use std::time::Duration;

/// How much of the world a pass looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All that is managed. The ground of correctness: a driver asks for it first, and again at an interval.
    #[default]
    Everything,
    /// What the source itself has heard to be doubtful since its last pass, and what is desired otherwise than in that one; all of
    /// it where it cannot tell. A source that cannot tell what is desired otherwise looks at all unless
    /// [the same is](PassLimits::is_same_desired).
    Dirty,
}

/// Names an object of a source to a driver, which compares it and nothing else: the same object has the same key in each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpKey(pub u64);

/// On what terms a driver has a pass run. By default it is whole, and unbounded.
///
/// All of them are requests to hold back: a source that knows nothing of them is right, but slower to stop and slower to
/// give up.
#[derive(Clone, Copy, Default)]
pub struct PassLimits<'a> {
    extent: Extent,
    same_desired: bool,
    ops: Option<u64>,
    should_continue: Option<&'a (dyn Fn() -> bool + Sync)>,
    backoff: Option<&'a (dyn Fn(OpKey) -> Option<Duration> + Sync)>,
}

impl<'a> PassLimits<'a> {
    /// With another extent.
    #[must_use]
    pub fn with_extent(self, extent: Extent) -> Self {
        PassLimits { extent, ..self }
    }

    /// With the word that the same is desired as in this source's last pass in this scope, and that pass gave a report.
    #[must_use]
    pub fn with_same_desired(self) -> Self {
        PassLimits {
            same_desired: true,
            ..self
        }
    }

    /// With a limit to the ops that may be carried out; 0 is a look. The rest is pending, and
    /// [`Report::is_truncated`](crate::Report::is_truncated).
    #[must_use]
    pub fn with_ops(self, ops: u64) -> Self {
        PassLimits {
            ops: Some(ops),
            ..self
        }
    }

    /// With a question that is asked between two steps of the pass. Once it answers false the pass begins nothing new:
    /// what is left is pending.
    #[must_use]
    pub fn with_should_continue(self, should_continue: &'a (dyn Fn() -> bool + Sync)) -> Self {
        PassLimits {
            should_continue: Some(should_continue),
            ..self
        }
    }

    /// With a list of what is not to be tried in this pass because it failed before, and for how long from now;
    /// [`Duration::MAX`] until something changes.
    #[must_use]
    pub fn with_backoff(self, backoff: &'a (dyn Fn(OpKey) -> Option<Duration> + Sync)) -> Self {
        PassLimits {
            backoff: Some(backoff),
            ..self
        }
    }

    /// How much to look at.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether the same is desired as in the source's last pass, which gave a report. If not, nobody knows: it may have been changed
    /// where it is, so that it looks the same from afar.
    pub fn is_same_desired(&self) -> bool {
        self.same_desired
    }

    /// How many ops may be carried out at most.
    pub fn ops(&self) -> u64 {
        self.ops.unwrap_or(u64::MAX)
    }

    /// Whether to begin the next step: false once the deadline has passed, or the driver is to pause or to stop.
    pub fn should_continue(&self) -> bool {
        self.should_continue
            .is_none_or(|should_continue| should_continue())
    }

    /// For how long the op on an object is not to be tried, if it is not.
    pub fn backoff(&self, key: OpKey) -> Option<Duration> {
        self.backoff.and_then(|backoff| backoff(key))
    }

    /// Whether [`backoff`](Self::backoff) may answer anything: if not, keys need not be computed.
    pub fn has_backoff(&self) -> bool {
        self.backoff.is_some()
    }
}

impl fmt::Debug for PassLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassLimits")
            .field("extent", &self.extent)
            .field("same_desired", &self.same_desired)
            .field("ops", &self.ops)
            .finish_non_exhaustive()
    }
}

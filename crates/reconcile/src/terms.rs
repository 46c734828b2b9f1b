//! What a driver asks of one pass beyond what is desired: how much to look at, how much to do, and when to leave off.

use std::fmt;
use std::time::Duration;

/// How much of the world a pass looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// All that is managed. The ground of correctness: a driver asks for it first, and again at an interval.
    #[default]
    Whole,
    /// What the source itself has heard to be doubtful since its last pass, and what is desired otherwise than in that one; all of
    /// it where it cannot tell. A source that cannot tell what is desired otherwise looks at all unless
    /// [the same is](Terms::is_same_desired).
    Doubtful,
}

/// Names an object of a source to a driver, which compares it and nothing else: the same object has the same key in each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpKey(pub u64);

/// On what terms a driver has a pass run. By default it is whole, and unbounded.
///
/// All of them are requests to hold back: a source that knows nothing of them is right, but slower to stop and slower to
/// give up.
#[derive(Clone, Copy, Default)]
pub struct Terms<'a> {
    extent: Extent,
    same_desired: bool,
    ops: Option<u64>,
    go_on: Option<&'a (dyn Fn() -> bool + Sync)>,
    held: Option<&'a (dyn Fn(OpKey) -> Option<Duration> + Sync)>,
}

impl<'a> Terms<'a> {
    /// With another extent.
    #[must_use]
    pub fn with_extent(self, extent: Extent) -> Self {
        Terms { extent, ..self }
    }

    /// With the word that the same is desired as in this source's last pass in this scope, and that pass gave a report.
    #[must_use]
    pub fn with_same_desired(self) -> Self {
        Terms {
            same_desired: true,
            ..self
        }
    }

    /// With a limit to the ops that may be carried out; 0 is a look. The rest is pending, and
    /// [`Report::is_cut`](crate::Report::is_cut).
    #[must_use]
    pub fn with_ops(self, ops: u64) -> Self {
        Terms {
            ops: Some(ops),
            ..self
        }
    }

    /// With a question that is asked between two steps of the pass. Once it answers false the pass begins nothing new:
    /// what is left is pending.
    #[must_use]
    pub fn with_go_on(self, go_on: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Terms {
            go_on: Some(go_on),
            ..self
        }
    }

    /// With a list of what is not to be tried in this pass because it failed before, and for how long from now;
    /// [`Duration::MAX`] until something changes.
    #[must_use]
    pub fn with_held(self, held: &'a (dyn Fn(OpKey) -> Option<Duration> + Sync)) -> Self {
        Terms {
            held: Some(held),
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
    pub fn go_on(&self) -> bool {
        self.go_on.is_none_or(|go_on| go_on())
    }

    /// For how long the op on an object is not to be tried, if it is not.
    pub fn held(&self, key: OpKey) -> Option<Duration> {
        self.held.and_then(|held| held(key))
    }

    /// Whether [`held`](Self::held) may answer anything: if not, keys need not be computed.
    pub fn may_hold(&self) -> bool {
        self.held.is_some()
    }
}

impl fmt::Debug for Terms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terms")
            .field("extent", &self.extent)
            .field("same_desired", &self.same_desired)
            .field("ops", &self.ops)
            .finish_non_exhaustive()
    }
}

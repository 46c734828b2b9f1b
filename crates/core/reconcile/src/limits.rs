//! The limits that a driver sets for one pass: its extent, its number of ops, and its end.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The part of the system that a pass observes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// Everything that the source manages. A driver requests this first, and again at an interval:
    /// correctness depends only on these passes.
    #[default]
    Everything,
    /// The objects that may have changed since the last pass according to the source's own events,
    /// the ones whose desired state has changed, and the ones without events. If a source does not
    /// know these objects, it observes everything. If it cannot compare desired states, it does the
    /// same unless the state [is unchanged](PassLimits::is_same_desired).
    Dirty,
}

/// An object's key for a driver, which only compares it. An object has the same key in each pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpKey(pub u64);

impl OpKey {
    /// The key of the whole scope, under which a driver reports a pass that could not run. No
    /// object has it.
    pub const SCOPE: OpKey = OpKey(u64::MAX);
}

/// A function called with the kinds of ops before they are carried out. If it returns false, they
/// are not carried out.
pub type BeforeChange<'a> = &'a (dyn Fn(&[&'static str]) -> bool + Sync);

/// The limits of a pass. By default, it observes everything and has no limit.
///
/// A source that ignores limits is correct, but takes longer to stop and to give up.
///
/// ```
/// use trueup_reconcile::{Extent, PassLimits};
///
/// let is_stopping = || false;
/// let limits = PassLimits::default().with_ops(10).with_should_continue(&is_stopping);
/// assert_eq!((limits.ops(), limits.extent()), (10, Extent::Everything));
/// assert!(!limits.should_continue());
/// ```
#[derive(Clone, Copy, Default)]
pub struct PassLimits<'a> {
    extent: Extent,
    same_desired: bool,
    ops: Option<u64>,
    should_continue: Option<&'a (dyn Fn() -> bool + Sync)>,
    before_change: Option<BeforeChange<'a>>,
    backoff: Option<&'a (dyn Fn(OpKey) -> Option<Duration> + Sync)>,
    due: &'a [OpKey],
}

impl<'a> PassLimits<'a> {
    /// Sets the part of the system that the pass observes.
    #[must_use]
    pub fn with_extent(self, extent: Extent) -> Self {
        PassLimits { extent, ..self }
    }

    /// Declares that the desired state is unchanged since the source's last pass in this scope,
    /// which gave a report.
    #[must_use]
    pub fn with_same_desired(self) -> Self {
        PassLimits { same_desired: true, ..self }
    }

    /// Limits the number of ops; with 0 the pass only observes. The remaining ops are pending, and
    /// the report [is truncated](crate::Report::is_truncated).
    #[must_use]
    pub fn with_ops(self, ops: u64) -> Self {
        PassLimits { ops: Some(ops), ..self }
    }

    /// Sets a function to call between two steps of the pass. Once it returns false, the pass
    /// begins no further step, and the remaining ops are pending.
    #[must_use]
    pub fn with_should_continue(self, should_continue: &'a (dyn Fn() -> bool + Sync)) -> Self {
        PassLimits { should_continue: Some(should_continue), ..self }
    }

    /// Sets a function that a source calls with the kinds of ops before it carries them out; it
    /// records the change's consequences. If it returns false, the pass carries out none of the
    /// ops, and they are pending. Only a source that [announces](crate::Source::ANNOUNCES) calls
    /// it.
    #[must_use]
    pub fn with_before_change(self, before_change: BeforeChange<'a>) -> Self {
        PassLimits { before_change: Some(before_change), ..self }
    }

    /// Names the objects whose op failed before and is due again. A [dirty](Extent::Dirty) pass
    /// looks at these too; if the source cannot, it looks at everything. If the report does not
    /// name such an object, the driver assumes that it is as desired.
    #[must_use]
    pub fn with_due(self, due: &'a [OpKey]) -> Self {
        PassLimits { due, ..self }
    }

    /// Sets a function that returns how long from now the op on an object must wait, because it
    /// failed before.
    #[must_use]
    pub fn with_backoff(self, backoff: &'a (dyn Fn(OpKey) -> Option<Duration> + Sync)) -> Self {
        PassLimits { backoff: Some(backoff), ..self }
    }

    /// Returns the part of the system that the pass observes.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns true if the desired state is unchanged since the source's last pass, which gave a
    /// report. If false, it may have been changed in place, so comparing addresses is not enough.
    pub fn is_same_desired(&self) -> bool {
        self.same_desired
    }

    /// Returns the largest number of ops that may be applied; `u64::MAX` without a limit.
    pub fn ops(&self) -> u64 {
        self.ops.unwrap_or(u64::MAX)
    }

    /// Returns true if the next step may begin: false once the deadline has passed, or the driver
    /// is about to pause or stop.
    pub fn should_continue(&self) -> bool {
        self.should_continue.is_none_or(|should_continue| should_continue())
    }

    /// Returns true if ops of these kinds may be carried out. The call may wait for a record.
    pub fn may_change(&self, kinds: impl IntoIterator<Item = &'static str>) -> bool {
        self.before_change.is_none_or(|before_change| {
            let kinds: BTreeSet<_> = kinds.into_iter().collect();
            kinds.is_empty() || before_change(&Vec::from_iter(kinds))
        })
    }

    /// Returns how long the op on an object must wait; `None` if it may be tried.
    pub fn backoff(&self, key: OpKey) -> Option<Duration> {
        self.backoff.and_then(|backoff| backoff(key))
    }

    /// Returns the objects whose op failed before and is due again.
    pub fn due(&self) -> &'a [OpKey] {
        self.due
    }

    /// Returns true if [`backoff`](Self::backoff) may return a time. If false, a source need not
    /// compute keys.
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
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

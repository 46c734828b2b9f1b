//! The state of a vertex. Each vertex has one, so it is small.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use trueup_reconcile::ErrorClass;

use super::{Cause, Intent, State, Verdict};
use crate::edge::Kinds;

#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    /// True if it is to run, or to run again.
    pub(crate) dirty: bool,
    pub(crate) running: bool,
    /// True if it is dirty but failed for good: it waits for an event, a parent's run, or its poll.
    pub(crate) halted: bool,
    /// True if its watch is ready, or it has none.
    pub(crate) watched: bool,
    /// True if it is a finished reversal, which no longer counts.
    pub(crate) gone: bool,
    /// True if it holds its semaphores while it waits for a worker.
    pub(crate) granted: bool,
    /// True if it waits because its last run or its watch failed, or those of a vertex that it
    /// needs. Children by order only do not wait for it.
    pub(crate) held: bool,
    pub(crate) last: Option<Result<Verdict, ErrorClass>>,
    pub(crate) cause: Cause,
    pub(crate) blocked: u32,
    pub(crate) pending: u32,
    /// The number of failed runs since the last success.
    pub(crate) attempts: u32,
    /// Its place in a queue; 0 if it has none.
    pub(crate) ticket: u64,
    pub(crate) settled_since: Option<Moment>,
    /// `None` if all these values have their defaults.
    pub(crate) rare: Option<Box<Rare>>,
}

/// State that few vertices have at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rare {
    /// The vertices to refresh if it changes something, as in its record or the next write.
    intent: Option<Intent>,
    /// The kinds of its possible changes that refreshed no vertex yet.
    pub(crate) doubt: Kinds,
    /// When it is looked at again: its entry in the state's timers.
    timer: Option<Instant>,
    /// The end of its delay after a failure.
    not_before: Option<Instant>,
}

impl Slot {
    pub(crate) fn is_unsettled(&self) -> bool {
        self.dirty || self.running
    }

    pub(crate) fn intent(&self) -> Option<&Intent> {
        self.rare.as_ref()?.intent.as_ref()
    }

    /// Returns its intent; adds an empty one if it has none.
    pub(crate) fn intent_mut(&mut self) -> &mut Intent {
        let rare = self.rare.get_or_insert_default();
        rare.intent.get_or_insert_default()
    }

    pub(crate) fn take_intent(&mut self) -> Option<Intent> {
        let intent = self.rare.as_mut()?.intent.take();
        self.shrink();
        intent
    }

    /// Notes that it may have changed something of these kinds. Without vertices to refresh,
    /// nothing is noted.
    pub(crate) fn add_doubt(&mut self, kinds: Kinds) {
        if self.intent().is_some() {
            self.rare.get_or_insert_default().doubt.add(kinds);
        }
    }

    pub(crate) fn take_doubt(&mut self) -> Kinds {
        let doubt = self.rare.as_mut().map(|it| std::mem::take(&mut it.doubt));
        self.shrink();
        doubt.unwrap_or_default()
    }

    pub(crate) fn timer(&self) -> Option<Instant> {
        self.rare.as_ref()?.timer
    }

    /// Sets the timer, and returns the former one.
    pub(crate) fn replace_timer(&mut self, at: Option<Instant>) -> Option<Instant> {
        if self.rare.is_none() && at.is_none() {
            return None;
        }
        let rare = self.rare.get_or_insert_default();
        let before = std::mem::replace(&mut rare.timer, at);
        self.shrink();
        before
    }

    pub(crate) fn not_before(&self) -> Option<Instant> {
        self.rare.as_ref()?.not_before
    }

    pub(crate) fn set_not_before(&mut self, at: Option<Instant>) {
        if self.rare.is_some() || at.is_some() {
            self.rare.get_or_insert_default().not_before = at;
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.rare.take_if(|it| {
            it.intent.is_none()
                && it.doubt.is_empty()
                && it.timer.is_none()
                && it.not_before.is_none()
        });
    }
}

/// An instant, as nanoseconds since the state's start plus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(NonZeroU64);

impl State {
    pub(crate) fn moment(&self, at: Instant) -> Moment {
        let since = at.saturating_duration_since(self.start).as_nanos();
        // The range is 584 years.
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        Moment(NonZeroU64::MIN.saturating_add(since))
    }

    /// Returns the instant `time` after a moment; `None` beyond the clock's range.
    pub(crate) fn after(&self, moment: Moment, time: Duration) -> Option<Instant> {
        let since = Duration::from_nanos(moment.0.get() - 1);
        self.start.checked_add(since)?.checked_add(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_smaller_than_a_line_of_the_cache() {
        assert!(size_of::<Slot>() <= 56, "{}", size_of::<Slot>());
    }
}

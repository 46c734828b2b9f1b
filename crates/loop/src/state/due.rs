//! When passes are due, by what asks for them. An input can only bring one nearer, so nothing that happens pushes a pass back.

use std::time::{Duration, Instant};

/// The instants at which passes are due. None: nothing of that sort asks for one.
#[derive(Clone, Debug, Default)]
pub(super) struct Due {
    /// A whole one for the first, a forced one, a resume.
    pub(super) at_once: Option<Instant>,
    /// A whole one by the timer.
    pub(super) interval: Option<Instant>,
    /// A whole one for a handle's hint, another desired state, or what the subscription lost. Held back by a rest.
    pub(super) asked: Option<Instant>,
    /// A whole one to go on with what was left.
    pub(super) again: Option<Instant>,
    /// One over what is doubtful, for a hint of the subscription. Held back by a rest.
    pub(super) doubtful: Option<Instant>,
    /// One over what is doubtful, for a change of what is desired. Where a whole one is asked for as well, it is that one that is due,
    /// held back by a rest.
    pub(super) changed: Option<Instant>,
}

impl Due {
    /// When a whole pass is due, if what hints ask for has to wait until `rest`.
    pub(super) fn whole(&self, rest: Option<Instant>) -> Option<Instant> {
        let asked = self.asked.map(|at| {
            let at = self.changed.map_or(at, |changed| at.min(changed));
            rested(at, rest)
        });
        [self.at_once, self.interval, asked, self.again]
            .into_iter()
            .flatten()
            .min()
    }

    /// When a pass over what is doubtful is due, likewise.
    pub(super) fn doubtful(&self, rest: Option<Instant>) -> Option<Instant> {
        let heard = self.doubtful.map(|at| rested(at, rest));
        let changed = self.changed.filter(|_| self.asked.is_none());
        heard.into_iter().chain(changed).min()
    }

    /// Something was heard or asked for that no pass has begun to answer.
    pub(super) fn is_outstanding(&self) -> bool {
        let all = [self.at_once, self.asked, self.doubtful, self.changed];
        all.iter().any(Option::is_some)
    }
}

fn rested(at: Instant, rest: Option<Instant>) -> Instant {
    rest.map_or(at, |rest| at.max(rest))
}

/// Brings what is due nearer, never further away. A time beyond the clock is never.
pub(super) fn nearer(due: &mut Option<Instant>, now: Instant, after: Duration) {
    if let Some(at) = now.checked_add(after) {
        *due = Some(due.map_or(at, |due| due.min(at)));
    }
}

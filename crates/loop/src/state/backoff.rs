//! Which ops are left alone for a time because they failed. Not how many may be tried: see the budget.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trueup_reconcile::{ErrorClass, OpKey, Outcome, Told};

use super::random::Random;
use crate::Config;

/// More than that are not kept track of: they are tried in every pass.
pub(super) const MOST: usize = 65_536;

/// What failed, and when it may be tried again.
///
/// By class:
///
/// - `busy`, `unknown`: after its distance, and for nothing else sooner.
/// - `dependency`: after its distance, or in any pass that answers a hint, as what it rests on may have come.
/// - the permanent ones: after its distance, but only once a hint says that the world has changed. Without a subscription, which
///   would say so, at the greatest distance.
///
/// Another desired state frees all but `busy` and `unknown`. A failure raises the distance only if the op was tried when its distance
/// had passed: events do not raise it.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    held: BTreeMap<OpKey, Held>,
    /// Counts the passes that answer hints.
    heard: u64,
    /// The running pass answers a hint.
    answering: bool,
    subscribed: bool,
    /// The earliest retry that time alone brings about.
    next: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    class: ErrorClass,
    /// Failures, less one, at growing distances.
    level: u32,
    /// Its distance has passed then.
    at: Instant,
    /// The greatest distance has.
    late: Instant,
    /// Of [`Backoff::heard`], when it was tried last.
    heard: u64,
}

impl Backoff {
    /// A pass begins; `answering`: for a hint; `renewed`: over another desired state.
    pub(super) fn begin(&mut self, answering: bool, renewed: bool) {
        self.answering = answering;
        self.heard += u64::from(answering);
        if renewed {
            self.held.retain(|_, held| is_timed(held.class));
        }
    }

    pub(super) fn set_subscribed(&mut self, subscribed: bool, since: Option<Instant>) {
        self.subscribed = subscribed;
        self.find_next(since);
    }

    /// For how long from now an op is not to be tried, if it is not.
    pub(super) fn held(&self, now: Instant, key: OpKey) -> Option<Duration> {
        let held = self.held.get(&key)?;
        if self.answering && held.class == ErrorClass::Dependency {
            return None;
        }
        match self.due(held) {
            Some(at) if at <= now => None,
            Some(at) => Some(at - now),
            None => Some(Duration::MAX),
        }
    }

    /// A pass is over.
    pub(super) fn over(&mut self, pass: &Over<'_>, config: &Config, random: &mut Random) {
        if pass.seen_all {
            let mut before = std::mem::take(&mut self.held);
            for told in pass.outcomes {
                self.held.extend(before.remove_entry(&told.key));
            }
        }
        for told in pass.outcomes {
            match told.outcome {
                Outcome::Pending => {}
                Outcome::Failed(class) if !class.is_done() => {
                    self.failed(told.key, class, pass, config, random);
                }
                Outcome::Applied | Outcome::Failed(_) => drop(self.held.remove(&told.key)),
            }
        }
        self.answering = false;
        self.find_next(pass.last_whole);
    }

    /// When the next retry is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// What decides from now on, in numbers; with `rel` an instant in them.
    #[cfg(test)]
    pub(super) fn differs(
        &self,
        rel: impl Fn(Option<Instant>) -> u8,
        since: Instant,
        last_whole: Option<Instant>,
    ) -> Vec<u8> {
        let mut all = vec![u8::from(self.answering)];
        for held in self.held.values() {
            all.extend([
                rel(Some(held.at)),
                rel(Some(held.late)),
                held.level.min(2) as u8,
            ]);
            let flags = [
                self.heard > held.heard,
                held.at > since,
                last_whole.is_none_or(|last| held.at > last),
                last_whole.is_none_or(|last| held.late > last),
            ];
            all.extend(flags.map(u8::from));
        }
        all
    }

    fn failed(
        &mut self,
        key: OpKey,
        class: ErrorClass,
        pass: &Over<'_>,
        config: &Config,
        random: &mut Random,
    ) {
        let full = self.held.len() == MOST;
        let level = match self.held.get_mut(&key) {
            // An event had it tried before its time.
            Some(held) if held.at > pass.since => {
                (held.class, held.heard) = (class, self.heard);
                return;
            }
            Some(held) => held.level.saturating_add(1),
            None if full => return,
            None => 0,
        };
        let (first, last) = config.backoff();
        let factor = 1u32.checked_shl(level).unwrap_or(u32::MAX);
        let mut after = |distance: Duration| {
            let distance = random.spread(distance, config.jitter());
            pass.now.checked_add(distance.max(Config::MIN_INTERVAL))
        };
        // No clock ends within a few days.
        let (Some(at), Some(late)) = (after(first.saturating_mul(factor).min(last)), after(last))
        else {
            return;
        };
        let held = Held {
            class,
            level,
            at,
            late: late.max(at),
            heard: self.heard,
        };
        self.held.insert(key, held);
    }

    fn due(&self, held: &Held) -> Option<Instant> {
        if held.class.is_retryable() || self.heard > held.heard {
            return Some(held.at);
        }
        (!self.subscribed).then_some(held.late)
    }

    /// What was due when the last whole pass began is not waited for: that pass left it for another reason than its time.
    fn find_next(&mut self, last_whole: Option<Instant>) {
        let due = self.held.values().filter_map(|held| self.due(held));
        self.next = due
            .filter(|&at| last_whole.is_none_or(|last| at > last))
            .min();
    }
}

/// A pass that is over.
pub(super) struct Over<'a> {
    /// When it began.
    pub(super) since: Instant,
    pub(super) now: Instant,
    /// When the last whole pass began; that may be this one.
    pub(super) last_whole: Option<Instant>,
    pub(super) outcomes: &'a [Told],
    /// It told of all that there is to do: what it does not name is no longer to be done.
    pub(super) seen_all: bool,
}

/// Only time frees it.
fn is_timed(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Busy | ErrorClass::Unknown)
}

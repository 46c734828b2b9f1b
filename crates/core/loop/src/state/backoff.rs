//! Backoff: the delay before a failed op is tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use trueup_reconcile::{ErrorClass, OpKey, Outcome};

use super::schedule::Jitter;
use crate::stats::MAX_TRACKED;
use crate::{Config, PassSummary};

/// The failed ops, by their objects, with the time of the next try.
///
/// An op is tried again after its delay, which doubles with each failure. The error's class changes
/// this:
///
/// - `busy`, `unknown`, `conflict`: after the delay. (While the foreign object of a conflict
///   exists, a pass finds it and names no op.)
/// - `dependency`: also in any pass that answers a hint, because the missing object may exist now.
/// - a permanent class: once a hint reports a change of the system. Hints do not report all
///   relevant changes, such as a foreign rule that catches a gateway; so also after the longest
///   delay.
///
/// A new desired state frees all ops but `busy` and `unknown`, and forgets their failures. A change
/// of the desired state frees its objects' ops, of any class, until they are tried again, and
/// forgets nothing. If the objects are not known, it frees all but `busy` and `unknown`. It counts
/// as a hint. The cost of a pass does not depend on the number of failures. A failure doubles the
/// delay only if the delay had passed, so hints do not lengthen it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backoff {
    pub(crate) failed: BTreeMap<OpKey, FailedOp>,
    /// The due time of each op, in order.
    pub(crate) queue: BTreeSet<(Instant, OpKey)>,
    /// The ops that a hint brings forward.
    pub(crate) waiting: BTreeSet<OpKey>,
    /// True while the running pass answers a hint.
    pub(crate) answers_hint: bool,
    /// The ops that the running pass should try again.
    pub(crate) due: Vec<OpKey>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FailedOp {
    pub(crate) class: ErrorClass,
    /// The number of its failures.
    pub(crate) tries: u32,
    /// How often the delay was doubled.
    pub(crate) doublings: u32,
    /// The end of its delay.
    pub(crate) retry_at: Instant,
    /// The end of the longest delay.
    pub(crate) latest_retry_at: Instant,
    /// When it is tried again without a further hint.
    pub(crate) due_at: Instant,
    /// True if a change affects its object, which was not tried since.
    pub(crate) is_freed: bool,
}

impl Backoff {
    /// Notes that the next pass has a new desired state.
    pub(crate) fn desired_replaced(&mut self) {
        let freed: Vec<OpKey> = self
            .failed
            .iter()
            .filter(|(_, op)| !needs_time(op.class))
            .map(|(key, _)| *key)
            .collect();
        freed.into_iter().for_each(|key| self.forget(key));
    }

    /// Notes the objects that the running pass's changes affect; `None` if they are not known.
    pub(crate) fn desired_changed(&mut self, keys: Option<&[OpKey]>) {
        match keys {
            Some(keys) => {
                for key in keys {
                    if let Some(op) = self.failed.get_mut(key) {
                        op.is_freed = true;
                    }
                }
            }
            None => {
                for op in self.failed.values_mut() {
                    op.is_freed |= !needs_time(op.class);
                }
            }
        }
    }

    /// Notes that a pass begins.
    pub(crate) fn pass_begins(&mut self, answers_hint: bool) {
        self.answers_hint = answers_hint;
        if answers_hint {
            for key in std::mem::take(&mut self.waiting) {
                if let Some(op) = self.failed.get(&key) {
                    self.put_off(key, op.retry_at);
                }
            }
        }
    }

    /// Selects the due ops for the pass that begins, at most [`MAX_DUE`], the earliest first.
    pub(crate) fn take_due(&mut self, now: Instant) {
        let due = self.queue.iter().take_while(|(at, _)| *at <= now);
        self.due = due.take(MAX_DUE).map(|(_, key)| *key).collect();
    }

    /// Returns the ops that the running pass should try again. A pass over everything looks at all.
    pub(crate) fn due(&self) -> &[OpKey] {
        &self.due
    }

    /// Returns how long from `now` the op on an object must not be tried; `None` if it may be
    /// tried.
    pub(crate) fn remaining(&self, now: Instant, key: OpKey) -> Option<Duration> {
        let op = self.failed.get(&key)?;
        if op.is_freed || self.answers_hint && op.class == ErrorClass::Dependency {
            return None;
        }
        let left = op.due_at.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Handles the outcomes of a pass.
    pub(crate) fn pass_done(&mut self, pass: &DonePass<'_>, config: &Config, jitter: &mut Jitter) {
        let mut due = std::mem::take(&mut self.due);
        if pass.is_full {
            let all = self.queue.iter().take_while(|(at, _)| *at <= pass.since);
            due = all.map(|(_, key)| *key).collect();
        }
        let is_whole = pass.summary.is_some_and(|summary| !summary.truncated);
        if let Some(summary) = pass.summary {
            // If the pass looked for an op and does not name it, the op is no longer needed.
            let looked_for: Vec<OpKey> = match (is_whole, pass.is_full) {
                (false, _) => Vec::new(),
                (true, true) => self.failed.keys().copied().collect(),
                (true, false) => due.clone(),
            };
            for key in looked_for.into_iter().filter(|it| !summary.objects.contains_key(it)) {
                self.forget(key);
            }
            for (&key, &outcome) in &summary.objects {
                match outcome {
                    Outcome::Pending(()) => {}
                    Outcome::Failed(class) | Outcome::Declined(class) if outcome.is_failure() => {
                        self.add_failure(key, class, pass, config, jitter);
                    }
                    Outcome::Applied | Outcome::Failed(_) | Outcome::Declined(_) => {
                        self.forget(key);
                    }
                }
            }
        }
        // A due op that was not tried waits for something other than its delay.
        for key in due {
            let Some(op) = self.failed.get(&key).filter(|op| op.due_at <= pass.since) else {
                continue;
            };
            let after = match pass.summary {
                Some(_) if !is_whole => pass.rest,
                _ => delay(op.doublings, config),
            };
            if let Some(at) = pass.now.checked_add(after) {
                self.put_off(key, at);
            }
        }
        self.answers_hint = false;
    }

    /// Returns when the next retry is due; `None` without failures.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Returns how often an op has failed, and the latest time of its next try.
    pub(crate) fn retry(&self, key: OpKey) -> Option<(u32, Instant)> {
        self.failed.get(&key).map(|op| (op.tries, op.due_at))
    }

    pub(crate) fn is_tracked(&self, key: OpKey) -> bool {
        self.failed.contains_key(&key)
    }

    pub(crate) fn len(&self) -> usize {
        self.failed.len()
    }

    fn add_failure(
        &mut self,
        key: OpKey,
        class: ErrorClass,
        pass: &DonePass<'_>,
        config: &Config,
        jitter: &mut Jitter,
    ) {
        let before = self.failed.get(&key);
        if before.is_none() && self.failed.len() == MAX_TRACKED {
            return;
        }
        let tries = before.map_or(1, |op| op.tries.saturating_add(1));
        let doublings = before.map_or(0, |op| op.doublings.saturating_add(1));
        let mut after = |delay: Duration| {
            let delay = jitter.apply(delay, config.jitter());
            pass.now.checked_add(delay.max(Config::MIN_INTERVAL))
        };
        let (retry_at, latest_retry_at, doublings) = match before {
            // A hint caused this try before the delay had passed.
            Some(op) if op.retry_at > pass.since => (op.retry_at, op.latest_retry_at, op.doublings),
            _ => {
                let retry_at = after(delay(doublings, config));
                // Delays are at most some days, so they stay within the clock's range.
                let (Some(retry_at), Some(latest)) = (retry_at, after(config.backoff().1)) else {
                    return;
                };
                (retry_at, latest.max(retry_at), doublings)
            }
        };
        self.forget(key);
        let waits = !class.is_retryable();
        let due_at = if waits { latest_retry_at } else { retry_at };
        let op = FailedOp {
            class,
            tries,
            doublings,
            retry_at,
            latest_retry_at,
            due_at,
            is_freed: false,
        };
        self.failed.insert(key, op);
        self.queue.insert((due_at, key));
        if waits {
            self.waiting.insert(key);
        }
    }

    fn forget(&mut self, key: OpKey) {
        if let Some(op) = self.failed.remove(&key) {
            self.queue.remove(&(op.due_at, key));
            self.waiting.remove(&key);
        }
    }

    /// Sets the time at which an op is tried, whatever hints come.
    fn put_off(&mut self, key: OpKey, at: Instant) {
        if let Some(op) = self.failed.get_mut(&key) {
            self.queue.remove(&(op.due_at, key));
            self.waiting.remove(&key);
            op.due_at = at;
            self.queue.insert((at, key));
        }
    }
}

/// The number of ops that a dirty pass tries again at most, so that it does not delay others.
const MAX_DUE: usize = 64;

/// Returns the delay after `doublings` further failures.
fn delay(doublings: u32, config: &Config) -> Duration {
    let (first, last) = config.backoff();
    let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(last)
}

/// A pass that is done.
pub(crate) struct DonePass<'a> {
    /// The time at which it began.
    pub(crate) since: Instant,
    pub(crate) now: Instant,
    /// How long the next pass waits if this one has achieved nothing.
    pub(crate) rest: Duration,
    /// `None` if it could not run.
    pub(crate) summary: Option<&'a PassSummary>,
    pub(crate) is_full: bool,
}

/// Returns true if only time frees an op of this class.
fn needs_time(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Busy | ErrorClass::Unknown)
}

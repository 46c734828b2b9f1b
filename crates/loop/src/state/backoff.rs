//! Backoff: how long an op that failed is not tried again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trueup_reconcile::{ErrorClass, OpKey, Outcome};

use super::jitter::Jitter;
use crate::pass_summary::MAX_TRACKED;
use crate::stats::is_failure;
use crate::{Config, PassSummary};

/// The ops that failed, by their objects, with the time of the next try.
///
/// An op is tried again after its delay, which doubles with each failure. The class of the error
/// adds to that:
///
/// - `busy`, `unknown`, `conflict`: not sooner than the delay. (While the foreign object of a
///   conflict exists, a pass finds it and names no op.)
/// - `dependency`: also in any pass that answers a hint, because the object that is missing may
///   exist now.
/// - a permanent class: once a hint says that the system has changed. No hint says it of all that
///   matters, such as a foreign rule that catches a gateway: so after the longest delay as well.
///
/// A new desired state frees all but `busy` and `unknown`, and forgets their failures. A change of
/// the desired state frees them until they are tried again, whichever object it is about, and
/// forgets nothing; it counts as a hint. The cost of a change does not depend on their number.
/// A failure doubles the delay only if the delay had passed: hints do not lengthen it.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    failed: BTreeMap<OpKey, FailedOp>,
    /// Counts the passes that answer hints.
    hint_passes: u64,
    /// Counts the passes over a changed desired state.
    change_passes: u64,
    /// True while the running pass answers a hint.
    answers_hint: bool,
    /// The earliest retry that needs no hint.
    next: Option<Instant>,
    /// True if `next` has to be computed again.
    next_is_stale: bool,
    /// True if an op waits for a hint.
    waits_for_hint: bool,
}

#[derive(Clone, Copy, Debug)]
struct FailedOp {
    class: ErrorClass,
    /// How often the delay was doubled.
    doublings: u32,
    /// When its delay has passed.
    retry_at: Instant,
    /// When the longest delay has passed.
    latest_retry_at: Instant,
    /// [`Backoff::hint_passes`] when it was tried last.
    hint_passes: u64,
    /// [`Backoff::change_passes`] when it was tried last.
    change_passes: u64,
}

impl Backoff {
    /// Takes note that the next pass has a new desired state.
    pub(super) fn desired_replaced(&mut self) {
        self.failed.retain(|_, op| needs_time(op.class));
        self.next_is_stale = true;
    }

    /// Takes note that the next pass has a changed desired state.
    pub(super) fn desired_changed(&mut self) {
        self.change_passes += 1;
    }

    /// Takes note that a pass begins.
    pub(super) fn pass_begins(&mut self, answers_hint: bool) {
        self.answers_hint = answers_hint;
        self.hint_passes += u64::from(answers_hint);
        self.next_is_stale |= answers_hint && self.waits_for_hint;
    }

    /// Returns for how long from `now` the op on an object is not to be tried, or `None` if it may
    /// be tried.
    pub(super) fn remaining(&self, now: Instant, key: OpKey) -> Option<Duration> {
        let op = self.failed.get(&key)?;
        let is_freed = self.answers_hint && op.class == ErrorClass::Dependency;
        if is_freed || self.change_passes > op.change_passes && !needs_time(op.class) {
            return None;
        }
        let left = self.retry_at(op).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Takes the outcomes of a pass.
    pub(super) fn pass_done(&mut self, pass: &DonePass<'_>, config: &Config, jitter: &mut Jitter) {
        self.next_is_stale |= pass.is_full;
        if let Some(summary) = pass.summary {
            if pass.is_full && !summary.truncated {
                // It reported every op: an op that it does not name is not needed any more.
                self.failed
                    .retain(|key, _| summary.objects.contains_key(key));
            }
            for (&key, &outcome) in &summary.objects {
                match outcome {
                    Outcome::Pending => continue,
                    Outcome::Failed(class) if is_failure(outcome) => {
                        self.add_failure(key, class, pass, config, jitter);
                    }
                    Outcome::Applied | Outcome::Failed(_) => drop(self.failed.remove(&key)),
                }
                self.next_is_stale = true;
            }
        }
        self.answers_hint = false;
        if self.next_is_stale {
            self.find_next(pass.last_full);
        }
    }

    /// Returns when the next retry is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn is_tracked(&self, key: OpKey) -> bool {
        self.failed.contains_key(&key)
    }

    pub(super) fn len(&self) -> usize {
        self.failed.len()
    }

    /// Returns everything that later decisions depend on, as numbers; `rel` converts an instant.
    #[cfg(test)]
    pub(super) fn fingerprint(
        &self,
        rel: impl Fn(Option<Instant>) -> u8,
        since: Instant,
        last_full: Option<Instant>,
    ) -> Vec<u8> {
        let mut all = [self.answers_hint, self.next_is_stale, self.waits_for_hint]
            .map(u8::from)
            .to_vec();
        for op in self.failed.values() {
            all.extend([
                rel(Some(op.retry_at)),
                rel(Some(op.latest_retry_at)),
                op.doublings.min(2) as u8,
            ]);
            let flags = [
                self.hint_passes > op.hint_passes,
                self.change_passes > op.change_passes,
                op.retry_at > since,
                last_full.is_none_or(|last| op.retry_at > last),
                last_full.is_none_or(|last| op.latest_retry_at > last),
            ];
            all.extend(flags.map(u8::from));
        }
        all
    }

    fn add_failure(
        &mut self,
        key: OpKey,
        class: ErrorClass,
        pass: &DonePass<'_>,
        config: &Config,
        jitter: &mut Jitter,
    ) {
        let is_full = self.failed.len() == MAX_TRACKED;
        let doublings = match self.failed.get_mut(&key) {
            // A hint had it tried before its delay had passed.
            Some(op) if op.retry_at > pass.since => {
                op.class = class;
                (op.hint_passes, op.change_passes) = (self.hint_passes, self.change_passes);
                return;
            }
            Some(op) => op.doublings.saturating_add(1),
            None if is_full => return,
            None => 0,
        };
        let (first, last) = config.backoff();
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        let mut after = |delay: Duration| {
            let delay = jitter.apply(delay, config.jitter());
            pass.now.checked_add(delay.max(Config::MIN_INTERVAL))
        };
        // Delays are at most some days, so the clock's range does not end within them.
        let (Some(retry_at), Some(latest)) =
            (after(first.saturating_mul(factor).min(last)), after(last))
        else {
            return;
        };
        let op = FailedOp {
            class,
            doublings,
            retry_at,
            latest_retry_at: latest.max(retry_at),
            hint_passes: self.hint_passes,
            change_passes: self.change_passes,
        };
        self.failed.insert(key, op);
    }

    /// Returns when an op may be tried without a further hint.
    fn retry_at(&self, op: &FailedOp) -> Instant {
        match op.class.is_retryable() || self.hint_passes > op.hint_passes {
            true => op.retry_at,
            false => op.latest_retry_at,
        }
    }

    /// Computes the next retry. An op that could be tried when the last full pass began is left
    /// out: that pass did not try it for another reason than its delay.
    fn find_next(&mut self, last_full: Option<Instant>) {
        let due = self.failed.values().map(|op| self.retry_at(op));
        let next = due.filter(|&at| last_full.is_none_or(|last| at > last));
        self.next = next.min();
        let waits = |op: &FailedOp| !op.class.is_retryable() && self.hint_passes == op.hint_passes;
        self.next_is_stale = false;
        self.waits_for_hint = self.failed.values().any(waits);
    }
}

/// A pass that is done.
pub(super) struct DonePass<'a> {
    /// When it began.
    pub(super) since: Instant,
    pub(super) now: Instant,
    /// When the last full pass began: this one or an earlier one.
    pub(super) last_full: Option<Instant>,
    /// `None` if it could not run.
    pub(super) summary: Option<&'a PassSummary>,
    pub(super) is_full: bool,
}

/// Returns true if only time frees an op of this class.
fn needs_time(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Busy | ErrorClass::Unknown)
}

//! Which ops are left alone for a time because they failed. Not how many may be tried: see the budget.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use trueup_reconcile::{ErrorClass, OpKey, Outcome};

use super::random::Random;
use crate::passed::fails;
use crate::{Config, Passed};

/// More than that are not kept track of: they are tried in every pass.
pub(crate) const MOST: usize = 65_536;

/// What failed, and when it may be tried again.
///
/// By class:
///
/// - `busy`, `unknown`: after its distance, and for nothing else sooner.
/// - `conflict`: after its distance. While the foreign object is there a pass finds it, and names no op; whether a hint tells that it
///   went does not matter.
/// - `dependency`: after its distance, or in any pass that answers a hint, as what it rests on may have come.
/// - the permanent ones: after its distance, but only once a hint says that the world has changed. Without a subscription, which
///   would say so, at the greatest distance.
///
/// Another desired state frees all but `busy` and `unknown`, and forgets how often they failed. A change of the desired state frees
/// them until they are tried again, whichever object it is about, and forgets nothing; it is a hint, too. That costs the same
/// however many there are. A failure raises the distance only if the op was tried when its distance had passed: events do not
/// raise it.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    held: BTreeMap<OpKey, Held>,
    /// Counts the passes that answer hints.
    heard: u64,
    /// Counts the passes over a desired state that was changed.
    changed: u64,
    /// The running pass answers a hint.
    answering: bool,
    subscribed: bool,
    /// The earliest retry that time alone brings about.
    next: Option<Instant>,
    /// It is to be found anew.
    stale: bool,
    /// A hint would bring it nearer.
    waiting: bool,
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
    /// Of [`Backoff::changed`], likewise.
    changed: u64,
}

impl Backoff {
    /// The next pass is over another desired state.
    pub(super) fn replaced(&mut self) {
        self.held.retain(|_, held| is_timed(held.class));
        self.stale = true;
    }

    /// The next pass is over a desired state that was changed.
    pub(super) fn changed(&mut self) {
        self.changed += 1;
    }

    /// A pass begins; `answering`: for a hint.
    pub(super) fn begin(&mut self, answering: bool) {
        self.answering = answering;
        self.heard += u64::from(answering);
        self.stale |= answering && self.waiting;
    }

    pub(super) fn set_subscribed(&mut self, subscribed: bool, since: Option<Instant>) {
        self.subscribed = subscribed;
        self.find_next(since);
    }

    /// For how long from now an op is not to be tried, if it is not.
    pub(super) fn held(&self, now: Instant, key: OpKey) -> Option<Duration> {
        let held = self.held.get(&key)?;
        let is_freed = self.answering && held.class == ErrorClass::Dependency;
        if is_freed || self.changed > held.changed && !is_timed(held.class) {
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
        self.stale |= pass.whole;
        if let Some(passed) = pass.passed {
            if pass.whole && !passed.cut {
                // It told of all that there is to do: what it does not name is no longer to be done.
                self.held.retain(|key, _| passed.objects.contains_key(key));
            }
            for (&key, &outcome) in &passed.objects {
                match outcome {
                    Outcome::Pending => continue,
                    Outcome::Failed(class) if fails(outcome) => {
                        self.failed(key, class, pass, config, random);
                    }
                    Outcome::Applied | Outcome::Failed(_) => drop(self.held.remove(&key)),
                }
                self.stale = true;
            }
        }
        self.answering = false;
        if self.stale {
            self.find_next(pass.last_whole);
        }
    }

    /// When the next retry is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    pub(super) fn is_tracked(&self, key: OpKey) -> bool {
        self.held.contains_key(&key)
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
        let mut all = [self.answering, self.stale, self.waiting]
            .map(u8::from)
            .to_vec();
        for held in self.held.values() {
            all.extend([
                rel(Some(held.at)),
                rel(Some(held.late)),
                held.level.min(2) as u8,
            ]);
            let flags = [
                self.heard > held.heard,
                self.changed > held.changed,
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
                held.class = class;
                (held.heard, held.changed) = (self.heard, self.changed);
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
            changed: self.changed,
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
        let next = due.filter(|&at| last_whole.is_none_or(|last| at > last));
        self.next = next.min();
        let waits = |held: &Held| !held.class.is_retryable() && self.heard == held.heard;
        self.stale = false;
        self.waiting = self.held.values().any(waits);
    }
}

/// A pass that is over.
pub(super) struct Over<'a> {
    /// When it began.
    pub(super) since: Instant,
    pub(super) now: Instant,
    /// When the last whole pass began; that may be this one.
    pub(super) last_whole: Option<Instant>,
    /// None: it could not run.
    pub(super) passed: Option<&'a Passed>,
    pub(super) whole: bool,
}

/// Only time frees it.
fn is_timed(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Busy | ErrorClass::Unknown)
}

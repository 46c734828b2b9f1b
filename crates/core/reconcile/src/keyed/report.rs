//! The report of a pass: ops with their outcomes, conflicts, and findings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::backend::Change;
use super::source::PUT_OFF;
use crate::{
    Condition, EventCoverage, Failure, OpKey, Outcome, Pending, Report as Reported, ReportedOp,
    Status,
};

/// The result of a pass. It has exactly one outcome for each op.
///
/// To print what a pass did and left:
///
/// ```
/// use trueup_reconcile::keyed::Report;
///
/// fn print(report: &Report<String, u8>) {
///     report.ops().iter().for_each(|op| println!("{op}"));
///     report.conflicts().iter().for_each(|conflict| println!("{conflict}"));
///     report.trouble().iter().for_each(|why| println!("{why}"));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Report<K, V> {
    pub(super) kind: &'static str,
    pub(super) converged: bool,
    pub(super) is_whole: bool,
    pub(super) ops: Vec<Op<K, V>>,
    pub(super) conflicts: Vec<Conflict<K, V>>,
    pub(super) findings: Vec<Finding<K, V>>,
    pub(super) trouble: Vec<String>,
    pub(super) observed: usize,
    /// The statuses that have changed since the last pass.
    pub(super) statuses: Vec<(OpKey, Option<Arc<Status>>)>,
    pub(super) coverage: EventCoverage,
}

/// A change with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Op<K, V> {
    /// The change of one object.
    pub change: Change<K, V>,
    /// Applied, failed, or pending with the reason.
    pub outcome: Outcome<Failure, Pending<Wait>>,
}

/// A reason of this source's own why an op was not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Another writer undoes the change repeatedly. The next try comes after this time.
    Contended(Duration),
}

/// Another writer's object on a declared key. It stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conflict<K, V> {
    /// The key that both have.
    pub key: K,
    /// The declared value.
    pub desired: V,
    /// The other writer's value.
    pub foreign: V,
}

/// A finding about a key that has no op.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding<K, V> {
    /// The object was ours, and another writer has changed it. It is no longer ours, and stays.
    Left {
        /// The key, which keeps the other writer's value.
        key: K,
        /// The value that we had applied.
        applied: V,
        /// The value that was read.
        found: V,
    },
}

impl<K, V> Report<K, V> {
    /// Returns every op of the pass, in its order: deletes, updates, creates.
    pub fn ops(&self) -> &[Op<K, V>] {
        &self.ops
    }

    /// Returns the ops that were applied.
    pub fn applied(&self) -> impl Iterator<Item = &Op<K, V>> {
        self.ops.iter().filter(|op| op.outcome.is_applied())
    }

    /// Returns the ops that failed, with the reason.
    pub fn failed(&self) -> impl Iterator<Item = (&Op<K, V>, &Failure)> {
        self.ops.iter().filter_map(|op| Some((op, op.outcome.failure()?)))
    }

    /// Returns the ops that were not tried, with the reason.
    pub fn pending(&self) -> impl Iterator<Item = (&Op<K, V>, &Pending<Wait>)> {
        self.ops.iter().filter_map(|op| Some((op, op.outcome.pending()?)))
    }

    /// Returns other writers' objects on declared keys, among the keys that the pass looked at.
    pub fn conflicts(&self) -> &[Conflict<K, V>] {
        &self.conflicts
    }

    /// Returns the findings about keys without an op.
    pub fn findings(&self) -> &[Finding<K, V>] {
        &self.findings
    }

    /// Returns the problems of the whole pass: an incomplete observation, a ledger that could not
    /// be written, a pass that could not read back its changes, a subscription that has ended.
    pub fn trouble(&self) -> &[String] {
        &self.trouble
    }

    /// Returns the number of keys that the pass looked at.
    pub fn observed(&self) -> usize {
        self.observed
    }

    /// Returns the kind of all objects: [`Backend::KIND`](super::Backend::KIND).
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    fn waits(&self) -> impl Iterator<Item = Duration> {
        self.ops.iter().filter_map(|op| match op.outcome {
            Outcome::Pending(Pending::Own(Wait::Contended(left))) => Some(left),
            _ => None,
        })
    }
}

impl<K: fmt::Display, V> Reported for Report<K, V> {
    fn converged(&self) -> bool {
        self.converged
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        for op in &self.ops {
            let outcome = op.outcome.classified(|failure| failure.class);
            let key = || op_key(self.kind, op.change.key());
            visit(ReportedOp::new(self.kind, outcome, &key));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        for (key, status) in &self.statuses {
            visit(*key, status.as_ref());
        }
    }

    fn is_truncated(&self) -> bool {
        self.pending().any(|(_, pending)| *pending == Pending::Cut)
    }

    fn is_seen_whole(&self) -> bool {
        self.is_whole
    }

    fn requeue_after(&self) -> Option<Duration> {
        self.waits().min()
    }

    fn coverage(&self) -> EventCoverage {
        self.coverage
    }

    fn contended(&self) -> usize {
        self.waits().count()
    }
}

impl<K, V> Op<K, V> {
    /// Returns the condition of the op's object; `None` if the op was applied. It contains no
    /// times, so that it is the same in each pass.
    pub(super) fn condition(&self) -> Option<Condition> {
        Some(match &self.outcome {
            Outcome::Applied => return None,
            Outcome::Failed(failure) | Outcome::Declined(failure) => failure.condition(),
            Outcome::Pending(Pending::Own(Wait::Contended(_))) => {
                Condition::Contended { why: "another writer undoes it repeatedly".to_owned() }
            }
            Outcome::Pending(Pending::Backoff(_)) => Condition::Pending { why: PUT_OFF.to_owned() },
            Outcome::Pending(pending) => Condition::Pending { why: pending.to_string() },
        })
    }
}

/// Formats the op as `update gain (it has another value): applied`.
impl<K: fmt::Display, V> fmt::Display for Op<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (action, reason) = (self.change.action(), self.change.reason());
        write!(f, "{action} {} ({reason}): {}", self.change.key(), self.outcome)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait::Contended(left) = self;
        let seconds = left.as_millis().div_ceil(1000);
        write!(f, "another writer undoes it repeatedly; the next try is in {seconds} s")
    }
}

impl<K, V: Serialize> Conflict<K, V> {
    /// Returns the other writer's value as JSON, cut to 200 characters.
    pub fn foreign_text(&self) -> String {
        value_text(&self.foreign)
    }
}

/// Formats the conflict as `gain: 9 is another writer's, 3 is declared`.
impl<K: fmt::Display, V: Serialize> fmt::Display for Conflict<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (foreign, desired) = (value_text(&self.foreign), value_text(&self.desired));
        write!(f, "{}: {foreign} is another writer's, {desired} is declared", self.key)
    }
}

impl<K: fmt::Display, V: Serialize> fmt::Display for Finding<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding::Left { key, applied, found } = self;
        let (applied, found) = (value_text(applied), value_text(found));
        write!(f, "{key}: another writer changed {applied} to {found}, and it stays")
    }
}

/// The number of characters of a value in text.
const MAX_TEXT: usize = 200;

/// Returns a value as JSON, cut to a line's length.
pub(super) fn value_text(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string(value).unwrap_or_default();
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns an object's key for a driver: a digest of its kind and its name.
pub(super) fn op_key(kind: &str, key: &impl fmt::Display) -> OpKey {
    let mut digest = Digest::new();
    digest.add(kind.as_bytes());
    digest.add(&[0]);
    // The digest takes any text.
    let _ = fmt::Write::write_fmt(&mut digest, format_args!("{key}"));
    // The largest number is the whole scope's.
    OpKey(digest.0.min(u64::MAX - 1))
}

/// Returns a digest of a value; 0 without one. It does not depend on the order of a map's entries.
/// Returns `None` if the value cannot be written as JSON.
pub(super) fn digest(value: Option<&impl Serialize>) -> Option<u64> {
    let Some(value) = value else { return Some(0) };
    let mut digest = Digest::new();
    // A `Value` has its entries in order.
    digest.add(&serde_json::to_vec(&serde_json::to_value(value).ok()?).ok()?);
    Some(digest.0)
}

/// FNV-1a: the same in each process.
struct Digest(u64);

impl Digest {
    fn new() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

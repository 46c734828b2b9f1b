//! The statuses of objects: their number and their changes, as text and as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use trueup_loop::ObjectStatus;
use trueup_reconcile::{Condition, ErrorClass, Status};

/// The number of objects that are not in place, by condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusCounts {
    pub failed: usize,
    pub pending: usize,
    pub conflict: usize,
    pub contended: usize,
    pub stored_otherwise: usize,
}

impl StatusCounts {
    /// Adds up a loop's counts, which are by kind and condition.
    pub fn of(counts: &BTreeMap<(&'static str, &'static str), usize>) -> StatusCounts {
        let mut sum = StatusCounts::default();
        for ((_, condition), number) in counts {
            *match *condition {
                "failed" => &mut sum.failed,
                "pending" => &mut sum.pending,
                "conflict" => &mut sum.conflict,
                "contended" => &mut sum.contended,
                "stored_otherwise" => &mut sum.stored_otherwise,
                _ => continue,
            } += number;
        }
        sum
    }

    /// Returns each count that is not 0, such as `3 failed`.
    pub fn words(self) -> Vec<String> {
        let StatusCounts { failed, pending, conflict, contended, stored_otherwise } = self;
        let all = [
            (failed, format!("{failed} failed")),
            (pending, format!("{pending} pending")),
            (conflict, count(conflict, "conflict", "conflicts")),
            (contended, format!("{contended} contended")),
            (stored_otherwise, format!("{stored_otherwise} stored otherwise")),
        ];
        all.into_iter().filter(|(number, _)| *number > 0).map(|(_, words)| words).collect()
    }
}

/// A status, with the loop's data about its object. The view shows the same.
#[derive(Clone, Debug)]
pub struct StatusEntry {
    pub status: Arc<Status>,
    /// The time when the object got a status.
    pub since: SystemTime,
    /// The number of failures since the object's op last succeeded.
    pub tries: u32,
    /// The latest time of the op's next try. `None` if it waits for something else.
    pub next_try: Option<SystemTime>,
}

impl From<ObjectStatus> for StatusEntry {
    fn from(of: ObjectStatus) -> StatusEntry {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let next_try = of.next_try.map(|at| wall + at.saturating_duration_since(now));
        StatusEntry { status: of.status, since: of.since, tries: of.tries, next_try }
    }
}

/// The changes of statuses since the last report.
#[derive(Clone, Debug, Default)]
pub struct StatusChanges {
    /// The new and the changed statuses.
    changed: Vec<StatusEntry>,
    /// The former statuses of objects that no longer have one.
    cleared: Vec<Arc<Status>>,
    /// True if `changed` has all current statuses, because the changes are not known.
    is_snapshot: bool,
}

impl StatusChanges {
    /// Returns these changes, sorted by object.
    pub fn new(mut changed: Vec<StatusEntry>, mut cleared: Vec<Arc<Status>>) -> Self {
        changed.sort_by(|one, other| id(&one.status).cmp(&id(&other.status)));
        cleared.sort_by(|one, other| id(one).cmp(&id(other)));
        StatusChanges { changed, cleared, is_snapshot: false }
    }

    /// Returns all current statuses, in place of unknown changes.
    pub fn snapshot(all: Vec<StatusEntry>) -> Self {
        StatusChanges { changed: all, cleared: Vec::new(), is_snapshot: true }
    }

    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.cleared.is_empty() && !self.is_snapshot
    }

    /// Returns a line for each change.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let many =
            "! too many objects changed at once to name each: all that are not in place follow";
        let many = self.is_snapshot.then(|| many.to_owned());
        let changed = self.changed.iter().map(|entry| status_text(&entry.status));
        let cleared = self.cleared.iter().map(|status| {
            let Status { kind, object, condition, .. } = &**status;
            format!("= {kind} {object}   (no longer {condition})")
        });
        many.into_iter().chain(changed).chain(cleared)
    }

    /// Returns the new and changed statuses, as JSON.
    pub fn changed(&self) -> impl Iterator<Item = EntryRecord<'_>> {
        self.changed.iter().map(|entry| EntryRecord {
            of: StatusRecord::new(&entry.status),
            since: seconds(entry.since),
            tries: entry.tries,
            next_try: entry.next_try.map(seconds),
        })
    }

    /// Returns the former statuses of objects that no longer have one, as JSON.
    pub fn cleared(&self) -> impl Iterator<Item = StatusRecord<'_>> {
        self.cleared.iter().map(|status| StatusRecord::new(status))
    }

    /// Returns true if [`changed`](Self::changed) has all current statuses.
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }
}

fn id(status: &Status) -> (&str, &str) {
    (status.kind, &status.object)
}

/// Returns a status as the line that `watch` prints: `! KIND OBJECT   (CONDITION)`.
pub fn status_text(status: &Status) -> String {
    let Status { kind, object, condition, .. } = status;
    format!("! {kind} {object}   ({condition})")
}

/// A status as JSON: the kind, the object, the condition and its cause.
#[derive(Serialize)]
pub struct StatusRecord<'a> {
    kind: &'static str,
    object: &'a str,
    condition: &'static str,
    #[serde(flatten)]
    cause: Cause<'a>,
}

/// A status as JSON, with the loop's data about its object.
#[derive(Serialize)]
pub struct EntryRecord<'a> {
    #[serde(flatten)]
    of: StatusRecord<'a>,
    since: f64,
    tries: u32,
    next_try: Option<f64>,
}

/// The details of a condition.
#[derive(Serialize)]
#[serde(untagged)]
enum Cause<'a> {
    Failed { class: ErrorClass, errno: Option<i32>, message: &'a str },
    Reason { reason: &'a str },
    Conflict { foreign: &'a str },
    StoredOtherwise { stored: Option<&'a str> },
}

impl StatusRecord<'_> {
    fn new(status: &Status) -> StatusRecord<'_> {
        let cause = match &status.condition {
            Condition::Failed { class, errno, message } => {
                Cause::Failed { class: *class, errno: *errno, message }
            }
            Condition::Pending { why } | Condition::Contended { why } => {
                Cause::Reason { reason: why }
            }
            Condition::Conflict { foreign } => Cause::Conflict { foreign },
            Condition::StoredOtherwise { stored } => {
                Cause::StoredOtherwise { stored: stored.as_deref() }
            }
            // The type is open to further conditions, and has none so far.
            _ => Cause::Reason { reason: "" },
        };
        StatusRecord {
            kind: status.kind,
            object: &status.object,
            condition: status.condition.name(),
            cause,
        }
    }
}

/// Returns a number with its noun, which is `one` for 1 and `many` for others.
///
/// ```
/// use trueup_agent::text::count;
///
/// assert_eq!(count(1, "route", "routes"), "1 route");
/// assert_eq!(count(0, "route", "routes"), "0 routes");
/// ```
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns the seconds since 1970, rounded to milliseconds. 0 for an earlier time.
pub fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn status(object: &str, condition: Condition) -> Arc<Status> {
        Arc::new(Status::new("route", object, condition))
    }

    fn entry(object: &str, condition: Condition) -> StatusEntry {
        StatusEntry {
            status: status(object, condition),
            since: UNIX_EPOCH + Duration::from_millis(1_700_000_000_250),
            tries: 3,
            next_try: Some(UNIX_EPOCH + Duration::from_millis(1_700_000_060_500)),
        }
    }

    fn changes() -> StatusChanges {
        let failed = Condition::Failed {
            class: ErrorClass::Dependency,
            errno: Some(101),
            message: "Network is unreachable (ENETUNREACH)".to_owned(),
        };
        let foreign = "10.1.0.0/16 via 10.9.0.1".to_owned();
        let conflict = Condition::Conflict { foreign };
        let why = "the pass ended before its turn".to_owned();
        StatusChanges::new(
            vec![entry("10.2.0.0/16", failed), entry("10.1.0.0/16", conflict)],
            vec![status("10.3.0.0/16", Condition::Pending { why })],
        )
    }

    fn text(changes: &StatusChanges) -> String {
        changes.lines().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn each_change_is_a_line_in_the_order_of_the_objects() {
        assert_eq!(
            text(&changes()),
            "! route 10.1.0.0/16   (conflict: foreign 10.1.0.0/16 via 10.9.0.1)\n\
             ! route 10.2.0.0/16   (failed: Network is unreachable (ENETUNREACH) (dependency))\n\
             = route 10.3.0.0/16   (no longer pending: the pass ended before its turn)\n"
        );
        let not = entry("10.4.0.0/16", Condition::StoredOtherwise { stored: None });
        let not = text(&StatusChanges::new(vec![not], Vec::new()));
        assert!(not.contains("10.4.0.0/16   (not stored)"), "{not}");
        assert!(text(&StatusChanges::snapshot(Vec::new())).starts_with("! too many"));
        assert!(StatusChanges::default().is_empty());
    }

    #[test]
    fn a_status_in_json_has_what_is_known_of_its_condition() {
        let changes = changes();
        let changed: Vec<_> =
            changes.changed().map(|it| serde_json::to_value(it).unwrap()).collect();
        assert_eq!(changed[0]["foreign"], "10.1.0.0/16 via 10.9.0.1");
        assert_eq!(
            changed[1],
            json!({
                "kind": "route",
                "object": "10.2.0.0/16",
                "condition": "failed",
                "class": "dependency",
                "errno": 101,
                "message": "Network is unreachable (ENETUNREACH)",
                "since": 1_700_000_000.25,
                "tries": 3,
                "next_try": 1_700_000_060.5,
            })
        );
        let cleared: Vec<_> =
            changes.cleared().map(|it| serde_json::to_value(it).unwrap()).collect();
        assert_eq!(cleared[0]["reason"], "the pass ended before its turn");
    }

    #[test]
    fn counts_are_over_all_kinds() {
        let counts = [
            (("route", "failed"), 2),
            (("rule", "failed"), 1),
            (("route", "conflict"), 1),
            (("link", "contended"), 0),
        ];
        let counts = StatusCounts::of(&counts.into());
        assert_eq!(counts.words(), ["3 failed", "1 conflict"]);
    }
}

//! Repeats a dump until it is known to be complete, up to a limit.

use trueup_net::{Kind, ObjectKind};
use trueup_netlink::codec::Consistency;
use trueup_netlink::{Error, Socket};

use crate::completeness::{Incomplete, ReadResult};
use crate::dump_guard::{DumpGuard, is_announced};
use crate::observer::{AlternateSockets, Observer};

/// The number of attempts. The first and the last use the kernel's own parts, the others the
/// [`AlternateSockets`].
const ATTEMPTS: usize = AlternateSockets::COUNT + 2;

impl Observer {
    /// Repeats `read` until its result is consistent, and returns the rows in key order. If no
    /// attempt is consistent, returns the rows of all attempts (for each key the last ones seen)
    /// and the reason.
    pub(crate) fn read_until_consistent<T: ObjectKind + PartialEq>(
        &mut self,
        kind: Kind,
        consistency: Consistency,
        mut read: impl FnMut(
            &mut Socket,
            &mut DumpGuard<'_>,
            &mut Vec<T>,
        ) -> Result<(Option<Incomplete>, bool), Error>,
    ) -> ReadResult<T> {
        let mut seen: Vec<T> = Vec::new();
        let mut reason = Incomplete::Changing(kind);
        let mut undisturbed = false;
        if is_announced(consistency) && !self.listener.is_open() {
            let mut rows = Vec::new();
            let mut guard = DumpGuard::new(&mut self.listener, consistency);
            let (flaw, is_whole) = read(&mut self.socket, &mut guard, &mut rows)?;
            if guard.is_broken_off {
                self.replace_socket()?;
            } else {
                let repeated = sort(&mut rows);
                // Listening does not help with an unreadable row.
                if flaw.is_some() || is_whole && !repeated {
                    return Ok((rows, flaw));
                }
            }
            self.listener.open()?;
        }
        for attempt in 0..ATTEMPTS {
            let mut rows = Vec::new();
            let mut guard = DumpGuard::new(&mut self.listener, consistency);
            let alternate = match attempt {
                // No writer interferes now: a dump in the kernel's own parts suffices.
                _ if undisturbed => None,
                0 => None,
                _ => self.alternate_sockets.get(attempt - 1, &self.socket),
            };
            // A dump in small parts may have skipped a row that was too large for a part. Rules and
            // neighbours never are.
            let proves = alternate.is_none() || !matches!(consistency, Consistency::Routes { .. });
            let socket = alternate.unwrap_or(&mut self.socket);
            let (flaw, is_whole) = read(socket, &mut guard, &mut rows)?;
            undisturbed = is_whole;
            let repeated = sort(&mut rows);
            if flaw.is_some() {
                merge_rows(&mut seen, rows);
                return Ok((seen, flaw));
            }
            let same_again = consistency == Consistency::Unannounced && attempt > 0 && seen == rows;
            if !repeated && (is_whole && proves || same_again) {
                return Ok((rows, None));
            }
            reason = if repeated && is_whole {
                Incomplete::Repeated(kind)
            } else {
                Incomplete::Changing(kind)
            };
            merge_rows(&mut seen, rows);
        }
        Ok((seen, Some(reason)))
    }
}

/// Sorts rows by key and removes repetitions. Returns true if there were any.
fn sort<T: ObjectKind + PartialEq>(rows: &mut Vec<T>) -> bool {
    if !rows.is_sorted_by(|a, b| a.key() <= b.key()) {
        rows.sort_by_cached_key(ObjectKind::key);
    }
    remove_repeated(rows)
}

/// Removes the repetitions among rows in key order. Returns true if there were any.
fn remove_repeated<T: ObjectKind + PartialEq>(rows: &mut Vec<T>) -> bool {
    let mut keys = rows.iter().map(ObjectKind::key);
    let mut last = keys.next();
    // Usually no two rows have the same key, and no row is moved.
    if !keys.any(|key| last.replace(key) == last) {
        return false;
    }
    let before = rows.len();
    let all = std::mem::take(rows);
    let mut same_key = 0;
    for row in all {
        if rows.get(same_key).is_some_and(|first| first.key() != row.key()) {
            same_key = rows.len();
        }
        if !rows.iter().skip(same_key).any(|earlier| *earlier == row) {
            rows.push(row);
        }
    }
    before != rows.len()
}

/// Merges rows into those seen before, both in key order. New rows replace old ones with the same
/// key.
fn merge_rows<T: ObjectKind>(seen: &mut Vec<T>, rows: Vec<T>) {
    let mut old = std::mem::take(seen).into_iter().peekable();
    for row in rows {
        let key = row.key();
        while let Some(earlier) = old.next_if(|old| old.key() <= key) {
            if earlier.key() != key {
                seen.push(earlier);
            }
        }
        seen.push(row);
    }
    seen.extend(old);
}

#[cfg(test)]
mod tests;

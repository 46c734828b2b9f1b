//! A namespace's whole content at one moment, in a form that can be compared. Tests use it to prove
//! that objects were not touched.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::message::{Kind, RawMessage};
use crate::settled::{is_routed, is_state_announced, is_tentative, is_undetected, is_up};
use crate::stable::stable;
use crate::topology::{ip, wait_until};
use crate::wire::{raw_dump, raw_dump_proxies};

/// The links, addresses, neighbours (with proxies), nexthops, routes and rules of the calling
/// thread's namespace, both families, reduced to configuration by [`stable`](crate::stable()) and
/// sorted. Rows are a multiset: the order of a dump has no meaning. It shares no code with the
/// snapshot of `trueup-observe`, which it judges.
///
/// ```no_run
/// use trueup_testkit::{Snapshot, ip};
///
/// let before = Snapshot::settled();
/// ip(&["route", "add", "blackhole", "10.2.0.0/16"]);
/// let diff = before.diff(&Snapshot::settled());
/// assert!(diff.lines().any(|line| line.starts_with('+')));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    rows: Vec<RawMessage>,
}

const INET: u8 = 2;
const INET6: u8 = 10;

impl Snapshot {
    /// Reads the namespace now. Nothing may write meanwhile.
    pub fn take() -> Self {
        let mut rows = Vec::new();
        for kind in Kind::ALL {
            let families: &[u8] = match kind {
                Kind::Link | Kind::Nexthop => &[0],
                _ => &[INET, INET6],
            };
            for &family in families {
                rows.extend(raw_dump(kind, family).iter().filter_map(stable));
                if kind == Kind::Neighbour {
                    rows.extend(raw_dump_proxies(family).iter().filter_map(stable));
                }
            }
        }
        rows.sort();
        Self { rows }
    }

    /// Does the same as [`take`](Self::take), once the kernel has finished its work: no address is
    /// under duplicate address detection, and two readings 50 ms apart are equal. The carrier of
    /// each up link has been announced. Addresses without duplicate address detection have their
    /// local routes; if one is missing for two seconds, that is taken as intended. Use it after
    /// links came up, as all the consequences run on work queues.
    ///
    /// # Panics
    ///
    /// If the namespace does not settle within a minute.
    pub fn settled() -> Self {
        let mut last = None;
        let meant = Instant::now() + Duration::from_secs(2);
        wait_until("the namespace holds still", || {
            let links = raw_dump(Kind::Link, 0);
            let mut unannounced =
                links.iter().filter(|link| is_up(link) && !is_state_announced(link));
            let all_announced = unannounced.next().is_none_or(|link| {
                // A request for the link makes the kernel update it.
                ip(&["link", "show", "dev", &link.ifname().unwrap_or_default()]);
                false
            });
            let up = links.iter().filter(|link| is_up(link));
            let ready: BTreeSet<u32> = up.map(RawMessage::device).collect();
            let addresses = raw_dump(Kind::Address, INET6);
            let routes = raw_dump(Kind::Route, INET6);
            let is_over = all_announced
                && !addresses.iter().any(|row| {
                    is_undetected(row) && ready.contains(&row.device()) && !is_routed(row, &routes)
                });
            let now = Self::take();
            let agree = last.as_ref() == Some(&now);
            last = Some(now);
            agree && !addresses.iter().any(is_tentative) && (is_over || meant < Instant::now())
        });
        last.expect("read at least once")
    }

    /// Returns all rows, sorted.
    pub fn into_rows(self) -> Vec<RawMessage> {
        self.rows
    }

    /// Returns the rows of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &RawMessage> {
        self.rows.iter().filter(move |row| row.kind == kind)
    }

    /// Returns the routes with this protocol; trueup's own is 116.
    pub fn routes_with_protocol(&self, protocol: u8) -> Vec<&RawMessage> {
        self.of(Kind::Route).filter(|row| row.protocol() == Some(protocol)).collect()
    }

    /// Returns the index of the link with this name at the time of the snapshot.
    pub fn index_of(&self, name: &str) -> Option<u32> {
        self.of(Kind::Link)
            .find(|row| row.ifname().as_deref() == Some(name))
            .map(RawMessage::device)
    }

    /// Keeps only the rows for which the predicate returns true.
    #[must_use]
    pub fn only(mut self, keep: impl FnMut(&RawMessage) -> bool) -> Self {
        self.rows.retain(keep);
        self
    }

    /// Removes the rows with this marker (see [`RawMessage::protocol`]). The rest is foreign, or
    /// has no marker.
    #[must_use]
    pub fn without_protocol(self, protocol: u8) -> Self {
        self.only(|row| row.protocol() != Some(protocol))
    }

    /// Removes these devices and everything on them, except multipath routes and rules, which name
    /// no device.
    #[must_use]
    pub fn without_devices(self, names: &[&str]) -> Self {
        let gone: Vec<_> = names.iter().filter_map(|name| self.index_of(name)).collect();
        self.only(|row| !gone.contains(&row.device()))
    }

    /// Returns the differences, one row a line: `-` is gone, `+` is new. A changed row is both,
    /// except a link, whose line has `~` and the changed fields. Empty if equal.
    pub fn diff(&self, after: &Self) -> String {
        let (old, mut new) = self.unmatched(after);
        let mut out = String::new();
        for row in old {
            let _infallible = match new.iter().position(|other| {
                row.kind == Kind::Link && other.kind == row.kind && other.device() == row.device()
            }) {
                Some(at) => writeln!(out, "~ {}", changed(row, new.remove(at))),
                None => writeln!(out, "- {row}"),
            };
        }
        for row in new {
            let _infallible = writeln!(out, "+ {row}");
        }
        out
    }

    /// Returns the rows on each side that the other lacks.
    fn unmatched<'a>(&'a self, other: &'a Self) -> (Vec<&'a RawMessage>, Vec<&'a RawMessage>) {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let (mut left, mut right) = (self.rows.iter().peekable(), other.rows.iter().peekable());
        loop {
            match (left.peek(), right.peek()) {
                (Some(a), Some(b)) if a == b => {
                    left.next();
                    right.next();
                }
                (Some(a), Some(b)) if a > b => theirs.extend(right.next()),
                (Some(_), _) => ours.extend(left.next()),
                (None, Some(_)) => theirs.extend(right.next()),
                (None, None) => return (ours, theirs),
            }
        }
    }

    /// Fails unless both hold the same rows, byte for byte.
    ///
    /// # Panics
    ///
    /// If they differ: with the [`diff`](Self::diff).
    #[track_caller]
    pub fn assert_same(&self, after: &Self) {
        let diff = self.diff(after);
        assert!(diff.is_empty(), "the namespace changed:\n{diff}");
    }
}

/// Describes a changed link: its index, and its name and other fields if they differ.
fn changed(old: &RawMessage, new: &RawMessage) -> String {
    let only = |link: &RawMessage, other: &RawMessage| {
        let mut link = link.clone();
        link.attrs.retain(|number, payload| other.attrs.get(number) != Some(payload));
        link
    };
    format!("{}: {} -> {}", old.ifname().unwrap_or_default(), only(old, new), only(new, old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_reported_row_by_row_and_counts_repeats() {
        let rule =
            |table: u8| RawMessage::parse(32, &[2, 0, 0, 0, table, 0, 0, 1, 0, 0, 0, 0]).unwrap();
        let snapshot = |tables: &[u8]| Snapshot { rows: tables.iter().map(|t| rule(*t)).collect() };
        let marks = |a: &[u8], b: &[u8]| -> String {
            let diff = snapshot(a).diff(&snapshot(b));
            diff.lines().map(|line| &line[..1]).collect()
        };
        assert_eq!(marks(&[1, 2], &[1, 2]), "");
        assert_eq!(marks(&[1, 3], &[1, 2]), "-+");
        assert_eq!(marks(&[1, 1], &[1]), "-");
        assert_eq!(marks(&[], &[1, 1]), "++");
    }
}

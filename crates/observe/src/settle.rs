//! A dump, read until there are grounds to call it whole, within a bound.

use trueup_diff::{Item, Kind};
use trueup_netlink::{Error, Namespace, Socket};

use crate::observer::Observer;
use crate::read::Flaw;
use crate::snapshot::Incomplete;
use crate::witness::{Sight, Window};

/// How often a dump is read.
const ATTEMPTS: usize = 5;

/// The sizes of the parts in the attempts between the first and the last, in bytes; in those the kernel chooses, about 32
/// KiB. Rows are lost at the borders of parts, so that others are lost each time.
const PARTS: [usize; ATTEMPTS - 2] = [20 * 1024, 28 * 1024, 12 * 1024];

/// Sockets whose dumps have other parts, opened when first needed.
#[derive(Debug)]
pub(crate) struct Others {
    namespace: Namespace,
    sockets: [Option<Socket>; PARTS.len()],
}

impl Others {
    pub(crate) fn new(namespace: Namespace) -> Others {
        Others {
            namespace,
            sockets: Default::default(),
        }
    }

    /// One of them, if it is to be had, and in the very namespace of `like`.
    fn socket(&mut self, at: usize, like: &Socket) -> Option<&mut Socket> {
        let slot = self.sockets.get_mut(at)?;
        if slot.is_none() {
            let mut socket = Socket::open_with_parts(&self.namespace, *PARTS.get(at)?).ok()?;
            if socket.netns_cookie().ok()? != like.netns_cookie().ok()? {
                return None;
            }
            socket.set_timeout(like.timeout());
            *slot = Some(socket);
        }
        slot.as_mut()
    }
}

impl Observer {
    /// Reads by `read` until nothing speaks against the result, which is in key order. If there is no end of it: all that was
    /// seen, of each key what was seen last, and why it is in doubt.
    pub(crate) fn settle<T: Item + PartialEq>(
        &mut self,
        kind: Kind,
        sight: Sight,
        sort: impl Fn(&mut Vec<T>),
        mut read: impl FnMut(
            &mut Socket,
            &mut Window<'_>,
            &mut Vec<T>,
        ) -> Result<(Option<Flaw>, bool), Error>,
    ) -> Result<(Vec<T>, Option<Incomplete>), Error> {
        let mut seen: Vec<T> = Vec::new();
        let mut doubt = Incomplete::Changing(kind);
        let mut quiet = false;
        for attempt in 0..ATTEMPTS {
            let mut rows = Vec::new();
            let mut window = Window::new(&mut self.witness, sight);
            let other = match attempt {
                // It is quiet now: a dump in the kernel's own parts will do.
                _ if quiet => None,
                0 => None,
                _ => self.others.socket(attempt - 1, &self.socket),
            };
            // Of a dump in small parts nobody knows whether a row was too large for it. Rules and neighbours never are.
            let proves = other.is_none() || !matches!(sight, Sight::Routes(..));
            let (flaw, whole) = read(other.unwrap_or(&mut self.socket), &mut window, &mut rows)?;
            quiet = whole;
            sort(&mut rows);
            let repeated = drop_repeated(&mut rows);
            if let Some(flaw) = flaw {
                unite(&mut seen, rows);
                return Ok((seen, Some(flaw.doubt(kind))));
            }
            let again = sight == Sight::Proxies && attempt > 0 && seen == rows;
            if !repeated && (whole && proves || again) {
                return Ok((rows, None));
            }
            doubt = if repeated && whole {
                Incomplete::Repeated(kind)
            } else {
                Incomplete::Changing(kind)
            };
            unite(&mut seen, rows);
        }
        Ok((seen, Some(doubt)))
    }
}

/// Takes out rows that came before, among rows in key order; whether there were any.
fn drop_repeated<T: Item + PartialEq>(rows: &mut Vec<T>) -> bool {
    let mut keys = rows.iter().map(Item::key);
    let mut last = keys.next();
    let is_same = |key: T::Key| {
        let same = last.as_ref() == Some(&key);
        last = Some(key);
        same
    };
    // As a rule there are no two of a key, and nothing to move.
    if !keys.any(is_same) {
        return false;
    }
    let before = rows.len();
    let all = std::mem::take(rows);
    let mut same_key = 0;
    for row in all {
        if rows
            .get(same_key)
            .is_some_and(|first| first.key() != row.key())
        {
            same_key = rows.len();
        }
        if !rows.iter().skip(same_key).any(|earlier| *earlier == row) {
            rows.push(row);
        }
    }
    before != rows.len()
}

/// Adds rows to those seen before, both in key order: of one key what was seen last.
fn unite<T: Item>(seen: &mut Vec<T>, rows: Vec<T>) {
    let mut old = std::mem::take(seen).into_iter().peekable();
    for row in rows {
        let key = row.key();
        while let Some(gone) = old.next_if(|old| old.key() <= key) {
            if gone.key() != key {
                seen.push(gone);
            }
        }
        seen.push(row);
    }
    seen.extend(old);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of one key, with a value.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Row(u32, u32);

    impl Item for Row {
        type Key = u32;

        fn key(&self) -> u32 {
            self.0
        }

        fn compare(&self, _: &Row, _: &mut dyn FnMut(trueup_diff::Difference)) {}
    }

    #[test]
    fn of_one_key_what_was_seen_last_counts() {
        let mut seen = Vec::new();
        unite(&mut seen, vec![Row(1, 1), Row(3, 1), Row(3, 2), Row(5, 1)]);
        unite(&mut seen, vec![Row(2, 2), Row(3, 3), Row(5, 2), Row(5, 3)]);
        let all = [Row(1, 1), Row(2, 2), Row(3, 3), Row(5, 2), Row(5, 3)];
        assert_eq!(seen, all);
        unite(&mut seen, Vec::new());
        assert_eq!(seen, all);
    }

    #[test]
    fn a_row_that_comes_again_among_others_of_its_key_is_seen() {
        let mut rows = vec![Row(1, 1), Row(2, 1), Row(2, 2)];
        assert!(!drop_repeated(&mut rows));
        let once = rows.clone();
        rows.extend([Row(2, 1), Row(2, 3)]);
        assert!(drop_repeated(&mut rows));
        assert_eq!(rows, [once, vec![Row(2, 3)]].concat());
    }
}

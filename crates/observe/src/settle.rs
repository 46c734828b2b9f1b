//! A dump, read until there are grounds to call it whole, within a bound.

use trueup_diff::{Item, Kind};
use trueup_netlink::{Error, Namespace, Socket};

use crate::read::Flaw;
use crate::snapshot::Doubt;
use crate::witness::{Sight, Window, Witness};

/// How often a dump is read.
const ATTEMPTS: usize = 5;

/// The sizes of the parts in the attempts between the first and the last, in bytes; in those the kernel chooses, about 32
/// KiB. Rows are lost at the borders of parts, so that others are lost each time.
const PARTS: [usize; ATTEMPTS - 2] = [20 * 1024, 28 * 1024, 12 * 1024];

/// What is read with.
pub(crate) struct Eyes<'a> {
    pub(crate) socket: &'a mut Socket,
    pub(crate) witness: Option<&'a mut Witness>,
    pub(crate) others: Option<&'a mut Others>,
}

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

impl<'a> Eyes<'a> {
    /// Without a witness: a row that comes twice is all that speaks against a dump.
    pub(crate) fn alone(socket: &'a mut Socket) -> Eyes<'a> {
        Eyes {
            socket,
            witness: None,
            others: None,
        }
    }

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
    ) -> Result<(Vec<T>, Option<Doubt>), Error> {
        let mut seen: Vec<T> = Vec::new();
        let mut doubt = Doubt::Changing(kind);
        let mut quiet = false;
        for attempt in 0..ATTEMPTS {
            let mut rows = Vec::new();
            let mut window = Window::new(self.witness.as_deref_mut(), sight);
            let other = match (attempt, &mut self.others) {
                (0, _) | (_, None) => None,
                // It is quiet now: a dump in the kernel's own parts will do.
                _ if quiet => None,
                (_, Some(others)) => others.socket(attempt - 1, self.socket),
            };
            // Of a dump in small parts nobody knows whether a row was too large for it. Rules and neighbours never are.
            let proves = other.is_none() || !matches!(sight, Sight::Routes(..));
            let (flaw, whole) = read(other.unwrap_or(self.socket), &mut window, &mut rows)?;
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
                Doubt::Repeated(kind)
            } else {
                Doubt::Changing(kind)
            };
            unite(&mut seen, rows);
        }
        Ok((seen, Some(doubt)))
    }
}

/// Takes out rows that came before, among rows in key order; whether there were any.
fn drop_repeated<T: Item + PartialEq>(rows: &mut Vec<T>) -> bool {
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

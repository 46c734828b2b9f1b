//! [`DumpGuard`]: finds out if a dump is complete.
//!
//! The kernel never flags an interrupted dump of routes, rules or neighbours. It makes a dump in
//! parts, each in one moment: under the table's lock (`fib6_dump_table` in net/ipv6/ip6_fib.c), or
//! walking data kept stable by RCU (`fib_table_dump` in net/ipv4/fib_trie.c, `dump_rules` in
//! net/core/fib_rules.c, `neigh_dump_table` in net/core/neighbour.c). Between two parts it keeps a
//! cursor. A change before the cursor moves it: rows are skipped, or repeated. So a dump is
//! complete
//!
//! - if it came in one part, or
//! - if no change from its start to its end moved the cursor.
//!
//! The cursor is a count: of rules, of neighbours in a bucket, of prefixes in an IPv6 tree. In an
//! IPv4 table it is a destination and a count among the routes to it. So only changes of routes to
//! the destinations at the border of two parts move it.
//!
//! A guard without a listener breaks off a dump that would come in several parts.
//!
//! A guard does not show if the rows are still current.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use trueup_net::Family;
use trueup_netlink::codec::{Consistency, RowPosition, address};
use trueup_netlink::{Error, Socket};

use crate::listener::{ChangeListener, Event, barrier};

/// A part of this many bytes or more may be full: the next row, which is no larger than the rest,
/// did not fit.
const FULL: usize = 16 * 1024;
/// The sizes in bytes of full parts, less a row, if the kernel cannot allocate 32 KiB in one piece
/// (`NLMSG_GOODSIZE` with pages of 4 KiB, and of more).
const SMALL: [std::ops::RangeInclusive<usize>; 2] = [2_700..=3_776, 6_800..=7_872];

/// Returns true if the kernel announces the changes that disturb a dump, so a listener helps.
pub(crate) fn is_announced(consistency: Consistency) -> bool {
    !matches!(consistency, Consistency::Flagged | Consistency::Unannounced)
}

/// Watches one dump, from start to end.
pub(crate) struct DumpGuard<'a> {
    /// `None` if no event concerns the dump, or while there is no listener.
    listener: Option<&'a mut ChangeListener>,
    /// True if the dump was broken off at the end of its first part.
    pub(crate) is_broken_off: bool,
    consistency: Consistency,
    /// True if a change may have moved the cursor.
    disturbed: bool,
    /// The number of parts that had rows.
    parts: usize,
    /// True if every part was smaller than a full one.
    is_short: bool,
    /// The first and the last row of the current part. An inner `None` is an unknown position.
    part: Option<(Option<RowPosition>, Option<RowPosition>)>,
    /// The last row of the previous part.
    last: Option<RowPosition>,
    /// The tables that the dump has completed.
    passed: BTreeSet<u32>,
    /// The IPv4 routes changed in the last three drains. The kernel makes a part while we take the
    /// one before. So an event heard now belongs to the border just passed, to the next, or, if it
    /// was announced late, to the one before.
    recent: [Vec<RowPosition>; 3],
    /// The last of these: the kernel may not have made the change yet.
    latest: Option<RowPosition>,
    error: Option<Error>,
}

impl<'a> DumpGuard<'a> {
    pub(crate) fn new(listener: &'a mut ChangeListener, consistency: Consistency) -> DumpGuard<'a> {
        let listens = is_announced(consistency) && listener.is_open();
        DumpGuard {
            listener: listens.then_some(listener),
            is_broken_off: false,
            consistency,
            disturbed: false,
            parts: 0,
            is_short: true,
            part: None,
            last: None,
            passed: BTreeSet::new(),
            recent: Default::default(),
            latest: None,
            error: None,
        }
    }

    /// Discards the events up to now. Call it before the dump is requested.
    pub(crate) fn open(&mut self, socket: &mut Socket) -> Result<(), Error> {
        let Some(listener) = &mut self.listener else {
            return Ok(());
        };
        let _lost = listener.drain(|_| {})?;
        if matches!(self.consistency, Consistency::Routes { .. }) && listener.has_pending {
            // Changes made before we took the lock count.
            barrier(socket);
            listener.has_pending = false;
        }
        Ok(())
    }

    /// Begins an attempt of the dump.
    pub(crate) fn begin(&mut self) {
        self.disturbed = false;
        self.parts = 0;
        self.is_short = true;
        self.part = None;
        self.last = None;
        self.passed.clear();
        self.recent = Default::default();
        self.latest = None;
        self.drain_events();
    }

    /// Records a row.
    pub(crate) fn row(&mut self, position: Option<RowPosition>) {
        let before = self.part.map_or(self.last, |(_, last)| last);
        if let (Some((before, _)), Some((table, _))) = (before, position)
            && before != table
        {
            self.passed.insert(before);
        }
        match &mut self.part {
            Some((_, last)) => *last = position,
            None => self.part = Some((position, position)),
        }
    }

    /// Ends a part of `length` bytes. Breaks the dump off if the part shows that completeness
    /// cannot be proven.
    pub(crate) fn part(&mut self, length: usize) -> ControlFlow<()> {
        let small = SMALL.iter().any(|small| small.contains(&length));
        self.is_short &= length < FULL && !small;
        self.drain_events();
        self.end_part();
        self.is_broken_off =
            !self.is_short && self.listener.is_none() && is_announced(self.consistency);
        if self.is_broken_off { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Ends the dump, and returns true if it is known to be complete.
    pub(crate) fn end(&mut self, socket: &mut Socket) -> Result<bool, Error> {
        self.end_part();
        if self.parts <= 1 && self.is_short || self.consistency == Consistency::Flagged {
            self.error.take().map_or(Ok(true), Err)
        } else if self.consistency == Consistency::Unannounced {
            Ok(false)
        } else {
            if self.listener.is_none() {
                return Ok(false);
            }
            if !self.disturbed {
                // A writer announces a change a little later, but before it releases the lock.
                barrier(socket);
            }
            self.drain_events();
            let last = self.last;
            self.check_border(last, None);
            self.error.take().map_or(Ok(!self.disturbed), Err)
        }
    }

    /// Reads the events since the last call.
    fn drain_events(&mut self) {
        let Some(listener) = &mut self.listener else {
            return;
        };
        self.recent.rotate_left(1);
        let [.., now] = &mut self.recent;
        now.clear();
        now.extend(self.latest);
        let (consistency, disturbed) = (self.consistency, &mut self.disturbed);
        let drained = listener.drain(|event| {
            *disturbed |= match (consistency, event) {
                (_, Event::Other) => false,
                (_, Event::Unknown) => true,
                (
                    Consistency::Events { family, moved_by },
                    Event::Object { message_type, family: of },
                ) => family == of && moved_by.contains(&message_type),
                (
                    Consistency::Routes { family: Family::Inet, table: only },
                    Event::Route4 { table, dst },
                ) => {
                    if only.is_none_or(|only| only == table) {
                        now.push((table, dst));
                    }
                    false
                }
                (
                    Consistency::Routes { family: Family::Inet6, table: only },
                    Event::Route6 { table },
                ) => only.is_none_or(|only| only == table),
                // The kernel may silently remove routes with an address.
                (
                    Consistency::Routes { family, .. },
                    Event::Object { message_type, family: of },
                ) => family == of && message_type == address::DELETE,
                (Consistency::Routes { .. }, Event::RemovesRoutes) => true,
                _ => false,
            };
        });
        self.latest = now.last().copied();
        match drained {
            Ok(is_whole) => *disturbed |= !is_whole,
            Err(error) => {
                *disturbed = true;
                self.error.get_or_insert(error);
            }
        }
    }

    /// Ends the current part.
    fn end_part(&mut self) {
        let Some((first, last)) = self.part.take() else {
            return;
        };
        self.parts += 1;
        if self.parts > 1 {
            let before = self.last;
            // A first row of unknown position may be anywhere in the rest of the dump.
            self.check_border(before, first);
        }
        self.last = last;
    }

    /// Records any change between the last row of a part and the first row of the next, or the end.
    fn check_border(&mut self, last: Option<RowPosition>, first: Option<RowPosition>) {
        let passed = &self.passed;
        self.disturbed |= self.recent.iter().flatten().any(|&(table, dst)| match (last, first) {
            (Some((before, _)), _) if table != before && passed.contains(&table) => false,
            (Some((before, from)), Some((after, to))) if before == after => {
                table == before && (from..=to).contains(&dst)
            }
            (last, first) => {
                last.is_none_or(|(before, from)| table != before || dst >= from)
                    && first.is_none_or(|(after, to)| table != after || dst <= to)
            }
        });
    }
}

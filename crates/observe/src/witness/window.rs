//! One dump, from its begin to its end, and whether anybody moved its place meanwhile.

use std::collections::BTreeSet;

use trueup_diff::Family;
use trueup_netlink::codec::link;
use trueup_netlink::codec::route::Row;
use trueup_netlink::{Error, Socket};

use super::event::Event;
use super::{Sight, Witness};

/// Where in a dump of IPv4 routes a row is: tables come one after the other, and in each the destinations ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) table: u32,
    pub(crate) dst: u32,
}

impl Place {
    /// That of a route; `None` for one of IPv6, which is counted.
    pub(crate) fn of(row: &Row<'_>) -> Option<Place> {
        (row.family() == Family::Inet).then(|| Place {
            table: row.table(),
            dst: row.address() as u32,
        })
    }
}

/// A part of this many bytes and more may be full: the next row, which is not larger than the rest, did not fit.
const FULL: usize = 16 * 1024;
/// The kernel's parts where it has no 32 KiB in one piece to spare (`NLMSG_GOODSIZE` with pages of 4 KiB and of more), less
/// a row.
const SMALL: [std::ops::RangeInclusive<usize>; 2] = [2_700..=3_776, 6_800..=7_872];

/// Watches over one dump; asked for by [`Window::begin`], then told of all that comes.
pub(crate) struct Window<'a> {
    /// Where there is anything to hear.
    witness: Option<&'a mut Witness>,
    sight: Sight,
    /// Something happened that may have moved the place.
    disturbed: bool,
    /// The parts that had rows.
    parts: usize,
    /// Whether all there is came in the first of them, as far as its size tells.
    whole: bool,
    /// The first and the last row of the part at hand; `None` within: nobody knows where.
    part: Option<(Option<Place>, Option<Place>)>,
    /// The last row of the part before.
    last: Option<Place>,
    /// The tables that are behind.
    passed: BTreeSet<u32>,
    /// What happened to IPv4 routes in the last three looks. The kernel makes a part as the one before is taken: what is heard
    /// now belongs to the border just passed, to the next, or, told late, to the one before.
    recent: [Vec<Place>; 3],
    /// The last of that: it may not have happened yet.
    latest: Option<Place>,
    error: Option<Error>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(witness: &'a mut Witness, sight: Sight) -> Window<'a> {
        let told = !matches!(sight, Sight::Flagged | Sight::Proxies);
        Window {
            witness: told.then_some(witness),
            sight,
            disturbed: false,
            parts: 0,
            whole: true,
            part: None,
            last: None,
            passed: BTreeSet::new(),
            recent: Default::default(),
            latest: None,
            error: None,
        }
    }

    /// Before anything is asked for: what was heard by now does not count.
    pub(crate) fn open(&mut self, socket: &mut Socket) -> Result<(), Error> {
        let Some(witness) = &mut self.witness else {
            return Ok(());
        };
        let _lost = witness.hear(|_| {})?;
        if matches!(self.sight, Sight::Routes(..)) && witness.ahead {
            // What happens until the lock was had counts.
            barrier(socket);
            witness.ahead = false;
        }
        Ok(())
    }

    /// The dump begins.
    pub(crate) fn begin(&mut self) {
        self.disturbed = false;
        self.parts = 0;
        self.whole = true;
        self.part = None;
        self.last = None;
        self.passed.clear();
        self.recent = Default::default();
        self.latest = None;
        self.look();
    }

    /// A row came.
    pub(crate) fn row(&mut self, place: Option<Place>) {
        let before = self.part.map_or(self.last, |(_, last)| last);
        if let (Some(before), Some(place)) = (before, place)
            && before.table != place.table
        {
            self.passed.insert(before.table);
        }
        match &mut self.part {
            Some((_, last)) => *last = place,
            None => self.part = Some((place, place)),
        }
    }

    /// A part ended.
    pub(crate) fn part(&mut self, length: usize) {
        let small = SMALL.iter().any(|small| small.contains(&length));
        self.whole &= length < FULL && !small;
        self.look();
        self.border();
    }

    /// The dump ended. Whether it is whole, as far as this can tell.
    pub(crate) fn end(&mut self, socket: &mut Socket) -> Result<bool, Error> {
        self.border();
        if self.parts <= 1 && self.whole || self.sight == Sight::Flagged {
            self.error.take().map_or(Ok(true), Err)
        } else if self.sight == Sight::Proxies {
            Ok(false)
        } else {
            if !self.disturbed && self.witness.is_some() {
                // Who changes something tells it a little later, and before he gives up the lock.
                barrier(socket);
            }
            self.look();
            let last = self.last;
            self.cross(last, None);
            self.error.take().map_or(Ok(!self.disturbed), Err)
        }
    }

    /// Hears what happened since the last look.
    fn look(&mut self) {
        let Some(witness) = &mut self.witness else {
            return;
        };
        self.recent.rotate_left(1);
        let [.., now] = &mut self.recent;
        now.clear();
        now.extend(self.latest);
        let (sight, disturbed) = (self.sight, &mut self.disturbed);
        let heard = witness.hear(|event| match (sight, event) {
            (_, Event::Other) => {}
            (Sight::Routes(Family::Inet, of), Event::Route4 { table, dst })
                if of.is_none_or(|of| of == table) =>
            {
                now.push(Place { table, dst });
            }
            (Sight::Routes(Family::Inet6, of), Event::Route6 { table }) => {
                *disturbed |= of.is_none_or(|of| of == table);
            }
            (Sight::Rules(family), Event::Rule(of)) => *disturbed |= family == of,
            (Sight::Neighbours(family), Event::NeighbourGone(of)) => *disturbed |= family == of,
            (Sight::Routes(family, _), Event::AddressGone(of)) => *disturbed |= family == of,
            (Sight::Routes(..), Event::Taker) | (_, Event::Unknown) => *disturbed = true,
            _ => {}
        });
        self.latest = now.last().copied();
        match heard {
            Ok(whole) => *disturbed |= !whole,
            Err(error) => {
                *disturbed = true;
                self.error.get_or_insert(error);
            }
        }
    }

    /// The part at hand is over.
    fn border(&mut self) {
        let Some((first, last)) = self.part.take() else {
            return;
        };
        self.parts += 1;
        if self.parts > 1 {
            let before = self.last;
            // A first row that cannot be placed may be anywhere, and that is all of the rest.
            self.cross(before, first);
        }
        self.last = last;
    }

    /// Whether anything happened between the last row of a part and the first of the next, or the end.
    fn cross(&mut self, last: Option<Place>, first: Option<Place>) {
        let passed = &self.passed;
        let between = |place: &Place| match (last, first) {
            (Some(last), _) if place.table != last.table && passed.contains(&place.table) => false,
            (Some(last), Some(first)) if last.table == first.table => {
                place.table == last.table && (last.dst..=first.dst).contains(&place.dst)
            }
            (last, first) => {
                last.is_none_or(|last| place.table != last.table || place.dst >= last.dst)
                    && first
                        .is_none_or(|first| place.table != first.table || place.dst <= first.dst)
            }
        };
        self.disturbed |= self.recent.iter().flatten().any(between);
    }
}

/// Waits until whoever is about to change something has told it: a request that takes the lock that nearly all changes are
/// made under (`rtnl_getlink` in net/core/rtnetlink.c).
pub(crate) fn barrier(socket: &mut Socket) {
    let mut request = Vec::new();
    let asked = "lo"
        .parse()
        .map(|lo| link::request_by_name(&mut request, &lo));
    // Whatever the answer is, the lock was had.
    if let Ok(Ok(())) = asked {
        let _answer = socket.query(&request, |_| ());
    }
}

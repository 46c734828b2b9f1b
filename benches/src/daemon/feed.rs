//! A feed in the shape of the internet's: bursts, most of them small and a few large. Many are
//! about the same few prefixes again and again; the others are about neighbours in the table, as
//! one network announces them. Some are withdrawals.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use trueup_net::Prefix;
use trueup_works::internet::Numbers;

use super::table::{Table, next};
use crate::listener::Heard;

/// The most prefixes in one message.
const MESSAGE: usize = 50;
/// One prefix in this number changes again and again.
const UNSTABLE: usize = 100;
/// The sizes of bursts (at least, below), with their shares in percent.
const BURSTS: [(usize, usize, u32); 4] = [(1, 5, 60), (5, 50, 25), (50, 500, 12), (500, 5_000, 3)];
/// The percentage of bursts about unstable prefixes.
const OF_UNSTABLE: u32 = 70;
/// The percentage of announced prefixes that are withdrawn when they change.
const WITHDRAWN: u32 = 15;
/// The upper limit of the pause after a burst, in milliseconds.
const PAUSE_MS: u32 = 1_000;

/// A change at a place in the table: the new gateway, or `None` for a withdrawal.
pub(super) type Change = (usize, Option<u8>);

/// A source of changes, the same each time.
pub(super) struct Feed {
    numbers: Numbers,
    all: Vec<usize>,
    unstable: Vec<usize>,
    /// The current gateways of the changed places.
    now: HashMap<usize, Option<u8>>,
}

impl Feed {
    /// Makes a feed about the routes of a table with one gateway that are in place.
    pub(super) fn new(table: &Table) -> Feed {
        let all: Vec<usize> =
            table.in_place(false).filter(|at| !table.form(*at).is_multipath).collect();
        let unstable = all.iter().copied().step_by(UNSTABLE).collect();
        Feed { numbers: Numbers(179), unstable, all, now: HashMap::new() }
    }

    /// Returns the messages of the next burst, and the pause after it.
    pub(super) fn burst(&mut self, table: &Table) -> (Vec<Vec<Change>>, Duration) {
        let size = self.size();
        let is_of_unstable = self.numbers.below(100) < OF_UNSTABLE;
        let places: Vec<usize> = if is_of_unstable {
            (0..size).map(|_| self.unstable_place()).collect()
        } else {
            let first = self.below(self.all.len());
            let neighbours = self.all.iter().cycle().skip(first);
            neighbours.take(size.min(self.all.len())).copied().collect()
        };
        let changes: Vec<Change> =
            places.into_iter().map(|at| (at, self.change(table, at))).collect();
        let messages = changes.chunks(MESSAGE).map(<[Change]>::to_vec).collect();
        let pause = Duration::from_millis(self.numbers.below(PAUSE_MS).into());
        (messages, pause)
    }

    fn size(&mut self) -> usize {
        let mut left = self.numbers.below(100);
        for (least, below, share) in BURSTS {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return least + self.below(below - least),
            }
        }
        1
    }

    /// Returns one of the unstable prefixes, most often one of the first.
    fn unstable_place(&mut self) -> usize {
        let count = self.unstable.len();
        let below = 1 + self.below(count);
        let at = self.below(below);
        self.unstable[at]
    }

    fn change(&mut self, table: &Table, at: usize) -> Option<u8> {
        let gateway = table.gateway(at);
        let now = self.now.get(&at).copied().unwrap_or(Some(gateway));
        let new = match now {
            None => Some(gateway),
            Some(_) if self.numbers.below(100) < WITHDRAWN => None,
            Some(gateway) => Some(next(gateway)),
        };
        self.now.insert(at, new);
        new
    }

    fn below(&mut self, below: usize) -> usize {
        self.numbers.below(below.try_into().unwrap_or(u32::MAX).max(1)) as usize
    }
}

/// A change handed in: its time, its prefix, and the new gateway.
pub(super) type Sent = (Instant, Prefix, Option<IpAddr>);

/// Returns the time of each change until its event, and the number of changes without one: a later
/// change of the prefix came first, or the event was lost.
pub(super) fn latencies(sent: &[Sent], heard: &[Heard]) -> (Vec<Duration>, usize) {
    let mut times = Vec::with_capacity(sent.len());
    let mut pending: HashMap<Prefix, (Instant, Option<IpAddr>)> = HashMap::new();
    let mut sent_left = sent.iter().peekable();
    for event in heard {
        while let Some((at, prefix, via)) = sent_left.next_if(|(at, ..)| *at <= event.at) {
            pending.insert(*prefix, (*at, *via));
        }
        if let Some((at, via)) = pending.get(&event.prefix)
            && *via == event.via
        {
            times.push(event.at.saturating_duration_since(*at));
            pending.remove(&event.prefix);
        }
    }
    let unheard = sent.len() - times.len();
    (times, unheard)
}

#[cfg(test)]
mod tests {
    use super::super::table::Fate;
    use super::*;
    use trueup_works::internet::Prefixes;

    #[test]
    fn a_feed_repeats_itself_on_few_prefixes_and_withdraws_some() {
        let table = Table::of_day(Prefixes::synthetic().thinned(20_000)).unwrap();
        let mut feed = Feed::new(&table);
        let mut counts: HashMap<usize, usize> = HashMap::new();
        let (mut changes, mut withdrawn) = (0, 0);
        for _ in 0..500 {
            let (messages, pause) = feed.burst(&table);
            assert!(pause < Duration::from_secs(1) && !messages.is_empty());
            for message in messages {
                assert!(!message.is_empty() && message.len() <= MESSAGE);
                for (at, gateway) in message {
                    assert!(table.fate(at) == Fate::InPlace && !table.is_heavy(at));
                    *counts.entry(at).or_default() += 1;
                    changes += 1;
                    withdrawn += usize::from(gateway.is_none());
                }
            }
        }
        assert!(changes > 10_000, "{changes}");
        assert!(withdrawn * 20 > changes && withdrawn * 5 < changes);
        let most = counts.values().max().copied().unwrap_or_default();
        assert!(most * counts.len() > 20 * changes, "{most} of {changes}");
    }

    #[test]
    fn a_change_ends_with_the_event_that_says_it() {
        let start = Instant::now();
        let prefix: Prefix = "11.0.0.0/24".parse().unwrap();
        let [one, two] = ["10.200.0.2", "10.200.0.3"].map(|it| it.parse().ok());
        let sent = [(0, one), (1, two), (9, None)]
            .map(|(ms, via)| (start + Duration::from_millis(ms), prefix, via));
        let heard = [(5, two), (7, two), (12, None)].map(|(ms, via)| Heard {
            at: start + Duration::from_millis(ms),
            prefix,
            via,
        });
        let (times, unheard) = latencies(&sent, &heard);
        assert_eq!(times, [4, 3].map(Duration::from_millis));
        assert_eq!(unheard, 1);
    }
}

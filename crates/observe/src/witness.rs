//! Who listens while a dump is read.
//!
//! The kernel never says of a dump of routes, rules or neighbours that it was interrupted. It makes a dump in parts, each at
//! one moment: under the table's lock (`fib6_dump_table` in net/ipv6/ip6_fib.c), or walking what RCU keeps whole
//! (`fib_table_dump` in net/ipv4/fib_trie.c, `dump_rules` in net/core/fib_rules.c, `neigh_dump_table` in
//! net/core/neighbour.c). Between two parts it keeps a place, and whoever changes what is before the place moves it: rows are
//! left out, or come again. So there are two grounds for a dump to be whole:
//!
//! - it came in one part;
//! - nobody changed, from its begin to its end, what moves the place.
//!
//! The place is a count of rules, of neighbours in a bucket, of prefixes in a tree of IPv6. In a table of IPv4 it is a
//! destination, and a count among the routes to that: only who changes routes to the destinations at the border of two parts
//! moves it.
//!
//! It does not tell whether what was read is still so.

mod event;
mod window;

use std::fmt;
use std::time::Duration;

use trueup_diff::Family;
use trueup_netlink::{Error, ErrorKind, Multicast, Namespace};

use crate::changes::{Change, ChangeLog};
use crate::events::listen;
use event::Event;
pub(crate) use window::{Place, Window, barrier};

/// How many reads one look makes at the most, each of up to 1,024 events.
const READS: usize = 64;

/// What a dump is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// What the kernel itself flags as interrupted.
    Flagged,
    /// Routes of a family, of one table or all.
    Routes(Family, Option<u32>),
    Rules(Family),
    Neighbours(Family),
    /// Proxy entries: nobody is told of them.
    Proxies,
}

/// Listens, unfiltered.
pub(crate) struct Witness {
    events: Multicast,
    /// Something was heard of that may not have happened yet: the kernel tells that it deletes an IPv4 route before it does
    /// (`fib_table_delete` in net/ipv4/fib_trie.c), and that a link goes down before it takes routes along. All of that is
    /// done under one lock (RTNL), so that only what was heard last is in question.
    ahead: bool,
    /// What is kept of all that is heard.
    log: Option<ChangeLog>,
}

impl Witness {
    pub(crate) fn open(namespace: &Namespace) -> Result<Witness, Error> {
        Ok(Witness {
            events: listen(namespace)?,
            ahead: true,
            log: None,
        })
    }

    /// Keeps what is heard from now on.
    pub(crate) fn record_changes(&mut self, most: usize) {
        self.log = None;
        let heard = self.hear(|_| {});
        self.log = Some(ChangeLog::new(most));
        self.check(heard);
    }

    /// What is heard from now on is later than one's own writes.
    pub(crate) fn written(&mut self) {
        if self.log.is_some() {
            let heard = self.hear(|_| {});
            self.check(heard);
        }
        if let Some(log) = &mut self.log {
            log.written();
        }
    }

    /// What was heard, if it is all there was.
    pub(crate) fn changes(&mut self) -> Option<Vec<Change>> {
        self.log.as_ref()?;
        let heard = self.hear(|_| {});
        self.check(heard);
        self.log.take()?.end()
    }

    /// Whether a look was at all there was to hear.
    fn check(&mut self, heard: Result<bool, Error>) {
        if let (Some(log), Ok(false) | Err(_)) = (&mut self.log, heard) {
            log.lose();
        }
    }

    pub(crate) fn netns_cookie(&self) -> Result<u64, Error> {
        self.events.netns_cookie()
    }

    /// Passes on all that was heard since the last time; whether nothing of it was lost.
    fn hear(&mut self, mut each: impl FnMut(Event)) -> Result<bool, Error> {
        const FULL: usize = 1024;
        let mut whole = true;
        let mut ahead = self.ahead;
        let mut each = |event| {
            ahead = true;
            each(event);
        };
        let mut heard = Ok(false);
        let log = &mut self.log;
        for _ in 0..READS {
            let read = self.events.receive(Duration::ZERO, |message| {
                if let Some(log) = log {
                    log.add(&message);
                }
                each(Event::read(&message));
            });
            heard = match read {
                // It takes no more at once: there may be more. Until the queue is empty, the kernel loses what comes without
                // saying so a second time.
                Ok(FULL..) => Ok(false),
                Ok(0) => Ok(true),
                Ok(_) => Ok(whole),
                Err(error) if error.is_loss() || error.kind() == ErrorKind::Malformed => {
                    if let Some(log) = log {
                        log.lose();
                    }
                    whole = false;
                    Ok(false)
                }
                Err(error) => Err(error),
            };
            if !matches!(heard, Ok(false)) {
                break;
            }
        }
        self.ahead = ahead || !whole;
        heard.map(|empty| empty && whole)
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

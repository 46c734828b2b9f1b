//! The scheduler: hosts offer themselves, and a leader chooses some of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::keys::check_part;
use crate::watch::{Content, Decoded};
use crate::world::{fence, write};
use crate::{Entry, Error, ErrorKind, Hash, Session, Watch, WatchConfig, World};

/// The rules for a leader's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The way to choose among the hosts that offer themselves.
    pub strategy: Strategy,
    /// The largest number of chosen hosts.
    pub count: usize,
    /// True if a chosen host stays chosen while it offers itself.
    pub sticky: bool,
}

/// The way in which a leader chooses hosts from the offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// The next hosts by name after the last chosen one. Without [sticky](Schedule::sticky), other
    /// hosts are chosen whenever the offers have changed.
    RoundRobin,
    /// The hosts with the greatest hash of scheduler and host (rendezvous hashing). When a host
    /// comes or goes, only that host's place in the choice changes.
    Rendezvous,
}

/// The chosen hosts. They stay until a leader chooses others, even while there is no leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    /// The chosen hosts, by name.
    hosts: BTreeSet<String>,
    /// The host that was chosen last.
    last: Option<String>,
    /// The hash of the offers behind this choice. `None` if the next choice does not depend on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offers: Option<Hash>,
}

impl Choice {
    /// Returns the choice among these hosts after this one. It is the same as long as the offers
    /// and the schedule are.
    fn next(&self, name: &str, schedule: Schedule, offers: &BTreeSet<String>) -> Choice {
        let takes_turns = schedule.strategy == Strategy::RoundRobin && !schedule.sticky;
        let hash = takes_turns.then(|| hash_of(offers));
        let count = schedule.count.min(offers.len());
        if takes_turns && self.offers == hash && self.hosts.len() == count {
            return self.clone();
        }
        let mut next = Choice { offers: hash, ..self.clone() };
        next.hosts.retain(|host| schedule.sticky && offers.contains(host));
        while next.hosts.len() > schedule.count {
            next.hosts.pop_last();
        }
        let mut free: Vec<&String> =
            offers.iter().filter(|host| !next.hosts.contains(*host)).collect();
        match schedule.strategy {
            Strategy::RoundRobin => {
                let last = self.last.as_ref();
                free.sort_by_key(|host| (last.is_some_and(|last| *host <= last), *host));
            }
            Strategy::Rendezvous => {
                free.sort_by_key(|host| {
                    let weight = Hash::of(format!("{name}\0{host}").as_bytes()).number();
                    std::cmp::Reverse((weight, *host))
                });
            }
        }
        for host in free.into_iter().take(schedule.count - next.hosts.len()) {
            next.hosts.insert(host.clone());
            next.last = Some(host.clone());
        }
        next
    }

    fn parse(entry: &Entry) -> Result<Choice, Error> {
        serde_json::from_slice(&entry.value).map_err(|error| {
            let message = format!("{}: is no choice: {error}", entry.key.escape_ascii());
            Error::new(ErrorKind::Malformed, message)
        })
    }
}

/// Returns the hash of some hosts' names, which have no NUL.
fn hash_of(hosts: &BTreeSet<String>) -> Hash {
    let hosts: Vec<&str> = hosts.iter().map(|it| &**it).collect();
    Hash::of(hosts.join("\0").as_bytes())
}

impl Session {
    /// Offers this host to a scheduler, while the session lives.
    ///
    /// # Errors
    ///
    /// The store's errors. If possible, the next renewal then makes the offer.
    pub fn offer(&self, scheduler: &str) -> Result<(), Error> {
        check_part("a scheduler", scheduler.as_bytes())?;
        self.set_offer(scheduler, true)
    }

    /// Withdraws this host's offer. A leader then chooses another host.
    ///
    /// # Errors
    ///
    /// The errors of [`offer`](Self::offer).
    pub fn withdraw(&self, scheduler: &str) -> Result<(), Error> {
        self.set_offer(scheduler, false)
    }

    /// Leads a scheduler if no other host does, and chooses from the hosts that offer themselves.
    /// Returns true if it wrote a new choice. Returns `None` if another host leads.
    /// [`schedule`](Self::schedule) calls this when it is due.
    ///
    /// If two hosts both believe that they lead, this does no harm. Only the host whose key is in
    /// the store can write a choice, and only on top of the one that it has read.
    pub fn lead(&self, scheduler: &str, schedule: Schedule) -> Result<Option<bool>, Error> {
        check_part("a scheduler", scheduler.as_bytes())?;
        let world = self.world();
        let leader = world.keys.shared("leaders", scheduler);
        let (lease, own) = (self.lease(), world.host().as_bytes().to_vec());
        let entry = world.entry(&leader)?;
        // A leader without a lease would lead for ever, even if it is dead.
        if entry.as_ref().is_some_and(|it| it.value != own && it.lease.is_some()) {
            return Ok(None);
        }
        let key = world.keys.shared("choices", scheduler);
        let before = world.entry(&key)?;
        // A malformed choice is replaced.
        let choice = before.as_ref().and_then(|it| Choice::parse(it).ok()).unwrap_or_default();
        let next = choice.next(scheduler, schedule, &world.offers(scheduler)?);
        let mut writes = Vec::new();
        if entry.as_ref().is_none_or(|it| it.lease != Some(lease)) {
            writes.push(write(&leader, Some(own), Some(lease)));
        }
        let is_same = before.is_some() && next == choice;
        if !is_same {
            let value = serde_json::to_vec(&next)
                .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
            writes.push(write(&key, Some(value), None));
        }
        if writes.is_empty() {
            return Ok(Some(false));
        }
        let compares = [self.fence(), fence(&key, before.as_ref()), fence(&leader, entry.as_ref())];
        let written = world.store.commit(&compares, &writes)?;
        Ok(written.map(|_| !is_same))
    }
}

impl World {
    /// Returns the hosts that offer themselves to a scheduler. An offer without a lease does not
    /// count: it would outlive its host.
    pub fn offers(&self, scheduler: &str) -> Result<BTreeSet<String>, Error> {
        let (_, entries) = self.store.read(&self.keys.hosts(), None)?;
        let offers = entries.iter().filter_map(|entry| {
            match self.offer(scheduler, &entry.key, Some(entry)) {
                Decoded::Value(host, ()) => Some(host),
                _ => None,
            }
        });
        Ok(offers.collect())
    }

    /// Watches the hosts that offer themselves to a scheduler. The id is the host.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread. Any other error is an event.
    pub fn watch_offers(
        &self,
        scheduler: &str,
        config: WatchConfig,
    ) -> Result<Watch<String, ()>, Error> {
        let (world, scheduler) = (self.clone(), scheduler.to_owned());
        let content = Content::ValueAndLease;
        Watch::of_content(self, [self.keys.hosts()], config, content, move |key, entry| {
            world.offer(&scheduler, key, entry.map(|it| &**it))
        })
    }

    /// Watches the offers to a scheduler, and its leader, whose id is `None`.
    pub(crate) fn watch_schedule(
        &self,
        scheduler: &str,
        config: WatchConfig,
    ) -> Result<Watch<Option<String>, ()>, Error> {
        let leader = self.keys.shared("leaders", scheduler);
        let prefixes = [self.keys.hosts(), leader.clone()];
        let (world, scheduler) = (self.clone(), scheduler.to_owned());
        let content = Content::ValueAndLease;
        Watch::of_content(self, prefixes, config, content, move |key, entry| {
            if key == leader {
                return match entry {
                    Some(_) => Decoded::Value(None, ()),
                    None => Decoded::Gone(None),
                };
            }
            match world.offer(&scheduler, key, entry.map(|it| &**it)) {
                Decoded::Value(host, ()) => Decoded::Value(Some(host), ()),
                Decoded::Gone(host) => Decoded::Gone(Some(host)),
                // Another host's malformed key is not an offer.
                Decoded::Malformed(..) | Decoded::Other => Decoded::Other,
            }
        })
    }

    /// Turns an entry into an offer to this scheduler.
    fn offer(&self, scheduler: &str, key: &[u8], entry: Option<&Entry>) -> Decoded<String, ()> {
        match self.keys.parse_host(key) {
            Ok((host, word, Some(name))) if word == "offers" && name == scheduler => {
                match entry.and_then(|entry| entry.lease) {
                    Some(_) => Decoded::Value(host, ()),
                    None => Decoded::Gone(host),
                }
            }
            Ok(_) => Decoded::Other,
            Err(error) => Decoded::Malformed(None, error),
        }
    }

    /// Returns the hosts that a scheduler's leader chose. `None` if none has chosen yet. A choice
    /// stays until a leader makes another one, even while there is no leader.
    ///
    /// # Errors
    ///
    /// [`Malformed`](ErrorKind::Malformed) if it is not a choice, and the store's errors.
    pub fn choice(&self, scheduler: &str) -> Result<Option<BTreeSet<String>>, Error> {
        let entry = self.entry(&self.keys.shared("choices", scheduler))?;
        entry.map(|it| Choice::parse(&it).map(|choice| choice.hosts)).transpose()
    }

    /// Watches the hosts that a scheduler's leader chose. The id is the scheduler.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread. Any other error is an event.
    pub fn watch_choice(
        &self,
        scheduler: &str,
        config: WatchConfig,
    ) -> Result<Watch<String, BTreeSet<String>>, Error> {
        let (own, id) = (self.keys.shared("choices", scheduler), scheduler.to_owned());
        Watch::new(self, [own.clone()], config, move |key, entry| {
            if key != own {
                return Decoded::Other;
            }
            let hosts = entry.map(|it| Choice::parse(it).map(|choice| choice.hosts));
            Decoded::of(id.clone(), hosts)
        })
    }
}

#[cfg(test)]
#[path = "../tests/unit/scheduler.rs"]
mod tests;

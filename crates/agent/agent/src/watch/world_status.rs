//! The state of the collection and the exports, for lines, events and metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde_json::{Value, json};
use trueup_world::SessionStatus;

use super::contested::Contested;
use crate::status::{count, seconds};

/// The state of the collection and the exports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorldStatus {
    /// The state of the routes collected from other hosts.
    pub collection: Collection,
    /// The state of this host's exports.
    pub exports: Exports,
}

/// The state of the routes collected from other hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    /// True if there was a complete view of the store, or there is nothing to collect.
    pub is_known: bool,
    /// The store's revision of the view. 0 before the first view.
    pub revision: u64,
    pub collected: usize,
    pub refused: usize,
    /// The number of routes that take traffic from another host's.
    pub overlaps: usize,
    /// The number of routes that an earlier process may have collected. They stay until it is known
    /// what to collect.
    pub retained: usize,
    /// True if all routes are withdrawn, as `partition` says.
    pub is_withdrawn: bool,
    /// The hosts whose exports change too often, each with the number of exports whose changes
    /// wait.
    pub damped: BTreeMap<String, usize>,
    /// The time since when the store is unreachable, and why. `None` while it is reachable.
    pub cut_off: Option<(SystemTime, String)>,
    /// Why the desired state is not known, although there was a complete view.
    pub doubt: Option<String>,
    /// The contests between other hosts' exports and this host's.
    pub contests: Vec<Contested>,
    /// This host's exports that are not granted to it, in words.
    pub ungranted: Vec<String>,
    /// Why it is not known what hosts may export.
    pub ungrantable: Option<String>,
}

/// The state of this host's exports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exports {
    pub declared: usize,
    /// True if the last pass found the exports in the store as declared.
    pub is_in_place: bool,
    /// The number of times that the lease has ended while this process ran.
    pub losses: u64,
    pub cut_off_since: Option<SystemTime>,
    /// Why some exports are missing. `None` if none are.
    pub error: Option<String>,
}

impl Exports {
    /// Records the state of the exports' session.
    pub fn session(&mut self, status: &SessionStatus) {
        self.losses = status.losses;
        self.cut_off_since = status.cut_off_since;
    }
}

impl Collection {
    /// Returns the names of this host's exports that lose traffic to other hosts.
    pub fn taken(&self) -> BTreeSet<&str> {
        let losses = self.contests.iter().map(|it| &it.contest).filter(|it| it.is_loss());
        losses.map(|it| &*it.name).collect()
    }

    /// Returns the state of a host that collects nothing.
    pub fn none() -> Collection {
        Collection { is_known: true, ..Collection::default() }
    }

    /// Returns why the desired state is not known, or `None` if it is.
    pub fn unknown(&self) -> Option<String> {
        let Collection { is_known, retained, cut_off, doubt, ungrantable, .. } = self;
        if let Some(doubt) = doubt {
            return Some(format!("it is not known what to collect: {doubt}"));
        }
        if *is_known {
            return None;
        }
        if let Some(why) = ungrantable {
            return Some(format!(
                "it is not known what hosts may export, so what was collected stays: {why}"
            ));
        }
        let why = match cut_off {
            Some((since, error)) => {
                format!(": cut off from the store since {}: {error}", at(*since))
            }
            None => String::new(),
        };
        let stay = match retained {
            0 => String::new(),
            number => format!(", and {} from before", count(*number, "route stays", "routes stay")),
        };
        Some(format!("it is not known yet what to collect{stay}{why}"))
    }
}

impl WorldStatus {
    /// Returns since when the store is unreachable, or `None` if it is reachable.
    pub fn cut_off_since(&self) -> Option<SystemTime> {
        let collection = self.collection.cut_off.as_ref().map(|(since, _)| *since);
        let both = [collection, self.exports.cut_off_since];
        both.into_iter().flatten().min()
    }

    /// Returns why the desired state is not known, or `None` if it is.
    pub fn unknown(&self) -> Option<String> {
        self.collection.unknown()
    }

    /// Returns the most important problem: it is not known what to collect, the store is
    /// unreachable, or changes of exports wait. `None` if there is none.
    pub fn trouble(&self) -> Option<String> {
        self.unknown().or_else(|| self.outage()).or_else(|| {
            let (host, exports) = self.collection.damped.first_key_value()?;
            Some(format!(
                "host {host} is damped, as its exports change too often: {}{}",
                count(*exports, "change waits", "changes wait"),
                and_others(self.collection.damped.len() - 1)
            ))
        })
    }

    fn outage(&self) -> Option<String> {
        let since = at(self.cut_off_since()?);
        let then = if self.collection.is_withdrawn { "is withdrawn" } else { "stays" };
        let why = match &self.collection.cut_off {
            Some((_, why)) => format!("; {why}"),
            None => String::new(),
        };
        Some(format!("cut off from the store since {since}: what was collected {then}{why}"))
    }

    /// Returns the line about other hosts in the view of `trueup watch`.
    pub fn line(&self) -> String {
        let Collection { revision, collected, refused, overlaps, .. } = self.collection;
        let Exports { declared, is_in_place, losses, error, .. } = &self.exports;
        let mut line = format!(
            "world: {collected} collected, {refused} refused{}, revision {revision}; {}{}{}{}; {}",
            match overlaps {
                0 => String::new(),
                number => format!(", {number} that take from others"),
            },
            count(*declared, "export", "exports"),
            if *is_in_place || *declared == 0 { "" } else { " (not in place)" },
            match self.collection.taken().len() {
                0 => String::new(),
                taken => format!(", {taken} taken by other hosts"),
            },
            match self.collection.ungranted.len() {
                0 => String::new(),
                ungranted => format!(", {ungranted} not granted"),
            },
            count(usize::try_from(*losses).unwrap_or(usize::MAX), "lease lost", "leases lost"),
        );
        for more in [self.trouble(), error.clone()].into_iter().flatten() {
            line += &format!("; {more}");
        }
        line
    }

    pub(crate) fn json(&self) -> Value {
        let Collection {
            is_known,
            revision,
            collected,
            refused,
            overlaps,
            retained,
            is_withdrawn,
            ..
        } = self.collection;
        json!({
            "known": is_known,
            "revision": revision,
            "collected": collected,
            "refused": refused,
            "overlaps": overlaps,
            "retained": retained,
            "damped": self.collection.damped.len(),
            "withdrawn": is_withdrawn,
            "cut_off_since": self.cut_off_since().map(seconds),
            "taken": self.collection.taken().len(),
            "contests": (self.collection.contests.iter())
                .take(MOST_CONTESTS)
                .map(Contested::json)
                .collect::<Vec<Value>>(),
            "ungranted": self.collection.ungranted.len(),
            "exports": self.exports.declared,
            "exported": self.exports.is_in_place,
            "lease_losses": self.exports.losses,
            "message": self.trouble().or_else(|| self.exports.error.clone()),
        })
    }
}

/// Returns the words for further hosts in the same state.
pub(crate) fn and_others(hosts: usize) -> String {
    match hosts {
        0 => String::new(),
        more => format!(", and so of {}", count(more, "other host", "other hosts")),
    }
}

/// The most contests that an event lists. Those that lose traffic come first.
const MOST_CONTESTS: usize = 100;

/// Returns a time of day in UTC.
fn at(time: SystemTime) -> String {
    let seconds = seconds(time) as u64;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
}

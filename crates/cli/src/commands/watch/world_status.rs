//! How the collection and the exports stand: for lines, events and metrics.

use std::time::SystemTime;

use serde_json::{Value, json};
use trueup::world::SessionStatus;

use crate::output::{self, count};

/// How the collection and the exports stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WorldStatus {
    pub(super) collection: Collection,
    pub(super) exports: Exports,
}

/// How the collection stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Collection {
    /// There was a complete view of the store, or there is nothing to collect.
    pub(super) is_known: bool,
    /// The revision that it is of; 0 before the first view.
    pub(super) revision: u64,
    pub(super) collected: usize,
    pub(super) refused: usize,
    /// Routes to a part of another host's prefix.
    pub(super) overlaps: usize,
    /// Routes that an earlier process may have collected, and that stay until it is known.
    pub(super) retained: usize,
    /// All is withdrawn, as `partition` says.
    pub(super) is_withdrawn: bool,
    /// Since when the store is not reached, and why.
    pub(super) cut_off: Option<(SystemTime, String)>,
}

/// How the exports stand.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Exports {
    pub(super) declared: usize,
    /// The store has them as declared, as the last pass found.
    pub(super) is_in_place: bool,
    /// How often the lease has ended although this process was there.
    pub(super) losses: u64,
    pub(super) cut_off_since: Option<SystemTime>,
    /// Why they are not all there.
    pub(super) error: Option<String>,
}

impl Exports {
    /// Notes how their session stands.
    pub(super) fn session(&mut self, status: &SessionStatus) {
        self.losses = status.losses;
        self.cut_off_since = status.cut_off_since;
    }
}

impl Collection {
    /// Nothing is collected.
    pub(super) fn none() -> Collection {
        Collection {
            is_known: true,
            ..Collection::default()
        }
    }

    /// Returns why the desired state is not known, if it is not.
    pub(super) fn unknown(&self) -> Option<String> {
        let Collection {
            is_known,
            retained,
            cut_off,
            ..
        } = self;
        if *is_known {
            return None;
        }
        let why = match cut_off {
            Some((since, error)) => {
                format!(": cut off from the store since {}: {error}", at(*since))
            }
            None => String::new(),
        };
        let stay = match retained {
            0 => String::new(),
            number => format!(
                ", and {} from before",
                count(*number, "route stays", "routes stay")
            ),
        };
        Some(format!("it is not known yet what to collect{stay}{why}"))
    }
}

impl WorldStatus {
    /// Returns since when the store is not reached.
    pub(super) fn cut_off_since(&self) -> Option<SystemTime> {
        let collection = self.collection.cut_off.as_ref().map(|(since, _)| *since);
        let both = [collection, self.exports.cut_off_since];
        both.into_iter().flatten().min()
    }

    /// Returns why the desired state is not known, if it is not.
    pub(super) fn unknown(&self) -> Option<String> {
        self.collection.unknown()
    }

    /// Returns what is the matter: that it is not known what to collect, or that the store is not
    /// reached.
    pub(super) fn trouble(&self) -> Option<String> {
        let cut_off = || {
            let since = at(self.cut_off_since()?);
            let then = match self.collection.is_withdrawn {
                true => "what was collected is withdrawn",
                false => "what was collected stays",
            };
            Some(format!("cut off from the store since {since}: {then}"))
        };
        self.unknown().or_else(cut_off)
    }

    /// Returns the line of the view.
    pub(super) fn line(&self) -> String {
        let Collection {
            revision,
            collected,
            refused,
            overlaps,
            ..
        } = self.collection;
        let Exports {
            declared,
            is_in_place,
            losses,
            error,
            ..
        } = &self.exports;
        let mut line = format!(
            "world: {collected} collected, {refused} refused{}, revision {revision}; {}{}; {}",
            match overlaps {
                0 => String::new(),
                number => format!(", {number} to parts of others' prefixes"),
            },
            count(*declared, "export", "exports"),
            if *is_in_place || *declared == 0 {
                ""
            } else {
                " (not in place)"
            },
            count(
                usize::try_from(*losses).unwrap_or(usize::MAX),
                "lease lost",
                "leases lost"
            ),
        );
        for more in [self.trouble(), error.clone()].into_iter().flatten() {
            line += &format!("; {more}");
        }
        line
    }

    pub(super) fn json(&self) -> Value {
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
            "withdrawn": is_withdrawn,
            "cut_off_since": self.cut_off_since().map(output::seconds),
            "exports": self.exports.declared,
            "exported": self.exports.is_in_place,
            "lease_losses": self.exports.losses,
            "message": self.trouble().or_else(|| self.exports.error.clone()),
        })
    }
}

/// Returns a time of the day in UTC.
fn at(time: SystemTime) -> String {
    let seconds = output::seconds(time) as u64;
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
}

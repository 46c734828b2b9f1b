//! Checks the records of writers and watchers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_world::{Entry, LeaseId, Revision};

use crate::hosts::{Changes, Sent, Watched, Written};

/// Figures of a case, or of several.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    writes: usize,
    unknown: usize,
    refused: usize,
    revisions: usize,
    leases: usize,
    ended: usize,
    expired: usize,
    breaks: usize,
    gaps: usize,
    /// The number of leases that agents lost and reported.
    pub(crate) losses: usize,
}

impl Figures {
    pub(crate) fn add(&mut self, other: &Figures) {
        self.writes += other.writes;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.revisions += other.revisions;
        self.leases += other.leases;
        self.ended += other.ended;
        self.expired += other.expired;
        self.breaks += other.breaks;
        self.gaps += other.gaps;
        self.losses += other.losses;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes, {} of them not known to be written, {} refused; {} revisions; {} leases of \
             writers, {} ended, with {} keys; {} leases lost by agents; watches began {} times \
             again, {} times from a new read",
            self.writes,
            self.unknown,
            self.refused,
            self.revisions,
            self.leases,
            self.ended,
            self.expired,
            self.losses,
            self.breaks,
            self.gaps,
        )
    }
}

/// Checks that no change is lost, invented or repeated. Watchers must agree with each other and
/// with the store. Keys may go with a lease only if it ended. Returns figures.
pub(crate) fn check(
    writers: &[Written],
    watchers: &[Watched],
    (last, now): (Revision, &[Entry]),
) -> Result<Figures, String> {
    let history = history(watchers)?;
    let attempts = || writers.iter().flat_map(|writer| &writer.attempts);
    let has_gap = watchers.iter().any(|it| !it.gaps.is_empty());
    let is_gap = |at: Revision| {
        let within = |gap: &(Revision, Revision)| at > gap.0 && at <= gap.1;
        watchers.iter().all(|watcher| watcher.gaps.iter().any(within))
    };
    // Every acknowledged write is there.
    for ((key, value), revision) in attempts() {
        let Some(at) = revision else { continue };
        let seen = history.get(at).and_then(|changes| changes.get(key));
        let is_there = match (seen, value) {
            (Some(Some(entry)), Some(value)) => entry.value == *value,
            (Some(None), None) => true,
            // The deletion of a missing key changes nothing.
            (None, None) => {
                let last = history.range(..=*at).rev().find_map(|(_, it)| it.get(key));
                has_gap || !matches!(last, Some(Some(_)))
            }
            _ => false,
        };
        if !is_there && !is_gap(*at) {
            return Err(format!("lost at {at}: {} {value:?}: {seen:?}", text(key)));
        }
    }
    // Every value was written once, by an attempt that may have written it.
    let values: BTreeSet<_> = attempts().filter_map(|it| it.0.1.as_deref()).collect();
    let refused: BTreeSet<_> = writers
        .iter()
        .flat_map(|writer| &writer.refused)
        .filter_map(|attempt| attempt.1.as_deref())
        .collect();
    let ended: BTreeSet<LeaseId> = writers.iter().flat_map(|it| it.ended.clone()).collect();
    let mut once = BTreeSet::new();
    let mut leases: BTreeMap<&[u8], Option<LeaseId>> = BTreeMap::new();
    let mut expired = 0;
    for (at, changes) in &history {
        for (key, now) in changes {
            match now {
                Some(entry) => {
                    let value = &*entry.value;
                    leases.insert(key, entry.lease);
                    if value == b"end" {
                        continue;
                    }
                    if !once.insert(value) {
                        return Err(format!("twice, at {at}: {}", text(value)));
                    }
                    if refused.contains(value) {
                        return Err(format!("refused, and there at {at}: {}", text(value)));
                    }
                    if !values.contains(value) {
                        return Err(format!("invented at {at}: {}", text(value)));
                    }
                    if entry.modified != *at {
                        return Err(format!("of {} and at {at}: {entry:?}", entry.modified));
                    }
                }
                None => {
                    let deletes = |it: &&Sent| {
                        it.0.0 == *key && it.0.1.is_none() && it.1.is_none_or(|of| of == *at)
                    };
                    let by_lease = leases.get(&key[..]).copied().flatten();
                    match by_lease {
                        Some(lease) if ended.contains(&lease) => expired += 1,
                        // The put with the lease is in a gap.
                        None if has_gap => {}
                        _ if attempts().any(|it| deletes(&it)) => {}
                        _ => {
                            let key = text(key);
                            return Err(format!("deleted by none at {at} of {last}: {key}"));
                        }
                    }
                }
            }
        }
    }
    let entries: BTreeMap<_, _> = now.iter().map(|it| (it.key.clone(), it.value.clone())).collect();
    for watcher in watchers {
        let keys: BTreeSet<_> = watcher.entries.keys().chain(entries.keys()).collect();
        for key in keys {
            let (known, is) = (watcher.entries.get(key), entries.get(key));
            if known != is {
                let changes = history.iter().flat_map(|(at, changes)| {
                    let changes = changes.iter().filter(|(of, _)| *of == key);
                    changes.map(move |change| format!("{at} {change:?}"))
                });
                let all: Vec<_> = changes.collect();
                let newest = &all[all.len().saturating_sub(3)..];
                return Err(format!(
                    "{}: known {known:?}, and is {is:?} at {}: {newest:?}, gaps {:?}",
                    text(key),
                    last,
                    watcher.gaps
                ));
            }
        }
    }
    let unknown = attempts().filter(|attempt| attempt.1.is_none()).count();
    let sum = |of: fn(&Watched) -> usize| watchers.iter().map(of).sum::<usize>();
    Ok(Figures {
        writes: attempts().count(),
        unknown,
        refused: refused.len(),
        revisions: history.len(),
        leases: writers.iter().map(|writer| writer.leases).sum(),
        ended: ended.len(),
        expired,
        breaks: sum(|watcher| watcher.breaks.len()),
        gaps: sum(|watcher| watcher.gaps.len()),
        losses: 0,
    })
}

/// Joins the history that all watchers saw. Fails if they differ.
fn history(watchers: &[Watched]) -> Result<BTreeMap<Revision, Changes>, String> {
    let mut history: BTreeMap<Revision, Changes> = BTreeMap::new();
    for watcher in watchers {
        for (at, changes) in &watcher.changes {
            let known = history.entry(*at).or_insert_with(|| changes.clone());
            if known != changes {
                return Err(format!("at {at} one saw {known:?}, another {changes:?}"));
            }
        }
    }
    for watcher in watchers {
        let gap = |at: &Revision| {
            let within = |gap: &(Revision, Revision)| *at > gap.0 && *at <= gap.1;
            watcher.gaps.iter().any(within)
        };
        let lost = (history.keys()).find(|at| !watcher.changes.contains_key(at) && !gap(at));
        if let Some(at) = lost {
            let changes = &history[at];
            let breaks = &watcher.breaks;
            return Err(format!(
                "a watcher missed revision {at}: {changes:?}; it began again at {breaks:?}"
            ));
        }
    }
    Ok(history)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

//! The hosts that are alive, those with complete declarations, and those whose lease ended lately.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::{LeaseId, Revision};

#[derive(Default)]
pub(super) struct Liveness {
    grace: Duration,
    /// The hosts with a session, each with its lease. A session without a lease does not show that
    /// the host is alive, because it never ends by itself.
    alive: BTreeMap<String, Option<LeaseId>>,
    /// The time when a host's session was seen to have ended, while its grace lasts.
    ended: BTreeMap<String, Instant>,
    /// The same by time, the earliest first.
    by_end: BTreeSet<(Instant, String)>,
    /// The hosts that have declared all exports, with the declaration's lease and revision. A
    /// declaration counts only for a session with the same lease.
    declared: BTreeMap<String, (Option<LeaseId>, Revision)>,
    /// The declarations whose revision is later than `known_to`.
    ahead: BTreeSet<(Revision, String)>,
    /// The revision up to which everything is known, about resources and hosts.
    known_to: Revision,
    /// The live hosts that have not declared all exports, or whose declared exports have not all
    /// arrived.
    incomplete: BTreeSet<String>,
    /// The number of changes of `incomplete`.
    incomplete_changes: u64,
    /// The hosts with changes that were not [taken](Self::take_changed) yet.
    changed: BTreeSet<String>,
}

impl Liveness {
    pub(super) fn new(grace: Duration) -> Liveness {
        Liveness { grace, ..Liveness::default() }
    }

    pub(super) fn begin(&mut self, host: String, lease: Option<LeaseId>) {
        self.alive.insert(host.clone(), lease);
        if let Some(at) = self.ended.remove(&host) {
            self.by_end.remove(&(at, host.clone()));
        }
        self.update(host);
    }

    pub(super) fn end(&mut self, host: String, now: Instant) {
        if self.alive.remove(&host).is_some() {
            self.begin_grace(host.clone(), now);
        }
        self.update(host);
    }

    fn begin_grace(&mut self, host: String, now: Instant) {
        if !self.grace.is_zero() && !self.ended.contains_key(&host) {
            self.ended.insert(host.clone(), now);
            self.by_end.insert((now, host));
        }
    }

    pub(super) fn declare(&mut self, host: String, lease: Option<LeaseId>, revision: Revision) {
        self.withdraw_declaration(&host);
        self.declared.insert(host.clone(), (lease, revision));
        if revision > self.known_to {
            self.ahead.insert((revision, host.clone()));
        }
        self.update(host);
    }

    pub(super) fn undeclare(&mut self, host: String) {
        self.withdraw_declaration(&host);
        self.update(host);
    }

    fn withdraw_declaration(&mut self, host: &str) {
        if let Some((host, (_, revision))) = self.declared.remove_entry(host) {
            self.ahead.remove(&(revision, host));
        }
    }

    /// Records the revision up to which everything is known. It never goes back.
    pub(super) fn know_to(&mut self, revision: Revision) {
        self.known_to = self.known_to.max(revision);
        while let Some((of, _)) = self.ahead.first()
            && *of <= self.known_to
            && let Some((_, host)) = self.ahead.pop_first()
        {
            self.update(host);
        }
    }

    pub(super) fn known_to(&self) -> Revision {
        self.known_to
    }

    /// Replaces everything by a complete view: the live hosts, and the declarations.
    pub(super) fn replace(
        &mut self,
        alive: Vec<(String, Option<LeaseId>)>,
        declared: Vec<(String, Option<LeaseId>, Revision)>,
        now: Instant,
    ) {
        let were_alive = std::mem::take(&mut self.alive);
        self.declared.clear();
        self.ahead.clear();
        self.changed.append(&mut self.incomplete);
        self.incomplete_changes += 1;
        for (host, lease) in alive {
            self.begin(host, lease);
        }
        for (host, lease, revision) in declared {
            self.declare(host, lease, revision);
        }
        for host in were_alive.into_keys() {
            if !self.alive.contains_key(&host) {
                self.begin_grace(host, now);
            }
        }
    }

    /// Updates whether a host is incomplete.
    fn update(&mut self, host: String) {
        let session = self.alive.get(&host);
        let is_declared = self.declared.get(&host).is_some_and(|(lease, at)| {
            lease.is_some() && session == Some(lease) && *at <= self.known_to
        });
        let is_changed = if session.is_some() && !is_declared {
            self.incomplete.insert(host.clone())
        } else {
            self.incomplete.remove(&host)
        };
        self.incomplete_changes += u64::from(is_changed);
        self.changed.insert(host);
    }

    /// Returns the hosts with changes since the last call. The end of a grace is such a change.
    pub(super) fn take_changed(&mut self, now: Instant) -> BTreeSet<String> {
        while let Some((at, _)) = self.by_end.first()
            && now.saturating_duration_since(*at) >= self.grace
            && let Some((_, host)) = self.by_end.pop_first()
        {
            self.ended.remove(&host);
            self.changed.insert(host);
        }
        std::mem::take(&mut self.changed)
    }

    /// True if a host's deleted exports stay for now. The host is incomplete, or may have lost its
    /// lease too early.
    pub(super) fn keeps_deleted(&self, host: &str) -> bool {
        self.incomplete.contains(host) || self.ended.contains_key(host)
    }

    pub(super) fn incomplete(&self) -> &BTreeSet<String> {
        &self.incomplete
    }

    pub(super) fn incomplete_changes(&self) -> u64 {
        self.incomplete_changes
    }

    /// Returns the revision that must be known for all declarations to count. `None` if it is
    /// known.
    pub(super) fn awaited(&self) -> Option<Revision> {
        self.ahead.last().map(|(revision, _)| *revision)
    }

    /// Returns the time until the next grace ends. `None` if there is none.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        let (at, _) = self.by_end.first()?;
        let passed = now.saturating_duration_since(*at);
        Some(self.grace.saturating_sub(passed))
    }
}

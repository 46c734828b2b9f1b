//! What other hosts export of the prefixes that this host exports, kept from change to change.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use trueup_net::{IfName, IpNetwork, Prefix, Route};

use super::accepted::Origin;
use super::offer::Id;
use crate::resources::ResourceKey;
use crate::store::Revision;

/// An export of another host to a prefix that this host exports, or to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contest {
    /// The name of this host's export.
    pub name: String,
    /// The prefix that this host exports.
    pub dst: Prefix,
    /// The revision that made it; `None` while it is not known.
    pub created: Option<Revision>,
    /// What the other host exports.
    pub other: (Prefix, Origin),
    /// How many exports of that host are like it.
    pub count: usize,
    /// What becomes of the traffic.
    pub effect: ContestEffect,
}

/// What an export of another host does on the hosts that collect from both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContestEffect {
    /// It takes the whole prefix: it was exported first, or its metric is lower.
    Takes,
    /// It takes a part of the prefix, as the kernel prefers the longer one.
    TakesPart,
    /// It takes the prefix as soon as this host no longer exports it.
    Waits,
}

impl ContestEffect {
    /// Returns its word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ContestEffect::Takes => "takes",
            ContestEffect::TakesPart => "takes_part",
            ContestEffect::Waits => "waits",
        }
    }
}

impl Contest {
    /// True if traffic for this host goes to the other one.
    pub fn is_loss(&self) -> bool {
        self.effect != ContestEffect::Waits
    }
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contest { name, dst, created, other: (theirs, origin), count, effect } = self;
        let own = name.escape_debug();
        let revision = created.map_or_else(String::new, |it| format!(", revision {it}"));
        let more = match count.saturating_sub(1) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let host = &origin.exporter;
        write!(f, "{dst}, exported by this host as `{own}`{revision}, ")?;
        match effect {
            ContestEffect::Takes => write!(
                f,
                "is taken by host {host}, which exported it first or with a lower metric: \
                 {origin}{more}"
            ),
            ContestEffect::TakesPart => write!(
                f,
                "loses the part {theirs} to host {host}, as the kernel prefers the longer prefix: \
                 {origin}{more}"
            ),
            ContestEffect::Waits => write!(
                f,
                "is exported by host {host} as well, which takes it as soon as this host's is \
                 gone: {origin}{more}"
            ),
        }
    }
}

/// An export of another host, in the order in which they are preferred.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Theirs {
    metric: u32,
    id: Arc<Id>,
    dst: Prefix,
}

/// An export of this host.
struct Own {
    name: String,
    metric: u32,
    /// The exports of that name and prefix in the store.
    stored: BTreeSet<Arc<Id>>,
}

/// What one other host exports of one prefix of this host.
#[derive(Default)]
struct Group {
    whole: BTreeSet<Theirs>,
    parts: BTreeSet<Theirs>,
}

/// Where an export is among the contests.
enum At {
    /// It is one of this host, of that prefix.
    Own(Prefix, Arc<Id>),
    /// It is another host's, of that prefix of this host.
    Theirs(Prefix, Theirs),
}

/// What other hosts export of the prefixes that this host exports, kept from change to change. What
/// they export otherwise costs nothing but a look at it.
#[derive(Default)]
pub(super) struct Contests {
    own: BTreeMap<Prefix, Vec<Own>>,
    /// By this host's prefix, the longest one that covers theirs, and the other host.
    groups: BTreeMap<(Prefix, String), Group>,
    at: BTreeMap<Arc<ResourceKey>, At>,
}

impl Contests {
    /// Adds an export that this host declares.
    pub(super) fn declare(&mut self, name: &str, route: &Route<IfName>) {
        self.own.entry(route.dst).or_default().push(Own {
            name: name.to_owned(),
            metric: route.canonical_key().metric,
            stored: BTreeSet::new(),
        });
    }

    /// True if this host declares no export: then nothing is contested.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Returns the exports that it has.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<ResourceKey>> {
        self.at.keys()
    }

    /// Adds an export of this host, as it is in the store.
    pub(super) fn insert_own(&mut self, id: &Arc<Id>, dst: Prefix) {
        for own in self.own.get_mut(&dst).into_iter().flatten() {
            if own.name.as_bytes() == id.key.name {
                own.stored.insert(Arc::clone(id));
                self.at.insert(Arc::clone(&id.key), At::Own(dst, Arc::clone(id)));
            }
        }
    }

    /// Adds an export of another host.
    pub(super) fn insert(&mut self, id: &Arc<Id>, route: &Route<IfName>) {
        let Some(own) = self.own_around(route.dst) else {
            return;
        };
        let metric = route.canonical_key().metric;
        let theirs = Theirs { metric, id: Arc::clone(id), dst: route.dst };
        let group = self.groups.entry((own, id.key.exporter.clone())).or_default();
        group.of_sort(own, route.dst).insert(theirs.clone());
        self.at.insert(Arc::clone(&id.key), At::Theirs(own, theirs));
    }

    /// Removes an export. One that was not inserted is no error.
    pub(super) fn remove(&mut self, key: &ResourceKey) {
        match self.at.remove(key) {
            None => {}
            Some(At::Own(dst, id)) => {
                for own in self.own.get_mut(&dst).into_iter().flatten() {
                    own.stored.remove(&id);
                }
            }
            Some(At::Theirs(own, theirs)) => {
                let at = (own, key.exporter.clone());
                if let Some(group) = self.groups.get_mut(&at) {
                    group.of_sort(own, theirs.dst).remove(&theirs);
                    if group.whole.is_empty() && group.parts.is_empty() {
                        self.groups.remove(&at);
                    }
                }
            }
        }
    }

    /// Returns this host's longest prefix that covers a destination.
    fn own_around(&self, dst: Prefix) -> Option<Prefix> {
        (0..=dst.len())
            .rev()
            .filter_map(|len| IpNetwork::new(dst.address(), len).ok())
            .map(Prefix::containing)
            .find(|it| self.own.contains_key(it))
    }

    /// Returns the contests: for each export of this host and each other host, one for the whole
    /// prefix and one for parts at most. Those that lose traffic come first.
    pub(super) fn all(&self) -> Vec<Contest> {
        let mut all = Vec::new();
        for ((dst, _), group) in &self.groups {
            for own in self.own.get(dst).into_iter().flatten() {
                let whole = group.whole.first().map(|it| (it, group.whole.len(), own.effect(it)));
                let parts = (group.parts.first())
                    .map(|it| (it, group.parts.len(), ContestEffect::TakesPart));
                all.extend(whole.into_iter().chain(parts).map(|(theirs, count, effect)| Contest {
                    name: own.name.clone(),
                    dst: *dst,
                    created: own.created(),
                    other: (theirs.dst, theirs.id.origin()),
                    count,
                    effect,
                }));
            }
        }
        all.sort_by_key(|it| it.effect);
        all
    }
}

impl Own {
    /// Returns the revision that made it first; `None` if it is not in the store.
    fn created(&self) -> Option<Revision> {
        self.stored.first().map(|id| id.created)
    }

    /// Returns what an export of the same prefix does. Of two with the same metric the first one
    /// wins. What is not in the store yet comes later.
    fn effect(&self, theirs: &Theirs) -> ContestEffect {
        let is_first = self.created().is_none_or(|created| theirs.id.created < created);
        match theirs.metric.cmp(&self.metric) {
            Ordering::Less => ContestEffect::Takes,
            Ordering::Equal if is_first => ContestEffect::Takes,
            _ => ContestEffect::Waits,
        }
    }
}

impl Group {
    /// Returns the exports of the whole prefix of this host, or of parts of it.
    fn of_sort(&mut self, own: Prefix, dst: Prefix) -> &mut BTreeSet<Theirs> {
        if dst == own { &mut self.whole } else { &mut self.parts }
    }
}

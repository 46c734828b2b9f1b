//! The contests between other hosts' exports and this host's prefixes, updated with each change.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use trueup_net::{IfName, IpNetwork, Prefix, Route};

use super::accepted::Origin;
use super::offer::Id;
use crate::resources::ResourceKey;
use crate::store::Revision;

/// Another host's export to a prefix that this host exports, or to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contest {
    /// The name of this host's contested export.
    pub name: String,
    /// The prefix that this host exports.
    pub dst: Prefix,
    /// The revision in which this host's export was made. `None` while it is not known.
    pub created: Option<Revision>,
    /// The other host's prefix, with its export.
    pub other: (Prefix, Origin),
    /// The number of similar exports of the other host.
    pub count: usize,
    /// The effect on traffic to the prefix.
    pub effect: ContestEffect,
}

/// The effect of another host's export on hosts that collect from both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContestEffect {
    /// It takes the whole prefix: it was exported first, or its metric is lower.
    Takes,
    /// It takes a part of the prefix, because the kernel prefers the longer one.
    TakesPart,
    /// It takes the prefix once this host no longer exports it.
    Waits,
}

impl ContestEffect {
    /// Returns the effect's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ContestEffect::Takes => "takes",
            ContestEffect::TakesPart => "takes_part",
            ContestEffect::Waits => "waits",
        }
    }
}

impl Contest {
    /// Returns true if the other host gets traffic for this host.
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

/// Another host's export. The order is that of preference.
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
    /// The stored exports with this name and prefix.
    stored: BTreeSet<Arc<Id>>,
}

/// One other host's exports within one prefix of this host.
#[derive(Default)]
struct Group {
    whole: BTreeSet<Theirs>,
    parts: BTreeSet<Theirs>,
}

/// The place of an export among the contests.
enum At {
    /// This host's export, of this prefix.
    Own(Prefix, Arc<Id>),
    /// Another host's export, under this prefix of this host.
    Theirs(Prefix, Theirs),
}

/// The contests between other hosts' exports and this host's prefixes, updated with each change.
/// Any other export costs one lookup.
#[derive(Default)]
pub(super) struct Contests {
    own: BTreeMap<Prefix, Vec<Own>>,
    /// By this host's longest prefix that covers theirs, and by the other host.
    groups: BTreeMap<(Prefix, String), Group>,
    at: BTreeMap<Arc<ResourceKey>, At>,
}

impl Contests {
    /// Adds a declared export of this host.
    pub(super) fn declare(&mut self, name: &str, route: &Route<IfName>) {
        self.own.entry(route.dst).or_default().push(Own {
            name: name.to_owned(),
            metric: route.canonical_key().metric,
            stored: BTreeSet::new(),
        });
    }

    /// True if this host declares no export. Then nothing is contested.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// Returns the keys of all exports here.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Arc<ResourceKey>> {
        self.at.keys()
    }

    /// Adds a stored export of this host.
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

    /// Removes an export. Does nothing if it was not inserted.
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

    /// Returns the contests. For each export of this host and each other host, there is at most one
    /// for the whole prefix and one for parts. Contests that lose traffic come first.
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
    /// Returns the revision in which the export was first made. `None` if it is not in the store.
    fn created(&self) -> Option<Revision> {
        self.stored.first().map(|id| id.created)
    }

    /// Returns the effect of an export of the same prefix. With equal metrics, the first export
    /// wins. An export that is not in the store yet counts as later.
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
    /// Returns the exports of this host's whole prefix, or of its parts.
    fn of_sort(&mut self, own: Prefix, dst: Prefix) -> &mut BTreeSet<Theirs> {
        if dst == own { &mut self.whole } else { &mut self.parts }
    }
}

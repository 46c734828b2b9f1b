//! What other hosts export of the prefixes that this host exports, kept from change to change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_net::{IpNetwork, Prefix};

use super::{Export, Grant, Origin, Resource, route};

/// An export of another host to a prefix that this host exports, or to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contest {
    /// The name of this host's export.
    pub name: String,
    /// The prefix that this host exports.
    pub dst: Prefix,
    /// The revision that made it; `None` while it is not known.
    pub created: Option<u64>,
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Theirs {
    metric: u32,
    origin: (u64, String),
    dst: Prefix,
}

/// An export of this host.
struct Own {
    name: String,
    metric: u32,
    /// Of each resource of that name and prefix, the revision that made it.
    created: BTreeSet<u64>,
}

/// What one other host exports of one prefix of this host.
#[derive(Default)]
struct Group {
    whole: BTreeSet<Theirs>,
    parts: BTreeSet<Theirs>,
}

/// What other hosts export of the prefixes that this host exports, kept from change to change. What
/// they export otherwise costs nothing but a look at it.
#[derive(Default)]
pub struct Contests {
    host: String,
    grant: Option<Grant>,
    own: BTreeMap<Prefix, Vec<Own>>,
    /// By this host's prefix, the longest one that covers theirs, and the other host.
    groups: BTreeMap<(Prefix, String), Group>,
}

impl Contests {
    /// Makes one for the exports of `host`, this host.
    pub fn new(exports: &[Export], host: &str) -> Contests {
        let mut own = BTreeMap::<Prefix, Vec<Own>>::new();
        for export in exports {
            let of_prefix = own.entry(export.route.dst).or_default();
            of_prefix.push(Own {
                name: export.name.clone(),
                metric: export.route.canonical_key().metric,
                created: BTreeSet::new(),
            });
        }
        Contests { host: host.to_owned(), own, ..Contests::default() }
    }

    /// Ignores what is not granted, which no host takes.
    #[must_use]
    pub fn granting(self, grant: Grant) -> Contests {
        Contests { grant: Some(grant), ..self }
    }

    /// Adds a resource, of this host or of another.
    pub fn insert(&mut self, resource: Resource<'_>) {
        self.change(resource, true);
    }

    /// Removes a resource that was inserted. One that was not is no error.
    pub fn remove(&mut self, resource: Resource<'_>) {
        self.change(resource, false);
    }

    fn change(&mut self, resource: Resource<'_>, is_there: bool) {
        if self.own.is_empty() {
            return;
        }
        let Ok(route) = route::from_data(resource.data) else {
            return;
        };
        let (dst, exporter) = (route.dst, resource.exporter);
        if exporter == self.host {
            let own = self.own.get_mut(&dst).into_iter().flatten();
            for own in own.filter(|own| own.name == resource.name) {
                match is_there {
                    true => own.created.insert(resource.created),
                    false => own.created.remove(&resource.created),
                };
            }
            return;
        }
        let Some(own) = self.own_around(dst) else {
            return;
        };
        if self.grant.as_ref().is_some_and(|it| !it.allows(exporter, dst)) {
            return;
        }
        let key = (own, exporter.to_owned());
        let theirs = Theirs {
            metric: route.canonical_key().metric,
            origin: (resource.created, resource.name.to_owned()),
            dst,
        };
        let group = self.groups.entry(key.clone()).or_default();
        let of_sort = match dst == own {
            true => &mut group.whole,
            false => &mut group.parts,
        };
        match is_there {
            true => of_sort.insert(theirs),
            false => of_sort.remove(&theirs),
        };
        if group.whole.is_empty() && group.parts.is_empty() {
            self.groups.remove(&key);
        }
    }

    /// Returns this host's longest prefix that covers a destination.
    fn own_around(&self, dst: Prefix) -> Option<Prefix> {
        let around = (0..=dst.len()).rev().filter_map(|len| {
            let network = IpNetwork::new(dst.address(), len).ok()?;
            Some(Prefix::containing(network))
        });
        around.into_iter().find(|it| self.own.contains_key(it))
    }

    /// Returns the contests: for each export of this host and each other host, one for the whole
    /// prefix and one for parts at most. Those that lose traffic come first.
    pub fn all(&self) -> Vec<Contest> {
        let mut all = Vec::new();
        for ((dst, exporter), group) in &self.groups {
            for own in self.own.get(dst).into_iter().flatten() {
                let created = own.created.first().copied();
                let mut add = |of_sort: &BTreeSet<Theirs>, effect: fn(&Own, &Theirs) -> _| {
                    let Some(first) = of_sort.first() else {
                        return;
                    };
                    let (revision, name) = first.origin.clone();
                    let origin = Origin { exporter: exporter.clone(), name, created: revision };
                    all.push(Contest {
                        name: own.name.clone(),
                        dst: *dst,
                        created,
                        other: (first.dst, origin),
                        count: of_sort.len(),
                        effect: effect(own, first),
                    });
                };
                add(&group.whole, whole);
                add(&group.parts, |_, _| ContestEffect::TakesPart);
            }
        }
        all.sort_by_key(|it| it.effect);
        all
    }
}

/// Of two with the same metric the first one wins. What is not in the store yet comes later.
fn whole(own: &Own, theirs: &Theirs) -> ContestEffect {
    let (revision, _) = theirs.origin;
    let is_first = own.created.first().is_none_or(|created| revision < *created);
    match theirs.metric.cmp(&own.metric) {
        std::cmp::Ordering::Less => ContestEffect::Takes,
        std::cmp::Ordering::Equal if is_first => ContestEffect::Takes,
        _ => ContestEffect::Waits,
    }
}

impl fmt::Debug for Contests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contests(..)")
    }
}

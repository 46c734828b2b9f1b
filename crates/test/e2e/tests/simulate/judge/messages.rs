//! The messages of a pass. Invariant 3: if nothing has happened, no changing message is sent.
//! Invariant 6: incomplete knowledge deletes nothing. Invariant 8 limits their number.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::Kind as DiffKind;
use trueup_testkit::{Kind, RawMessage};

use super::Judge;
use crate::wire::Request;
use crate::writers::OURS;
use trueup_e2e::world::{Id, World as Rows};

/// The offsets of `ifi_flags` and `ifi_change` in the fixed part of a link's message.
const FLAGS: usize = 8;
const CHANGE: usize = 12;
const IFF_UP: u8 = 1;

/// The messages of the current pass, or of the last one.
#[derive(Default)]
pub(super) struct PassMessages {
    began: u64,
    is_running: bool,
    messages: u32,
    pub(super) changes: u32,
    /// The step in which each part was last dumped without a fault.
    dumped: BTreeMap<Part, u64>,
    /// The dumps that lacked rows, one family each.
    incomplete: Vec<RawMessage>,
    /// True if all links are known.
    has_links: bool,
    /// True if links were read since the last change. Later dumps of links only give other objects
    /// their names.
    is_link_read: bool,
    /// True if the next dump lacks rows.
    is_next_incomplete: bool,
    /// The keys to which the pass has written routes.
    put: BTreeSet<Vec<u8>>,
}

impl PassMessages {
    /// Returns the step in which the rows around this one were last read.
    pub(super) fn read_at(&self, row: &RawMessage) -> u64 {
        let part = part_of(row);
        let parts = [part, Part { family: 0, ..part }, Part { table: 0, ..part }];
        let read = parts.iter().filter_map(|part| self.dumped.get(part));
        read.max().copied().unwrap_or(self.began)
    }

    /// Returns true if missing rows may decide if this object may go.
    fn is_unknown(&self, object: &RawMessage) -> bool {
        self.incomplete.iter().any(|asked| match object.kind {
            // Objects on it go too; rules are on no device.
            Kind::Link | Kind::Address => asked.kind != Kind::Rule,
            Kind::Nexthop => matches!(asked.kind, Kind::Link | Kind::Route | Kind::Nexthop),
            // A dump filtered by our marker has all routes with it.
            Kind::Route if protocol_of(object) == OURS => {
                asked.kind == Kind::Route && protocol_of(asked) == OURS
            }
            kind => asked.kind == kind,
        })
    }
}

/// Returns the protocol of a route, or of the routes requested.
fn protocol_of(route: &RawMessage) -> u8 {
    route.header[5]
}

/// The content of a dump; 0 is all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    kind: Kind,
    family: u8,
    is_proxy: bool,
    /// Only for routes.
    table: u32,
    /// True for routes with our marker. Other routes are read to find those on our keys.
    is_ours: bool,
}

/// Returns the part with a row, or the part requested.
fn part_of(row: &RawMessage) -> Part {
    Part {
        kind: row.kind,
        family: row.family(),
        is_proxy: row.kind == Kind::Neighbour && row.header[10] & 8 != 0,
        table: match row.kind {
            Kind::Route => row.table().unwrap_or(0),
            _ => 0,
        },
        is_ours: row.kind == Kind::Route && protocol_of(row) == OURS,
    }
}

/// Returns the content of a dump request, one family each: a dump of all families is read again as
/// one of IPv4 and one of IPv6.
fn questions(request: &Request<'_>) -> Vec<RawMessage> {
    let Some(asked) = &request.header else {
        return Vec::new();
    };
    let families: &[u8] = match (asked.kind, asked.family()) {
        (Kind::Link | Kind::Nexthop, family) => &[family],
        (_, 0) => &[2, 10],
        (_, family) => &[family],
    };
    let of_family = |family: &u8| {
        let mut asked = asked.clone();
        asked.header[0] = *family;
        asked
    };
    families.iter().map(of_family).collect()
}

/// Returns true if a dump contains everything in another one.
fn covers(asked: &RawMessage, other: &RawMessage) -> bool {
    if (asked.kind, other.kind) != (Kind::Route, Kind::Route) {
        return asked == other;
    }
    let has_protocol = [0, protocol_of(other)].contains(&protocol_of(asked));
    let has_tables = asked.attrs.is_empty() || asked.attrs == other.attrs;
    asked.family() == other.family() && has_protocol && has_tables
}

fn kind_of(kind: Kind) -> DiffKind {
    match kind {
        Kind::Link => DiffKind::Link,
        Kind::Address => DiffKind::Address,
        Kind::Neighbour => DiffKind::Neighbour,
        Kind::Nexthop => DiffKind::Nexthop,
        Kind::Route => DiffKind::Route,
        Kind::Rule => DiffKind::Rule,
    }
}

impl Judge {
    pub(crate) fn pass_begins(&mut self, step: u64) {
        self.pass = PassMessages {
            began: step,
            is_running: true,
            has_links: self.has_links,
            ..PassMessages::default()
        };
    }

    pub(crate) fn pass_ended(&mut self) {
        self.pass.is_running = false;
    }

    pub(crate) fn messages(&self) -> u32 {
        self.pass.messages
    }

    /// Handles a request whose dump lacks rows, or is refused and not sent.
    pub(crate) fn dump_fails(&mut self, request: &Request<'_>, is_sent: bool) {
        match request.kind {
            Some(_) if !is_sent => self.pass.incomplete.extend(questions(request)),
            _ => self.pass.is_next_incomplete = true,
        }
    }

    pub(crate) fn is_next_dump_incomplete(&self) -> bool {
        self.pass.is_next_incomplete
    }

    /// Checks a message that the agent is about to send.
    pub(crate) fn sends(&mut self, request: &Request<'_>, rows: &Rows, step: u64, namespace: u64) {
        if !self.pass.is_running {
            return;
        }
        self.pass.messages += 1;
        let Some(kind) = request.kind else {
            return;
        };
        if request.is_dump {
            match std::mem::take(&mut self.pass.is_next_incomplete) {
                true => self.pass.incomplete.extend(questions(request)),
                false => {
                    for read in questions(request) {
                        self.pass.incomplete.retain(|other| !covers(&read, other));
                    }
                    let is_link = kind == Kind::Link;
                    let is_first = !is_link || !self.pass.is_link_read;
                    self.pass.has_links |= is_link;
                    self.has_links |= is_link;
                    self.pass.is_link_read |= is_link;
                    let part = request.header.as_ref().filter(|_| is_first).map(part_of);
                    self.pass.dumped.extend(part.map(|part| (part, step)));
                }
            }
        }
        if !request.is_change {
            return;
        }
        self.pass.changes += 1;
        self.pass.is_link_read = false;
        let text = request.message.as_ref().map_or(String::new(), ToString::to_string);
        // A refused create is no violation: a pass over a few keys finds other writers' objects
        // that way.
        if self.is_quiet && !request.is_exclusive {
            self.fail(3, format!("nothing has happened since a pass that converged: {text}"));
        }
        if self.bound.is_some_and(|bound| bound != namespace) {
            self.fail(6, format!("in a namespace that is not the agent's: {text}"));
        }
        if !self.pass.has_links {
            self.fail(6, format!("the links are not known: {text}"));
        }
        let Some(object) = &request.message else {
            return;
        };
        let is_unknown = self.pass.is_unknown(object);
        if is_unknown && sets_down(object, rows) {
            self.fail(6, format!("a dump was incomplete: {text}"));
        }
        let place = Id::of(object).place().2;
        if !request.is_delete {
            self.pass.put.insert(place);
            return;
        }
        if !self.desired.managed().contains(kind_of(kind)) {
            self.fail(6, format!("the kind is not managed: {text}"));
        }
        // A new gateway's route is put behind the old one, which is then deleted.
        if is_unknown && !self.pass.put.contains(&place) {
            self.fail(6, format!("a dump was incomplete: {text}"));
        }
    }
}

/// Returns true for a request that sets down a link which is up.
fn sets_down(request: &RawMessage, rows: &Rows) -> bool {
    let is_up = |link: &RawMessage| link.header[FLAGS] & IFF_UP != 0;
    let is_asked = request.kind == Kind::Link && request.header[CHANGE] & IFF_UP != 0;
    let was = rows.of(Kind::Link).map(|(_, link)| link);
    let mut was = was.filter(|link| link.device() == request.device());
    is_asked && !is_up(request) && was.any(is_up)
}

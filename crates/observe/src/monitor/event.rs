//! One event, read for what it makes doubtful. Not for what is there: see the snapshot.

use std::collections::HashMap;

use trueup_diff::{Family, IfName, Item, Kind, ObjectKey};
use trueup_netlink::codec::{address, link, neighbour, route, rule};
use trueup_netlink::wire::{Message, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, read_u32};

use super::watch_scope::{WatchScope, includes};
use crate::dirty_set::DirtySet;

/// `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP`: linux/rtnetlink.h. There is no codec for them.
pub(super) const NEW_NEXTHOP: u16 = 104;
pub(super) const DELETE_NEXTHOP: u16 = 105;
const NHA_ID: u16 = 1;
/// `sizeof(struct nhmsg)`.
const NHMSG_LEN: usize = 8;

/// So many links are remembered; with more, all are strangers again.
const LINKS: usize = 4096;
/// `IPV6_MIN_MTU`: with less a device loses its IPv6 addresses and routes as if it went down.
const IPV6_MIN_MTU: u32 = 1280;

const BOTH: [Family; 2] = [Family::Inet, Family::Inet6];

/// Reads events. It remembers the links that it heard of, so that a change of name is seen, and what is down is not said to
/// go down again.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    links: HashMap<u32, LinkState>,
}

/// What was last heard of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkState {
    name: IfName,
    /// Whether it holds routes and addresses.
    usable: bool,
}

impl EventReader {
    /// Forgets all links: events were lost.
    pub(super) fn forget(&mut self) {
        self.links.clear();
    }

    /// Adds what an event makes doubtful; whether it does any.
    pub(super) fn read(
        &mut self,
        event: &Message<'_>,
        scope: &WatchScope,
        found: &mut DirtySet,
    ) -> bool {
        let relevant = match event.header.kind {
            link::NEW | link::DELETE => self.read_link(event, scope, found),
            address::NEW | address::DELETE => self.read_address(event, scope, found),
            neighbour::NEW | neighbour::DELETE => self.read_neighbour(event, scope, found),
            route::NEW | route::DELETE => read_route(event, scope, found),
            rule::NEW | rule::DELETE => read_rule(event, scope, found),
            NEW_NEXTHOP | DELETE_NEXTHOP => read_nexthop(event, scope, found),
            // Such as the buckets of a nexthop group: no object here.
            _ => Some(false),
        };
        // What cannot be read may have said anything.
        relevant.unwrap_or_else(|| {
            found.everything = true;
            true
        })
    }

    /// `None` of this and the following: it cannot be read.
    fn read_link(
        &mut self,
        event: &Message<'_>,
        scope: &WatchScope,
        found: &mut DirtySet,
    ) -> Option<bool> {
        let Some(decoded) = link::decode(event.body).ok()? else {
            return Some(false);
        };
        let link = decoded.link;
        let index = link.index;
        let is_new = event.header.kind == link::NEW;
        let now = LinkState {
            name: link.name,
            usable: is_new
                && link.up == Some(true)
                && link.mtu.is_none_or(|mtu| mtu >= IPV6_MIN_MTU),
        };
        let before = if is_new {
            if self.links.len() >= LINKS && !self.links.contains_key(&index) {
                self.links.clear();
            }
            self.links.insert(index, now)
        } else {
            self.links.remove(&index)
        };
        let ours = scope.covers_device(index) || scope.covers_route_device(index);
        let other = !is_new || before.is_none_or(|before| before.name != now.name);
        if !ours && !other {
            return Some(false);
        }
        found.links = true;
        let went_down = !now.usable && before.is_none_or(|before| before.usable);
        if went_down && scope.covers_device(index) {
            found.addresses.insert(index);
            found.neighbours.insert(index);
        }
        if went_down && scope.covers_route_device(index) {
            // Those of IPv4 go without a word, those of IPv6 where `skip_notify_on_dev_down` is set.
            found.routes.extend(BOTH);
        }
        Some(true)
    }

    /// Whether a device holds routes and addresses, as far as it was heard. One that does not has its addresses and
    /// neighbours removed by the kernel, which announces the link first (`dev_close_many` in net/core/dev.c).
    fn is_usable(&self, index: u32) -> bool {
        self.links.get(&index).is_none_or(|state| state.usable)
    }

    fn read_address(
        &self,
        event: &Message<'_>,
        scope: &WatchScope,
        found: &mut DirtySet,
    ) -> Option<bool> {
        let Some(address) = address::decode(event.body).ok()? else {
            return Some(false);
        };
        let index = address.dev.as_index()?;
        // What bears our protocol matters wherever it is.
        let ours = scope.covers_device(index) || address.protocol == scope.protocol;
        let addresses = scope.kinds.contains(Kind::Address) && ours;
        let of_routes = scope.covers_route_device(index);
        // A route that waits for a new one is not named: which it is, who desires it knows.
        let mut relevant = addresses || of_routes;
        if relevant {
            found.addresses.insert(index);
        }
        if addresses && event.header.kind == address::DELETE && self.is_usable(index) {
            found.removed.insert(ObjectKey::Address(address.key()));
        }
        if event.header.kind == address::DELETE && scope.includes_routes() {
            let ip = address.address.ip();
            if of_routes || includes(&scope.route_sources, &ip) {
                found.routes.insert(Family::of(ip));
                relevant = true;
            }
        }
        Some(relevant)
    }

    fn read_neighbour(
        &self,
        event: &Message<'_>,
        scope: &WatchScope,
        found: &mut DirtySet,
    ) -> Option<bool> {
        let Some(neighbour) = neighbour::decode(event.body).ok()? else {
            return Some(false);
        };
        let index = neighbour.dev.as_index()?;
        // One of another protocol may have been ours before it was replaced.
        let there = scope.covers_device(index)
            && (scope.includes_foreign(Kind::Neighbour) || neighbour.protocol != 0);
        let ours = neighbour.protocol == scope.protocol;
        let relevant = scope.kinds.contains(Kind::Neighbour) && (there || ours);
        if relevant {
            found.neighbours.insert(index);
            if event.header.kind == neighbour::DELETE && self.is_usable(index) {
                found.removed.insert(ObjectKey::Neighbour(neighbour.key()));
            }
        }
        Some(relevant)
    }
}

fn read_rule(event: &Message<'_>, scope: &WatchScope, found: &mut DirtySet) -> Option<bool> {
    let Some(rule) = rule::decode(event.body).ok()? else {
        return Some(false);
    };
    let relevant = scope.kinds.contains(Kind::Rule)
        && (scope.includes_foreign(Kind::Rule) || rule.protocol == scope.protocol);
    if relevant {
        found.rules.insert(rule.family);
    }
    Some(relevant)
}

fn read_route(event: &Message<'_>, scope: &WatchScope, found: &mut DirtySet) -> Option<bool> {
    if !scope.includes_routes() {
        return Some(false);
    }
    let Some(route) = route::decode(event.body).ok()? else {
        return Some(false);
    };
    let is_new = event.header.kind == route::NEW;
    let ours = route.protocol == scope.protocol;
    let beside = is_new && !is_alone(event);
    let named = || includes(&scope.foreign_routes, &route.key());
    let relevant = ours || beside || scope.includes_foreign(Kind::Route) && named();
    if relevant {
        found.tables.insert((route.family(), route.table));
        if !is_new {
            found.deleted_routes.insert(route.key());
        }
        if is_taken_away(event) {
            found.removed.insert(ObjectKey::Route(route.key()));
        }
    }
    Some(relevant)
}

/// Whether there was nothing on the key of a new route: else one was replaced, which may have been ours, or got another
/// beside it. The event bears the flags of what was done, not of what was asked for (`fib_table_insert` in
/// net/ipv4/fib_trie.c, `fib6_add_rt2node` in net/ipv6/ip6_fib.c).
fn is_alone(event: &Message<'_>) -> bool {
    event.header.flags & NLM_F_EXCL != 0 && event.header.flags & NLM_F_REPLACE == 0
}

/// Whether another writer took a route away, or put another in its place. What the kernel removes of its own accord it
/// announces from port 0, or not at all (`fib_table_flush` in net/ipv4/fib_trie.c, `fib6_clean_node` in
/// net/ipv6/ip6_fib.c).
fn is_taken_away(event: &Message<'_>) -> bool {
    match event.header.kind {
        route::DELETE => event.header.port != 0,
        _ => event.header.flags & NLM_F_REPLACE != 0,
    }
}

fn read_nexthop(event: &Message<'_>, scope: &WatchScope, found: &mut DirtySet) -> Option<bool> {
    let (_, attrs) = event.split(NHMSG_LEN)?;
    let id = attrs.find(NHA_ID).and_then(read_u32)?;
    // An event of a nexthop object bears the flags of the request.
    let created = NLM_F_CREATE | NLM_F_REPLACE;
    let is_new = event.header.kind == NEW_NEXTHOP && event.header.flags & created == NLM_F_CREATE;
    let relevant = scope.includes_routes() && !is_new && includes(&scope.nexthops, &id);
    if relevant {
        // Those of IPv6 go without a word too, unless `nexthop_compat_mode` is set.
        found.routes.extend(BOTH);
        if event.header.kind == DELETE_NEXTHOP {
            // What goes with its device goes without a word (`nexthop_flush_dev` in net/ipv4/nexthop.c).
            found.removed.insert(ObjectKey::Nexthop(id));
        }
    }
    Some(relevant)
}

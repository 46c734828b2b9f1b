//! Routes (`rtmsg`, linux/rtnetlink.h).

use std::net::IpAddr;

use trueup_net::{Action, Family, Metrics, NextHops, Prefix, Route, Scope};

pub use self::row::Row;
use super::dump_query::{Consistency, DumpQuery, ReadScope, RowPosition, dump_request};
use super::kind_codec::{Change, KindCodec, Part, RefusalCause};
use super::{
    CREATE, EncodeError, REPLACE, Resolve, Undecodable, WireNames, family_number, index_of,
};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::{MessageWriter, NLM_F_APPEND, NLM_F_CREATE, NLM_F_REQUEST};

mod row;

/// `RTM_NEWROUTE`.
pub const NEW: u16 = 24;
/// `RTM_DELROUTE`.
pub const DELETE: u16 = 25;
/// `RTM_GETROUTE`.
pub const GET: u16 = 26;

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_PREF: u16 = 20;
const RTA_PAD: u16 = 24;
const RTA_NH_ID: u16 = 30;

const RTAX_LOCK: u16 = 1;
const RTAX_CC_ALGO: u16 = 16;

const RTM_F_CLONED: u32 = 0x200;
/// The kernel answers with the route itself.
const RTM_F_FIB_MATCH: u32 = 0x2000;
const RTNH_F_PERVASIVE: u8 = 0x02;
const RTNH_F_ONLINK: u8 = 0x04;
/// Length of `struct rtnexthop`.
const RTNH_LEN: usize = 8;

/// `RT_TABLE_UNSPEC`: the attribute has the table.
const TABLE_UNSPEC: u8 = 0;
/// The index of the loopback device, the same in every namespace.
const LOOPBACK: u32 = 1;

/// Encodes the request for the route, as in its table, by which the kernel reaches an address.
///
/// # Errors
///
/// None in practice: the message has a fixed size.
pub fn lookup_request(buffer: &mut Vec<u8>, to: IpAddr) -> Result<(), EncodeError> {
    let family = Family::of(to);
    let mut head = [0; 12];
    head[0] = family_number(family);
    head[1] = family.max_len();
    head[8..].copy_from_slice(&RTM_F_FIB_MATCH.to_ne_bytes());
    let mut message = MessageWriter::begin(buffer, GET, NLM_F_REQUEST);
    message.body(&head);
    message.attr_ip(RTA_DST, to);
    message.finish()
}

/// The largest route message in bytes, with some room for the kernel's additions. A row that does
/// not fit a dump's buffer of 32 KiB ends the dump: without it, without later rows, and without an
/// error (`netlink_dump` in net/netlink/af_netlink.c).
const LEGIBLE: usize = 32_000;

fn delete(buffer: &mut Vec<u8>, route: &Route, resolve: Resolve<'_>) -> Result<(), EncodeError> {
    if route.protocol == 0 {
        return Err(EncodeError::Refused("a route delete needs a protocol"));
    }
    if route.nexthops == NextHops::None && !route.kind.is_reject() {
        return Err(EncodeError::Refused("a route delete needs the next hops"));
    }
    // `RT_SCOPE_NOWHERE` is IPv4's wildcard; any other scope must match exactly.
    let mut message = begin(buffer, DELETE, 0, route, Scope::NOWHERE)?;
    if route.family() == Family::Inet6 && route.nexthops == NextHops::None {
        // IPv6 keeps reject routes on the loopback device, and compares it but no type.
        message.attr_u32(RTA_OIF, LOOPBACK);
    }
    write_hops(&mut message, route, resolve)?;
    message.finish()
}

fn put(
    buffer: &mut Vec<u8>,
    route: &Route,
    flags: u16,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    if route.unmodelled {
        return Err(EncodeError::Refused("a route with unknown attributes"));
    }
    let mut message = begin(buffer, NEW, flags, route, scope_of(route)?)?;
    write_hops(&mut message, route, resolve)?;
    write_metrics(&mut message, &route.metrics);
    message.finish()
}

fn scope_of(route: &Route) -> Result<Scope, EncodeError> {
    match route.family() {
        Family::Inet => route
            .scope
            .ok_or(EncodeError::Refused("an IPv4 route without scope is not in canonical form")),
        Family::Inet6 => Ok(Scope::UNIVERSE),
    }
}

#[cfg(feature = "packet")]
impl super::Announce for Route {
    /// Beside a nexthop object, the kernel reports the devices to which it leads.
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        let resolve = &super::existing;
        let mut message = begin(buffer, NEW, 0, self, scope_of(self)?)?;
        write_hops(&mut message, self, resolve)?;
        match &self.nexthops {
            NextHops::Object(_, devs) if devs.len() == 1 => {
                message.attr_u32(RTA_OIF, index_of(devs[0], resolve)?);
            }
            NextHops::Object(_, devs) if !devs.is_empty() => {
                let hops = devs.iter().map(|dev| trueup_net::NextHop::dev(*dev)).collect();
                let led_to = self.clone().with_nexthops(NextHops::Many(hops));
                write_hops(&mut message, &led_to, resolve)?;
            }
            _ => {}
        }
        write_metrics(&mut message, &self.metrics);
        message.finish()
    }

    fn attribute_of(&self, error: &EncodeError) -> &'static str {
        match (&self.nexthops, error) {
            (NextHops::Many(_), _) => "RTA_MULTIPATH",
            (_, EncodeError::Unresolved(_)) => "RTA_OIF",
            _ if self.from.is_some() => "RTA_SRC",
            _ => "RTA_PRIORITY",
        }
    }
}

/// Writes header and identity, which are the same for each change.
fn begin<'a>(
    buffer: &'a mut Vec<u8>,
    kind: u16,
    flags: u16,
    route: &Route,
    scope: Scope,
) -> Result<MessageWriter<'a>, EncodeError> {
    match route.family() {
        Family::Inet6 if route.metric == 0 => {
            return Err(EncodeError::Refused("an IPv6 route needs a metric"));
        }
        Family::Inet if route.from.is_some() => {
            return Err(EncodeError::Refused("an IPv4 route has no source prefix"));
        }
        _ => {}
    }
    let onlink = matches!(&route.nexthops, NextHops::One(hop) if hop.onlink);
    let rtm_flags = u32::from(if onlink { RTNH_F_ONLINK } else { 0 }).to_ne_bytes();
    let mut head = [
        family_number(route.family()),
        route.dst.len(),
        route.from.map_or(0, Prefix::len),
        route.tos,
        u8::try_from(route.table).unwrap_or(TABLE_UNSPEC),
        route.protocol,
        scope.0,
        route.kind.number(),
        0,
        0,
        0,
        0,
    ];
    head[8..].copy_from_slice(&rtm_flags);
    let mut message = MessageWriter::begin(buffer, kind, NLM_F_REQUEST | flags);
    message.body(&head);
    message.attr_u32(RTA_TABLE, route.table);
    if !route.dst.is_default() {
        message.attr_ip(RTA_DST, route.dst.address());
    }
    if let Some(from) = route.from {
        message.attr_ip(RTA_SRC, from.address());
    }
    if route.metric != 0 {
        message.attr_u32(RTA_PRIORITY, route.metric);
    }
    if let Some(src) = route.src {
        message.attr_ip(RTA_PREFSRC, src);
    }
    Ok(message)
}

fn write_hops(
    message: &mut MessageWriter<'_>,
    route: &Route,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    match &route.nexthops {
        NextHops::None => {}
        NextHops::Object(id, _) => message.attr_u32(RTA_NH_ID, *id),
        NextHops::One(hop) => {
            write_gateway(message, route.family(), hop.via);
            if let Some(dev) = hop.written_dev() {
                message.attr_u32(RTA_OIF, index_of(*dev, resolve)?);
            }
        }
        NextHops::Many(hops) => {
            let nest = message.nest_unflagged(RTA_MULTIPATH);
            for hop in hops {
                let dev = hop.written_dev();
                let index = dev.map_or(Ok(0), |dev| index_of(*dev, resolve))?;
                let hops = hop
                    .weight
                    .checked_sub(1)
                    .and_then(|n| u8::try_from(n).ok())
                    .ok_or(EncodeError::Refused("a weight is 1 to 256"))?;
                let flags = if hop.onlink { RTNH_F_ONLINK } else { 0 };
                let at = message.position();
                message.raw(&[0, 0, flags, hops]);
                message.raw(&index.to_ne_bytes());
                write_gateway(message, route.family(), hop.via);
                message.patch_u16(at);
            }
            if message.position() > LEGIBLE {
                return Err(EncodeError::Refused(
                    "so many next hops can be written but not read back: no dump holds more than \
                     some 2000 in IPv4 and 1100 in IPv6",
                ));
            }
            message.end_nest(nest);
        }
        _ => {
            return Err(EncodeError::Refused(
                "a route with this kind of next hops cannot be written",
            ));
        }
    }
    Ok(())
}

/// Writes a gateway of the route's own family, or (`RTA_VIA`) of the other.
fn write_gateway(message: &mut MessageWriter<'_>, family: Family, via: Option<IpAddr>) {
    match via {
        None => {}
        Some(address) if Family::of(address) == family => message.attr_ip(RTA_GATEWAY, address),
        Some(address) => {
            let number = u16::from(family_number(Family::of(address)));
            let mut bytes = [0; 18];
            bytes[..2].copy_from_slice(&number.to_ne_bytes());
            let used = match address {
                IpAddr::V4(address) => {
                    bytes[2..6].copy_from_slice(&address.octets());
                    6
                }
                IpAddr::V6(address) => {
                    bytes[2..].copy_from_slice(&address.octets());
                    18
                }
            };
            message.attr(RTA_VIA, &bytes[..used]);
        }
    }
}

fn write_metrics(message: &mut MessageWriter<'_>, metrics: &Metrics) {
    if metrics.is_empty() {
        return;
    }
    let nest = message.nest_unflagged(RTA_METRICS);
    if metrics.lock() != 0 {
        message.attr_u32(RTAX_LOCK, metrics.lock());
    }
    for (metric, value) in metrics.iter() {
        message.attr_u32(metric as u16, value);
    }
    if let Some(name) = metrics.congctl() {
        message.attr_string(RTAX_CC_ALGO, name.as_bytes());
    }
    message.end_nest(nest);
}

impl KindCodec for Route {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::IPV4_ROUTE, Group::IPV6_ROUTE];
    const ABSENT: i32 = libc::ESRCH;
    #[rustfmt::skip]
    const NAMES: WireNames = WireNames { fixed: "rtmsg", family: "rtm_family", prefix: "RTA_", attributes: &[
        "UNSPEC", "DST", "SRC", "IIF", "OIF", "GATEWAY", "PRIORITY", "PREFSRC", "METRICS", "MULTIPATH",
        "PROTOINFO", "FLOW", "CACHEINFO", "SESSION", "MP_ALGO", "TABLE", "MARK", "MFC_STATS", "VIA",
        "NEWDST", "PREF", "ENCAP_TYPE", "ENCAP", "EXPIRES", "PAD", "UID", "TTL_PROPAGATE", "IP_PROTO",
        "SPORT", "DPORT", "NH_ID", "FLOWLABEL",
    ] };

    /// Decodes the body of a [`NEW`] or [`DELETE`] message: [`Row::parse`] and [`Row::to_route`].
    ///
    /// # Errors
    ///
    /// If the message is too short or lacks the route's identity.
    fn decode(body: &[u8]) -> Result<Option<Route>, Undecodable> {
        Ok(Row::parse(body)?.map(|row| row.to_route()))
    }

    fn decode_row(
        body: &[u8],
        scope: &ReadScope,
        query: &DumpQuery,
    ) -> Result<(Option<Route>, Option<RowPosition>), Undecodable> {
        let row = Row::parse(body)?;
        let wanted = row.as_ref().filter(|row| row.is_within(scope, query));
        Ok((wanted.map(Row::to_route), row.as_ref().and_then(Row::position)))
    }

    fn dumps(scope: &ReadScope, is_strict: bool) -> Vec<DumpQuery> {
        let tables: Vec<Option<u32>> = match &scope.tables {
            Some(tables) => tables.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let mut queries = Vec::new();
        for family in scope.families() {
            for table in &tables {
                // The kernel answers a table that does not exist with `ENOENT`.
                let dumped = table.filter(|_| is_strict);
                let mut head = [0; 12];
                head[0] = family_number(family);
                head[5] = scope.protocol.filter(|_| is_strict).unwrap_or(0);
                let consistency = Consistency::Routes { family, table: dumped };
                let attr = dumped.map(|table| (RTA_TABLE, table));
                let query = DumpQuery::new(consistency, dump_request(GET, &head, attr));
                queries.push(DumpQuery { table: *table, ..query });
            }
        }
        queries
    }

    /// Without `NLM_F_EXCL` IPv6 would append a create's next hop to another writer's route. An
    /// update replaces the route with the key, with any owner: the kernel does not check the
    /// protocol. [`Part::Append`] adds an IPv4 route after others with its key. The first stays in
    /// effect, and the answer is `EEXIST` if one of them is the same. In IPv6 it would merge with
    /// the existing route.
    ///
    /// A delete states the route as observed: its protocol, type, metric, preferred source and all
    /// next hops, so that no other row matches. The kernel makes one exception: an IPv4 metric of 0
    /// means "any", the lowest first. If the route is gone already, a row with the same protocol,
    /// type and next hops but another metric goes.
    fn encode(
        buffer: &mut Vec<u8>,
        part: Part,
        change: &Change<'_, Route>,
    ) -> Result<(), EncodeError> {
        let (route, resolve) = (change.object, change.resolve);
        match (change.action, part) {
            (Action::Create, Part::Append) => {
                put(buffer, route, NLM_F_CREATE | NLM_F_APPEND, resolve)
            }
            (Action::Create, _) => put(buffer, route, CREATE, resolve),
            (Action::Update, _) => put(buffer, route, REPLACE, resolve),
            (Action::Delete, _) => delete(buffer, route, resolve),
        }
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        if action == Action::Delete || error.errno() != libc::EINVAL {
            return None;
        }
        // An IPv6 address is no source of routes before duplicate address detection ends.
        let has_ipv6_source = self.src.is_some() && self.family() == Family::Inet6;
        // Another writer deleted the nexthop object that the route uses.
        let has_object = matches!(self.nexthops, NextHops::Object(..));
        (has_ipv6_source || has_object).then_some(RefusalCause::Dependency)
    }
}

impl Row<'_> {
    /// Returns true if the route is in a scope and in the table of a query.
    #[must_use]
    #[inline]
    pub fn is_within(&self, scope: &ReadScope, query: &DumpQuery) -> bool {
        let row = self.common();
        query.table.is_none_or(|table| row.table == table)
            && scope.protocol.is_none_or(|protocol| row.protocol == protocol)
    }

    /// Returns the row's position in its dump. `None` for IPv6, where the kernel counts rows.
    #[must_use]
    #[inline]
    pub fn position(&self) -> Option<RowPosition> {
        let row = self.common();
        (row.family == Family::Inet).then_some((row.table, row.dst as u32))
    }
}

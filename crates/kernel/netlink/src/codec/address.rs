//! Addresses (`ifaddrmsg`, linux/if_addr.h).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnetwork::IpNetwork;
use trueup_net::{
    Action, Address, AddressFlags, Dev, DuplicateDetection, FOREVER, Family, Kind, Label,
    Lifetimes, Link, LostRoutes, Scope,
};

use super::dump_query::{Consistency, DumpQuery, ReadScope, dump_request};
use super::kind_codec::{Change, KindCodec, Part, RefusalCause};
use super::{
    BROKEN, CREATE, EncodeError, REPLACE, Resolve, Undecodable, WireNames, family_from,
    family_number, index_of, read_ip_of, split, take,
};
use crate::kernel_error::KernelError;
use crate::transport::Group;
use crate::wire::{MessageWriter, NLM_F_REQUEST, read_ipv4, read_string, read_u8, read_u32};

/// `RTM_NEWADDR`.
pub const NEW: u16 = 20;
/// `RTM_DELADDR`.
pub const DELETE: u16 = 21;
/// `RTM_GETADDR`.
pub const GET: u16 = 22;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_LABEL: u16 = 3;
const IFA_BROADCAST: u16 = 4;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFA_RT_PRIORITY: u16 = 9;
const IFA_PROTO: u16 = 11;

/// In IPv4. The same bit in IPv6 is [`IFA_F_TEMPORARY`].
const IFA_F_SECONDARY: u32 = 0x01;
const IFA_F_TEMPORARY: u32 = 0x01;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_TENTATIVE: u32 = 0x40;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_PERMANENT: u32 = 0x80;
/// `IFAPROT_KERNEL_RA`: the kernel made it from a router advertisement.
const PROTO_KERNEL_RA: u8 = 2;

impl KindCodec for Address {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::IPV4_ADDRESS, Group::IPV6_ADDRESS];
    const ABSENT: i32 = libc::EADDRNOTAVAIL;
    #[rustfmt::skip]
    const NAMES: WireNames = WireNames { fixed: "ifaddrmsg", family: "ifa_family", prefix: "IFA_", attributes: &[
        "UNSPEC", "ADDRESS", "LOCAL", "LABEL", "BROADCAST", "ANYCAST", "CACHEINFO", "MULTICAST",
        "FLAGS", "RT_PRIORITY", "TARGET_NETNSID", "PROTO",
    ] };

    /// Decodes the body of an [`NEW`] or [`DELETE`] message. Returns `None` for a family other than
    /// IPv4 and IPv6. The message lacks the device's name, so an IPv4 label equal to it remains a
    /// label. Make the address canonical again once the name is known.
    ///
    /// A temporary IPv6 address (RFC 8981) inherits the protocol of the address beside which the
    /// kernel made it. It is decoded with the protocol of addresses from router advertisements
    /// instead, to show the kernel as its maker.
    ///
    /// # Errors
    ///
    /// If the message is too short or lacks the address's identity.
    fn decode(body: &[u8]) -> Result<Option<Address>, Undecodable> {
        let (head, mut attrs) = split::<8>(Kind::Address, body)?;
        let [family, prefix_len, flags, scope, index @ ..] = head;
        let Some(family) = family_from(family) else {
            return Ok(None);
        };

        let mut flags = u32::from(flags);
        let (mut local, mut remote) = (None, None);
        let mut label = None;
        let mut broadcast = None;
        let mut lifetimes = Lifetimes::default();
        let (mut metric, mut protocol) = (0, 0);
        for (number, payload) in attrs.by_ref() {
            match number {
                IFA_LOCAL => {
                    let read = read_ip_of(family, payload);
                    local = Some(read.ok_or(lost("address", "IFA_LOCAL"))?);
                }
                IFA_ADDRESS => {
                    let read = read_ip_of(family, payload);
                    remote = Some(read.ok_or(lost("peer", "IFA_ADDRESS"))?);
                }
                IFA_LABEL => label = Label::from_bytes(read_string(payload)).ok(),
                IFA_BROADCAST => broadcast = read_ipv4(payload),
                IFA_FLAGS => _ = take(&mut flags, read_u32(payload)),
                IFA_CACHEINFO => _ = take(&mut lifetimes, read_lifetimes(payload)),
                IFA_RT_PRIORITY => _ = take(&mut metric, read_u32(payload)),
                IFA_PROTO => _ = take(&mut protocol, read_u8(payload)),
                _ => {}
            }
        }
        if attrs.malformed() {
            return Err(Undecodable::whole(Kind::Address, BROKEN));
        }

        let (ip, peer) = match (local, remote, family) {
            // IPv4 omits a peer of 0.0.0.0. An address without a peer has the local address twice.
            (Some(local), None, Family::Inet) => (local, Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
            (Some(local), peer, _) => (local, peer),
            (None, Some(address), _) => (address, None),
            (None, None, _) => return Err(lost("address", "IFA_ADDRESS")),
        };
        let network =
            IpNetwork::new(ip, prefix_len).map_err(|_| lost("prefix length", "ifa_prefixlen"))?;
        if flags & IFA_F_PERMANENT != 0 {
            lifetimes.valid = FOREVER;
        }
        // Some kernels report a deprecated permanent IPv4 address as preferred for ever.
        if flags & IFA_F_DEPRECATED != 0 {
            lifetimes.preferred = 0;
        }
        if family == Family::Inet6 && flags & IFA_F_TEMPORARY != 0 {
            protocol = PROTO_KERNEL_RA;
        }
        let duplicates = match family {
            Family::Inet6 if flags & IFA_F_DADFAILED != 0 => DuplicateDetection::Failed,
            Family::Inet6 if flags & IFA_F_TENTATIVE != 0 => DuplicateDetection::Pending,
            _ => DuplicateDetection::Passed,
        };
        let mut address = Address::new(Dev::index(u32::from_ne_bytes(index)), network)
            .with_scope(Scope(scope))
            .with_lifetimes(lifetimes)
            .with_flags(AddressFlags::from_bits(flags))
            .with_metric(metric)
            .with_protocol(protocol)
            .with_duplicates(duplicates)
            .with_secondary(family == Family::Inet && flags & IFA_F_SECONDARY != 0);
        (address.peer, address.label, address.broadcast) = (peer, label, broadcast);
        Ok(Some(address.canonical(None)))
    }

    fn dumps(scope: &ReadScope, is_strict: bool) -> Vec<DumpQuery> {
        let index = scope.only_device().filter(|_| is_strict);
        [Family::Inet, Family::Inet6]
            .map(|family| {
                let head = header(family, 0, 0, Scope::UNIVERSE, index.unwrap_or(0));
                DumpQuery::new(Consistency::Flagged, dump_request(GET, &head, None))
            })
            .into()
    }

    fn is_within(&self, scope: &ReadScope) -> bool {
        scope.covers_device(self.dev)
    }

    /// Makes labels canonical, which needs the names of the devices.
    fn complete(addresses: &mut Vec<Address>, links: &[Link]) {
        let names: BTreeMap<u32, _> = links.iter().map(|link| (link.index, link.name)).collect();
        let all = std::mem::take(addresses);
        addresses.extend(all.into_iter().map(|address| {
            let name = address.dev.as_index().and_then(|index| names.get(&index));
            address.canonical(name)
        }));
    }

    /// The kernel gives an IPv4 address the route to its subnet again if the metric changes
    /// (`fib_modify_prefix_metric`), an IPv6 address at each write.
    ///
    /// If a permanent address becomes finite, the kernel computes its subnet route's expiry
    /// wrongly, in the past (`modify_prefix_route`). So a first part takes the route from the
    /// address. The second makes the kernel give it a new route with the right expiry, or leave
    /// another address's route if this one has none.
    fn parts(action: Action, address: &Address, was: Option<&Address>) -> &'static [Part] {
        let Some(was) = was.filter(|_| action == Action::Update) else {
            return &[Part::Whole];
        };
        if address.family() == Family::Inet && was.lost == LostRoutes::Subnet {
            return &[Part::OtherMetric, Part::Whole];
        }
        let have_routes = [was, address].iter().all(|it| {
            it.family() == Family::Inet6 && !it.flags.contains(AddressFlags::NOPREFIXROUTE)
        });
        if have_routes && was.lifetimes.valid == FOREVER && address.lifetimes.valid != FOREVER {
            return &[Part::WithoutPrefixRoute, Part::Whole];
        }
        &[Part::Whole]
    }

    /// A create always writes the lifetimes. For a permanent IPv4 address the kernel shows no
    /// preferred lifetime until it has run out. For an update the kernel uses lifetimes, metric and
    /// protocol, in IPv6 also flags and peer, and ignores the rest. IPv6 takes a metric of 0 for
    /// "unchanged".
    /// The kernel answers such a request only for IPv6 (`inet6_rtm_getaddr`).
    fn encode_query(&self, buffer: &mut Vec<u8>) -> Result<bool, EncodeError> {
        if self.family() == Family::Inet {
            return Ok(false);
        }
        let index = index_of(self.dev, &|dev| dev.as_index())?;
        let mut message = MessageWriter::begin(buffer, GET, NLM_F_REQUEST);
        message.body(&header(Family::Inet6, 0, 0, Scope::UNIVERSE, index));
        message.attr_ip(IFA_ADDRESS, self.address.ip());
        message.finish()?;
        Ok(true)
    }

    fn encode(
        buffer: &mut Vec<u8>,
        part: Part,
        change: &Change<'_, Address>,
    ) -> Result<(), EncodeError> {
        let (address, resolve) = (change.object, change.resolve);
        if let (Part::WithoutPrefixRoute, Some(was)) = (part, change.was) {
            let without = was.clone().with_flags(was.flags | AddressFlags::NOPREFIXROUTE);
            return put(buffer, &without, REPLACE, 0, resolve);
        }
        if part == Part::OtherMetric {
            let other = address.clone().with_metric(address.metric.wrapping_add(1));
            return put(buffer, &other, REPLACE, 0, resolve);
        }
        match change.action {
            Action::Create => put(buffer, address, CREATE, 0, resolve),
            Action::Update => put(buffer, address, REPLACE, 0, resolve),
            Action::Delete => {
                let mut message = begin(buffer, DELETE, 0, address, 0, resolve)?;
                if address.family() == Family::Inet6 {
                    // Older kernels keep the temporary addresses beside it after a write without
                    // `IFA_F_MANAGETEMPADDR`.
                    message.attr_u32(IFA_FLAGS, address.flags.bits());
                }
                message.finish()
            }
        }
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        match (action, error.errno()) {
            (Action::Delete, _) => None,
            // The device cannot have it: the loopback address of IPv6 on another device than
            // loopback (`ipv6_add_addr`).
            (_, libc::EADDRNOTAVAIL) => Some(RefusalCause::Invalid),
            // IPv6 is switched off on the device.
            (_, libc::EACCES) => Some(RefusalCause::Dependency),
            _ => None,
        }
    }
}

#[cfg(feature = "packet")]
impl super::Announce for Address {
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError> {
        let status = super::flags_of([
            (self.lifetimes.valid == FOREVER, IFA_F_PERMANENT),
            (self.lifetimes.preferred == 0, IFA_F_DEPRECATED),
            (self.secondary, IFA_F_SECONDARY),
            (self.duplicates == DuplicateDetection::Failed, IFA_F_DADFAILED),
            (self.duplicates == DuplicateDetection::Pending, IFA_F_TENTATIVE),
        ]);
        put(buffer, self, 0, status, &super::existing)
    }

    fn attribute_of(&self, _error: &EncodeError) -> &'static str {
        "ifa_index"
    }
}

fn lost(why: &'static str, attribute: &'static str) -> Undecodable {
    Undecodable::new(Kind::Address, why, attribute)
}

/// Writes an address with its configuration. `status` has the flags that only the kernel sets.
fn put(
    buffer: &mut Vec<u8>,
    address: &Address,
    flags: u16,
    status: u32,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let mut message = begin(buffer, NEW, flags, address, status, resolve)?;
    if let (Family::Inet, Some(broadcast)) = (address.family(), address.broadcast) {
        message.attr_ip(IFA_BROADCAST, IpAddr::V4(broadcast));
    }
    let mut cache_info = [0; 16];
    cache_info[..4].copy_from_slice(&address.lifetimes.preferred.to_ne_bytes());
    cache_info[4..8].copy_from_slice(&address.lifetimes.valid.to_ne_bytes());
    message.attr(IFA_CACHEINFO, &cache_info);
    message.attr_u32(IFA_FLAGS, address.flags.bits() | status);
    if address.metric != 0 {
        message.attr_u32(IFA_RT_PRIORITY, address.metric);
    }
    if address.protocol != 0 {
        message.attr_u8(IFA_PROTO, address.protocol);
    }
    message.finish()
}

/// Writes header and identity, which are the same for each change.
fn begin<'a>(
    buffer: &'a mut Vec<u8>,
    kind: u16,
    flags: u16,
    address: &Address,
    status: u32,
    resolve: Resolve<'_>,
) -> Result<MessageWriter<'a>, EncodeError> {
    let index = index_of(address.dev, resolve)?;
    let ip = address.address.ip();
    let mut message = MessageWriter::begin(buffer, kind, NLM_F_REQUEST | flags);
    message.body(&header(
        address.family(),
        address.address.prefix(),
        (address.flags.bits() | status).to_le_bytes()[0],
        address.scope,
        index,
    ));
    message.attr_ip(IFA_LOCAL, ip);
    message.attr_ip(IFA_ADDRESS, address.peer.unwrap_or(ip));
    if let (Family::Inet, Some(label)) = (address.family(), &address.label) {
        message.attr_string(IFA_LABEL, label.as_bytes());
    }
    Ok(message)
}

fn header(family: Family, prefix_len: u8, flags: u8, scope: Scope, index: u32) -> [u8; 8] {
    let [a, b, c, d] = index.to_ne_bytes();
    [family_number(family), prefix_len, flags, scope.0, a, b, c, d]
}

/// Reads `struct ifa_cacheinfo`: preferred and valid lifetime, then the times of creation and
/// change.
fn read_lifetimes(payload: &[u8]) -> Option<Lifetimes> {
    Some(Lifetimes {
        preferred: read_u32(payload.get(..4)?)?,
        valid: read_u32(payload.get(4..8)?)?,
    })
}

//! Owners, origins, protocols and keys in words.

use trueup::net::{Dev, Devices, IfName, Kind, Object, ObjectKey, ObjectKind as _, with_object};
use trueup::rtnl::{Entry, Explained, Origin, Step, Whose};

use super::WhyContext;
use crate::output::clean;

pub(super) fn nothing_words(nothing: &Step, kind: Kind) -> String {
    match nothing {
        Step::Unmanaged => format!("the file has no {kind} section, so they are not managed"),
        Step::AsDesired => "it is as declared".to_owned(),
        Step::SatisfiedByForeign => "it is as declared: satisfied by a foreign object".to_owned(),
        Step::Foreign => "it is not ours, and not declared".to_owned(),
        Step::Absent => "it is not there, and not declared".to_owned(),
        Step::Along => "it comes or goes along with a link".to_owned(),
        Step::OtherEnd => "it is the other end of a declared pair".to_owned(),
        Step::Unread => format!("objects of kind {kind} could not be read whole"),
        _ => String::new(),
    }
}

/// Returns an object's owner, with the proof.
pub(super) fn whose_words(
    whose: Whose,
    object: &Object,
    explained: &Explained,
    context: &WhyContext<'_>,
) -> String {
    let marker = context.marker;
    let kind = object.kind();
    match whose {
        Whose::Marked => format!("ours: it bears our marker, protocol {marker}"),
        Whose::Recorded => match protocol_of(object) {
            Some(0) => "ours: it is in the ledger; it bears no protocol".to_owned(),
            Some(protocol) => {
                format!("ours: it is in the ledger; it bears {}", protocol_words(protocol, kind))
            }
            None => "ours: it is in the ledger".to_owned(),
        },
        Whose::Kernels => match protocol_of(object) {
            None | Some(0) => "the kernel's own".to_owned(),
            Some(protocol) => {
                format!("the kernel's own: {}", protocol_words(protocol, kind))
            }
        },
        Whose::Passing => "the kernel's own, and temporary: no writer declared it".to_owned(),
        Whose::Rewritten => {
            let recorded = explained.entry.as_ref().map(|entry| &entry.object);
            let record = match (recorded, object) {
                (Some(Object::Link(recorded)), Object::Link(link)) => format!(
                    "has one of index {}, and this is another, of index {}",
                    recorded.index, link.index
                ),
                (Some(recorded), _) => format!(
                    "has it with {}, and another writer has changed it since, with {}",
                    protocol_words(protocol_of(recorded).unwrap_or(0), kind),
                    protocol_words(protocol_of(object).unwrap_or(0), kind)
                ),
                (None, _) => "has another".to_owned(),
            };
            format!("not ours any more: the ledger {record}")
        }
        Whose::MarkUnproven => format!(
            "foreign: it bears our marker, protocol {marker}, which proves nothing here, and it is not in the ledger"
        ),
        Whose::OutsideDomain => {
            "foreign: it is outside of the domain that this file speaks for".to_owned()
        }
        Whose::Unmarked if kind == Kind::Link => "foreign: it is not in the ledger".to_owned(),
        Whose::Unmarked => "foreign: it bears no protocol, and is not in the ledger".to_owned(),
        Whose::Others { protocol } => {
            format!("foreign: it bears {}", protocol_words(protocol, kind))
        }
        _ => String::new(),
    }
}

pub(super) fn origin_words(entry: &Entry, devices: &Devices) -> String {
    match (entry.origin, &entry.former) {
        (Origin::Made, _) => "made by us".to_owned(),
        (Origin::Adopted, _) => "adopted: it existed before, as declared".to_owned(),
        (Origin::Overridden, Some(former)) => {
            format!("overridden; restored once it is no longer declared: {}", former.spec(devices))
        }
        (Origin::Overridden, None) => "overridden".to_owned(),
        _ => "made by us, or adopted".to_owned(),
    }
}

/// Returns the protocol number of an object. `None` for links, which have none.
pub(super) fn protocol_of(object: &Object) -> Option<u8> {
    with_object!(object, it: K => K::BEARS_PROTOCOL.then(|| it.protocol()))
}

/// Returns a protocol's number and name.
fn protocol_words(protocol: u8, kind: Kind) -> String {
    match protocol_name(protocol, kind) {
        Some(name) => format!("protocol {protocol} ({name})"),
        None => format!("protocol {protocol}"),
    }
}

/// Returns a protocol's name in the kernel's headers: `RTPROT_*` in linux/rtnetlink.h, `IFAPROT_*`
/// in linux/if_addr.h.
pub(super) fn protocol_name(protocol: u8, kind: Kind) -> Option<&'static str> {
    Some(match (protocol, kind) {
        (0, _) => "none",
        (1, Kind::Address) => "kernel_lo",
        (2, Kind::Address) => "kernel_ra",
        (3, Kind::Address) => "kernel_ll",
        (1, _) => "redirect",
        (2, _) => "kernel",
        (3, _) => "boot",
        (4, _) => "static",
        (8, _) => "gated",
        (9, _) => "ra",
        (10, _) => "mrt",
        (11, _) => "zebra",
        (12, _) => "bird",
        (13, _) => "dnrouted",
        (14, _) => "xorp",
        (15, _) => "ntk",
        (16, _) => "dhcp",
        (17, _) => "mrouted",
        (18, _) => "keepalived",
        (42, _) => "babel",
        (84, _) => "ovn",
        (99, _) => "openr",
        (186, _) => "bgp",
        (187, _) => "isis",
        (188, _) => "ospf",
        (189, _) => "rip",
        (192, _) => "eigrp",
        _ => return None,
    })
}

/// Returns a key in iproute2's words.
pub(super) fn title(key: &ObjectKey, devices: &Devices) -> String {
    match key {
        ObjectKey::Link(name) => format!("link {}", shown(name)),
        ObjectKey::Address(key) => {
            let len = match key.subnet {
                Some(subnet) => format!("/{}", subnet.len()),
                None => String::new(),
            };
            format!("address {}{len} dev {}", key.address, device(key.dev, devices))
        }
        ObjectKey::Neighbour(key) => {
            let proxy = if key.proxy { "proxy " } else { "" };
            format!("neighbour {proxy}{} dev {}", key.dst, device(key.dev, devices))
        }
        ObjectKey::Route(key) => {
            let mut words = format!("route {}", key.dst);
            if let Some(from) = key.from {
                words += &format!(" from {from}");
            }
            if key.tos != 0 {
                words += &format!(" tos {:#x}", key.tos);
            }
            if key.metric != 0 {
                words += &format!(" metric {}", key.metric);
            }
            words + &format!(" table {}", key.table)
        }
        // A rule looks the same for every owner.
        ObjectKey::Rule(rule) => {
            let words = Object::Rule(rule.clone()).spec(devices);
            format!("rule {}", words.replace(" protocol 0", ""))
        }
        ObjectKey::Nexthop(id) => format!("nexthop id {id}"),
        other => format!("{} {other:?}", other.kind()),
    }
}

fn device(dev: Dev, devices: &Devices) -> String {
    devices.name(dev).map_or_else(|| format!("{dev:?}"), shown)
}

/// Returns a name without control characters of terminals.
fn shown(name: &IfName) -> String {
    clean(&name.to_string()).into_owned()
}

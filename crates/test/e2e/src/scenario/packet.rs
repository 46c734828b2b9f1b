//! Checks with every row that the kernel dumps in a scenario: netlink-packet-route's messages and
//! trueup's objects convert into each other without a loss.

use netlink_packet_core::Parseable as _;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::neighbour::NeighbourMessage;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::rule::RuleMessage;
use trueup_net::{Address, Link, Neighbour, Nexthop, Route, Rule};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::packet::{NexthopMessage, Packet};
use trueup_netlink::wire::HEADER_LEN;
use trueup_testkit::{Kind, RawMessage, raw_dump, raw_dump_proxies};

const INET: u8 = 2;
const INET6: u8 = 10;
const BRIDGE: u8 = 7;

/// The attributes whose values the objects of each kind have whole. Others are status, have no
/// field, or have values that the model stores in another form, such as an IPv6 metric of 0.
const HELD: [(Kind, &[&str]); 6] = [
    (
        Kind::Link,
        &["IFLA_IFNAME", "IFLA_MTU", "IFLA_MASTER", "IFLA_ADDRESS", "IFLA_IFALIAS", "IFLA_GROUP"],
    ),
    (
        Kind::Address,
        &["IFA_ADDRESS", "IFA_LOCAL", "IFA_LABEL", "IFA_BROADCAST", "IFA_RT_PRIORITY", "IFA_PROTO"],
    ),
    (Kind::Neighbour, &["NDA_DST", "NDA_LLADDR", "NDA_PROTOCOL"]),
    (Kind::Nexthop, &["NHA_ID", "NHA_BLACKHOLE", "NHA_OIF", "NHA_GATEWAY"]),
    (Kind::Route, &["RTA_TABLE", "RTA_DST", "RTA_SRC", "RTA_PREFSRC", "RTA_METRICS", "RTA_NH_ID"]),
    (
        Kind::Rule,
        &[
            "FRA_PRIORITY",
            "FRA_DST",
            "FRA_SRC",
            "FRA_IIFNAME",
            "FRA_OIFNAME",
            "FRA_GOTO",
            "FRA_FWMARK",
            "FRA_FWMASK",
            "FRA_UID_RANGE",
            "FRA_IP_PROTO",
            "FRA_SPORT_RANGE",
            "FRA_DPORT_RANGE",
            "FRA_SUPPRESS_IFGROUP",
        ],
    ),
];

/// Converts every row of the calling thread's namespace.
///
/// # Errors
///
/// The first row that comes out differently.
pub(super) fn check() -> Result<(), String> {
    for kind in Kind::ALL {
        let families: &[u8] = match kind {
            Kind::Link | Kind::Nexthop => &[0],
            Kind::Neighbour => &[INET, INET6, BRIDGE],
            _ => &[INET, INET6],
        };
        for &family in families {
            let mut rows = raw_dump(kind, family);
            if kind == Kind::Neighbour && family != BRIDGE {
                rows.extend(raw_dump_proxies(family));
            }
            for row in &rows {
                check_row(row).map_err(|why| format!("{why}\nthe row: {row:?}"))?;
            }
        }
    }
    Ok(())
}

macro_rules! there_and_back {
    ($row:expr, $object:ident, $message:ident) => {{
        let body = &$row.encode(0, 0, 0)[HEADER_LEN..];
        let ours = $object::decode(body).map_err(|error| error.to_string())?;
        let message = $message::parse(body).map_err(|error| error.to_string())?;
        let packet = match (Packet::<$object>::try_from(&message), ours) {
            (Err(error), None) if error.is_other_family() => return Ok(()),
            (Err(error), _) => return Err(error.to_string()),
            (Ok(packet), ours) if Some(packet.object()) == ours.as_ref() => packet,
            (Ok(packet), ours) => {
                return Err(format!("{:?} was read, not {ours:?}", packet.object()));
            }
        };
        let again = $message::try_from(&packet).map_err(|error| error.to_string())?;
        if again != message {
            return Err(format!("{again:?} was written, not {message:?}"));
        }
        let held = HELD.iter().find(|(kind, _)| *kind == $row.kind).map_or(&[][..], |(_, it)| it);
        if let Some(lost) = packet.rest().find(|name| held.contains(&name.as_str())) {
            return Err(format!("{:?} lacks {lost}", packet.object()));
        }
        packet
    }};
}

/// Converts the object alone to a message and back.
macro_rules! alone {
    ($object:expr, $kind:ident, $message:ident) => {{
        let object: $kind = $object;
        let message = $message::try_from(&Packet::from(object.clone()))
            .map_err(|error| format!("{object:?}: {error}"))?;
        let read = Packet::<$kind>::try_from(&message).map_err(|error| error.to_string())?;
        if *read.object() != object {
            return Err(format!("{object:?} became {:?}", read.object()));
        }
    }};
}

fn check_row(row: &RawMessage) -> Result<(), String> {
    match row.kind {
        Kind::Link => {
            alone!(there_and_back!(row, Link, LinkMessage).into_object(), Link, LinkMessage);
        }
        Kind::Address => alone!(
            there_and_back!(row, Address, AddressMessage).into_object(),
            Address,
            AddressMessage
        ),
        Kind::Neighbour => alone!(
            there_and_back!(row, Neighbour, NeighbourMessage).into_object(),
            Neighbour,
            NeighbourMessage
        ),
        Kind::Route => {
            let route = there_and_back!(row, Route, RouteMessage).into_object();
            alone!(route.with_unmodelled(false), Route, RouteMessage);
        }
        Kind::Rule => {
            let rule = there_and_back!(row, Rule, RuleMessage).into_object();
            alone!(rule.with_unmodelled(false), Rule, RuleMessage);
        }
        Kind::Nexthop => {
            let nexthop = there_and_back!(row, Nexthop, NexthopMessage).into_object();
            alone!(nexthop.with_unmodelled(false), Nexthop, NexthopMessage);
        }
    }
    Ok(())
}

//! The values of the kernel's network: addresses, prefixes, names, and numbers with names.

use std::net::IpAddr;
use std::str::FromStr;

use trueup_net::{
    DEFAULT_PROTOCOL, Family, IfName, IpNetwork, Label, LinkAddr, ParseError, Prefix, Protocols,
    Scope,
};

use super::number::in_range;
use super::{bytes, bytes_node, known_word, number, one_of, text};
use crate::suggest::unknown;
use crate::tables::TableNames;
use crate::value::{Node, Result, Value, fault};

/// The words of iproute2 for scopes.
const SCOPES: [(&str, Scope); 5] = [
    ("global", Scope::UNIVERSE),
    ("site", Scope::SITE),
    ("link", Scope::LINK),
    ("host", Scope::HOST),
    ("nowhere", Scope::NOWHERE),
];

/// The IP protocols that are usual in rules, by their names in IANA's registry.
const IP_PROTOCOLS: [(&str, u8); 18] = [
    ("icmp", 1),
    ("igmp", 2),
    ("ipip", 4),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("pim", 103),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];

/// Reads a string that parses as `T`.
fn parsed<T: FromStr<Err = ParseError>>(value: &Value<'_>, expected: &str) -> Result<T> {
    let text = text(value, expected)?;
    text.parse().or_else(|error: ParseError| fault(value.at, error.to_string()))
}

/// Reads an IP address without a prefix length.
pub(crate) fn address(value: &Value<'_>) -> Result<IpAddr> {
    let text = text(value, "an address, such as \"10.0.0.1\"")?;
    text.parse().or_else(|_| {
        let bare = text.split('/').next().unwrap_or_default();
        let message = match bare.parse::<IpAddr>() {
            Ok(bare) => format!("a prefix length does not belong here: write \"{bare}\""),
            Err(_) => format!(
                "`{text}` is not an address: write one such as \"10.0.0.1\" or \"2001:db8::1\""
            ),
        };
        fault(value.at, message)
    })
}

/// Reads an address with its prefix length, host bits included. Without a length, the value is a
/// single address.
pub(crate) fn network(value: &Value<'_>) -> Result<IpNetwork> {
    parse_network(value, "an address with its prefix length, such as \"10.0.0.1/24\"")
}

/// Reads a prefix without host bits.
pub(crate) fn prefix(value: &Value<'_>) -> Result<Prefix> {
    let network = parse_network(value, "a prefix, such as \"10.0.0.0/8\"")?;
    Prefix::try_from(network).or_else(|error| fault(value.at, error.to_string()))
}

fn parse_network(value: &Value<'_>, expected: &str) -> Result<IpNetwork> {
    let given = text(value, expected)?;
    let (address, digits) = match given.split_once('/') {
        Some((address, digits)) => (address, Some(digits)),
        None => (given, None),
    };
    let is_right = digits.is_none_or(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()));
    let Some(address) = address.parse::<IpAddr>().ok().filter(|_| is_right) else {
        return fault(value.at, ParseError::Prefix(given.to_owned()).to_string());
    };
    let family = Family::of(address);
    // A length that does not fit is out of range.
    let len = digits.map_or(family.max_len(), |digits| digits.parse().unwrap_or(u8::MAX));
    IpNetwork::new(address, len)
        .or_else(|_| fault(value.at, ParseError::PrefixLength { family, len }.to_string()))
}

/// Reads an interface name: a string, or a list of bytes if it is not UTF-8.
pub(crate) fn name(value: &Value<'_>) -> Result<IfName> {
    match &value.node {
        Node::List(_) => IfName::from_bytes(&bytes(value, "an interface name")?)
            .or_else(|error| fault(value.at, error.to_string())),
        _ => parsed(value, "an interface name"),
    }
}

/// The reverse of [`name`].
pub(crate) fn name_node(name: &IfName) -> Node<'static> {
    bytes_node(name.as_bytes())
}

/// Reads the label of an address, in the same two forms.
pub(crate) fn label(value: &Value<'_>) -> Result<Label> {
    Label::from_bytes(&bytes(value, "a label")?).or_else(|error| fault(value.at, error.to_string()))
}

/// Reads a hardware address.
pub(crate) fn lladdr(value: &Value<'_>) -> Result<LinkAddr> {
    parsed(value, "a hardware address, such as \"02:00:00:00:00:09\"")
}

/// Reads `inet` or `inet6`.
pub(crate) fn family(value: &Value<'_>) -> Result<Family> {
    let families = [Family::Inet, Family::Inet6].map(|family| (family.name(), family));
    one_of(value, "family", &families)
}

/// Reads a scope: a word or a number.
pub(crate) fn scope(value: &Value<'_>) -> Result<Scope> {
    match &value.node {
        Node::Integer(number) => in_range(value.at, *number, &(0..=255)).map(Scope),
        _ => one_of(value, "scope", &SCOPES),
    }
}

/// The reverse of [`scope`].
pub(crate) fn scope_node(scope: Scope) -> Node<'static> {
    known_word(scope, &SCOPES).unwrap_or(Node::Integer(scope.0.into()))
}

/// Reads an IP protocol: a name or a number.
pub(crate) fn ip_protocol(value: &Value<'_>) -> Result<u8> {
    match &value.node {
        Node::Integer(number) => in_range(value.at, *number, &(1..=255)),
        _ => one_of(value, "ipproto", &IP_PROTOCOLS),
    }
}

/// The reverse of [`ip_protocol`].
pub(crate) fn ip_protocol_node(number: u8) -> Node<'static> {
    known_word(number, &IP_PROTOCOLS).unwrap_or(Node::Integer(number.into()))
}

/// Reads a routing table: a number or a name.
pub(crate) fn table<'t>(tables: &'t TableNames) -> impl Fn(&Value<'_>) -> Result<u32> + use<'t> {
    move |value| match &value.node {
        Node::Integer(number) => in_range(value.at, *number, &(1..=u32::MAX)),
        Node::Text(name) => match tables.number(name) {
            Some(number) => Ok(number),
            None => {
                let known: Vec<&str> = tables.names().collect();
                let message = unknown("table", name, "", &known);
                let number = if message.ends_with('?') { "" } else { ", or a number" };
                fault(value.at, message + number)
            }
        },
        _ => value.unexpected("a table's number from 1 to 4294967295, or its name"),
    }
}

/// Reads a marker (`rtm_protocol`). Some numbers prove nothing (`RTPROT_*` in
/// `include/uapi/linux/rtnetlink.h`). The kernel uses 0 to 3 and 9 for its own objects and for
/// those without a given protocol. `ip` and routing daemons use 4 for objects that are written by
/// hand.
pub(crate) fn marker(value: &Value<'_>) -> Result<u8> {
    let (number, owner) = match value.node {
        Node::Integer(0) => (0, "unspec"),
        Node::Integer(1) => (1, "redirect"),
        Node::Integer(2) => (2, "kernel"),
        Node::Integer(3) => (3, "boot"),
        Node::Integer(4) => (4, "static"),
        Node::Integer(9) => (9, "ra"),
        _ => return number(5..=u8::MAX)(value),
    };
    let message = format!(
        "{number} ({owner}) cannot be a marker, as the kernel and objects made by hand bear 0 to 4 \
         and 9: write a number from 5 to 255 that no other program here uses; {} to {} are \
         unassigned, {DEFAULT_PROTOCOL} is the default",
        Protocols::UNASSIGNED.start(),
        Protocols::UNASSIGNED.end(),
    );
    fault(value.at, message)
}

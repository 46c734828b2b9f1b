//! Single values: numbers, addresses, prefixes, names. A function reads one value, and its fault
//! says what to write; the function beside it with `_node` in its name does the reverse.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use trueup_diff::{
    DEFAULT_PROTOCOL, FOREVER, Family, IfName, IpNetwork, Label, LinkAddr, ParseError, Prefix,
    Scope,
};

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

/// The IP protocols that rules are written for, by their names in IANA's registry.
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

/// Reads a string.
pub(crate) fn text<'v>(value: &'v Value<'_>, expected: &str) -> Result<&'v str> {
    match &value.node {
        Node::Text(text) => Ok(text),
        _ => value.unexpected(expected),
    }
}

/// The length of the longest name of an element, in bytes.
const MAX_NAME: usize = 255;

/// Reads the name of an element of the file, which is no name of the kernel's.
pub(crate) fn element_name(value: &Value<'_>) -> Result<String> {
    let name = text(value, "a name, such as \"pods\"")?;
    match name.len() {
        1..=MAX_NAME => Ok(name.to_owned()),
        _ => fault(
            value.at,
            format!("a name has 1 to {MAX_NAME} bytes: write another one, such as \"pods\""),
        ),
    }
}

/// Reads a list of values.
pub(crate) fn list<T>(
    value: &Value<'_>,
    expected: &str,
    read: impl Fn(&Value<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    match &value.node {
        Node::List(items) => items.iter().map(read).collect(),
        _ => value.unexpected(expected),
    }
}

/// Reads `true` or `false`.
pub(crate) fn flag(value: &Value<'_>) -> Result<bool> {
    match value.node {
        Node::Bool(flag) => Ok(flag),
        _ => value.unexpected("true or false"),
    }
}

/// Reads a whole number in a range.
pub(crate) fn number<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Result<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| match value.node {
        Node::Integer(number) => in_range(value.at, number, &range),
        _ => value.unexpected(format_args!("a number {}", to(&range))),
    }
}

fn to<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("from {} to {}", range.start(), range.end())
}

fn in_range<T>(at: usize, number: i64, range: &RangeInclusive<T>) -> Result<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    match T::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => fault(
            at,
            format!("{number} is out of range: write a number {}", to(range)),
        ),
    }
}

/// Reads a whole number, or a string of it in hex: `"0x10"`.
pub(crate) fn bits<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Result<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| match &value.node {
        Node::Integer(number) => in_range(value.at, *number, &range),
        Node::Text(text) => {
            let hex = text.strip_prefix("0x").filter(|hex| !hex.starts_with('+'));
            match hex.and_then(|hex| i64::from_str_radix(hex, 16).ok()) {
                Some(number) => in_range(value.at, number, &range),
                None => fault(
                    value.at,
                    format!("`{text}` is no number: write 16 or \"0x10\""),
                ),
            }
        }
        _ => value.unexpected(format_args!("a number {} or \"0x...\"", to(&range))),
    }
}

/// Reads a number, or two as `"FIRST-LAST"`.
pub(crate) fn span<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Result<RangeInclusive<T>>
where
    T: TryFrom<i64> + PartialOrd + Display + Copy,
{
    move |value| {
        let text = match &value.node {
            Node::Integer(number) => {
                let number = in_range(value.at, *number, &range)?;
                return Ok(number..=number);
            }
            Node::Text(text) => text,
            _ => {
                return value.unexpected(format_args!("a number {} or \"FIRST-LAST\"", to(&range)));
            }
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let decimal = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let (Ok(first), Ok(last), true, true) =
            (first.parse(), last.parse(), decimal(first), decimal(last))
        else {
            return fault(
                value.at,
                format!("`{text}` is no range: write a number or \"FIRST-LAST\""),
            );
        };
        let first = in_range(value.at, first, &range)?;
        let last = in_range(value.at, last, &range)?;
        if last < first {
            let message = format!("the range is empty: write \"{last}-{first}\"");
            return fault(value.at, message);
        }
        Ok(first..=last)
    }
}

/// The reverse of [`span`].
pub(crate) fn span_node(first: u32, last: u32) -> Node<'static> {
    match first == last {
        true => first.into(),
        false => Node::Text(format!("{first}-{last}").into()),
    }
}

/// Reads a string that parses as `T`.
fn parsed<T: FromStr<Err = ParseError>>(value: &Value<'_>, expected: &str) -> Result<T> {
    let text = text(value, expected)?;
    text.parse()
        .or_else(|error: ParseError| fault(value.at, error.to_string()))
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

/// Reads an address with its prefix length, host bits included. Without a length it is that of one
/// address.
pub(crate) fn network(value: &Value<'_>) -> Result<IpNetwork> {
    parse_network(
        value,
        "an address with its prefix length, such as \"10.0.0.1/24\"",
    )
}

/// Reads a prefix, without bits behind its length.
pub(crate) fn prefix(value: &Value<'_>) -> Result<Prefix> {
    let network = parse_network(value, "a prefix, such as \"10.0.0.0/8\"")?;
    Prefix::try_from(network).or_else(|error| fault(value.at, error.to_string()))
}

fn parse_network(value: &Value<'_>, expected: &str) -> Result<IpNetwork> {
    let given = text(value, expected)?;
    let not = || ParseError::Prefix(given.to_owned()).to_string();
    let (address, len) = match given.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (given, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return fault(value.at, not());
    };
    let family = Family::of(address);
    let len = match len {
        None => family.max_len(),
        Some(len) if !len.is_empty() && len.bytes().all(|b| b.is_ascii_digit()) => {
            // What does not fit is out of range all the same.
            len.parse().unwrap_or(u8::MAX)
        }
        Some(_) => return fault(value.at, not()),
    };
    IpNetwork::new(address, len).or_else(|_| {
        fault(
            value.at,
            ParseError::PrefixLength { family, len }.to_string(),
        )
    })
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

/// Reads a string or a list of bytes.
pub(crate) fn bytes(value: &Value<'_>, expected: &str) -> Result<Vec<u8>> {
    match &value.node {
        Node::Text(text) => Ok(text.as_bytes().to_vec()),
        Node::List(bytes) => bytes.iter().map(number(0..=255)).collect(),
        _ => value.unexpected(expected),
    }
}

/// The reverse of [`bytes`]: a string if it is UTF-8.
pub(crate) fn bytes_node(bytes: &[u8]) -> Node<'static> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Node::Text(text.to_owned().into()),
        Err(_) => bytes.iter().map(|byte| u32::from(*byte).into()).collect(),
    }
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

/// Reads one of the known words.
pub(crate) fn one_of<T: Copy>(value: &Value<'_>, what: &str, words: &[(&str, T)]) -> Result<T> {
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let text = text(value, &format!("one of {}", known.join(", ")))?;
    match words.iter().find(|(word, _)| *word == text) {
        Some((_, meaning)) => Ok(*meaning),
        None => fault(value.at, unknown(what, text, "", &known)),
    }
}

/// The reverse of [`one_of`]; every value has a word.
pub(crate) fn word<T: Copy + PartialEq>(value: T, words: &[(&'static str, T)]) -> Node<'static> {
    known_word(value, words).unwrap_or(Node::Text("".into()))
}

/// The same, if the value has a word.
pub(crate) fn known_word<T: Copy + PartialEq>(
    value: T,
    words: &[(&'static str, T)],
) -> Option<Node<'static>> {
    let found = words.iter().find(|(_, known)| *known == value);
    found.map(|(word, _)| Node::Text((*word).into()))
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
                let number = if message.ends_with('?') {
                    ""
                } else {
                    ", or a number"
                };
                fault(value.at, message + number)
            }
        },
        _ => value.unexpected("a table's number from 1 to 4294967295, or its name"),
    }
}

/// Reads a lifetime: seconds, or `"forever"`.
pub(crate) fn lifetime(value: &Value<'_>) -> Result<u32> {
    match &value.node {
        Node::Text(text) if text == "forever" => Ok(FOREVER),
        Node::Integer(number) => in_range(value.at, *number, &(0..=FOREVER - 1)),
        _ => value.unexpected("seconds as a number from 0 to 4294967294, or \"forever\""),
    }
}

/// The reverse of [`lifetime`].
pub(crate) fn lifetime_node(lifetime: u32) -> Node<'static> {
    match lifetime {
        FOREVER => Node::Text("forever".into()),
        seconds => seconds.into(),
    }
}

/// Reads seconds and fractions of them, up to `max`.
pub(crate) fn seconds(value: &Value<'_>, max: u32) -> Result<Duration> {
    let seconds = match value.node {
        Node::Integer(number) => {
            return in_range(value.at, number, &(0..=max)).map(|n| Duration::from_secs(n.into()));
        }
        Node::Fraction(seconds) => seconds,
        _ => return value.unexpected(format_args!("seconds as a number from 0 to {max}")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= Duration::from_secs(max.into()) => Ok(time),
        _ => fault(
            value.at,
            format!("{seconds:?} is out of range: write seconds as a number from 0 to {max}"),
        ),
    }
}

/// The reverse of [`seconds`].
pub(crate) fn seconds_node(time: Duration) -> Node<'static> {
    match time.subsec_nanos() {
        0 => Node::Integer(i64::try_from(time.as_secs()).unwrap_or(i64::MAX)),
        _ => Node::Fraction(time.as_secs_f64()),
    }
}

/// Reads a marker (`rtm_protocol`). The kernel puts 0 to 3 and 9 on its own objects and on those
/// that were given no protocol, `ip` and routing daemons put 4 on what is written by hand: these
/// numbers prove nothing (`RTPROT_*` in `include/uapi/linux/rtnetlink.h`).
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
         and 9: write a number from 5 to 255 that no other program here uses; 100 to 185 are \
         unassigned, {DEFAULT_PROTOCOL} is the default",
    );
    fault(value.at, message)
}

//! `[domain]`: the part of the namespace that the file speaks for.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use trueup_net::{Domain, InterfacePattern, ParseError};

use crate::fields::Fields;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Node, Result, Table, Value, fault};

const NAME: &str = "name";
const MAY_GO_ALONG: &str = "may_go_along";
const INTERFACES: &str = "interfaces";
const CREATED_INTERFACES: &str = "created_interfaces";
const TABLES: &str = "tables";
const PREFIXES: &str = "prefixes";
const RULE_PRIORITIES: &str = "rule_priorities";
const NEXTHOP_OBJECTS: &str = "nexthop_objects";
const LEDGER_ONLY: &str = "ledger_only";

const KEYS: [&str; 9] = [
    NAME,
    MAY_GO_ALONG,
    INTERFACES,
    CREATED_INTERFACES,
    TABLES,
    PREFIXES,
    RULE_PRIORITIES,
    NEXTHOP_OBJECTS,
    LEDGER_ONLY,
];

/// The length of the longest name, in bytes.
const MAX_NAME: usize = 32;

pub(crate) fn read(at: usize, table: &Table<'_>, tables: &TableNames) -> Result<Domain> {
    let fields = Fields::new("[domain]", at, table, &[&KEYS], tables)?;
    let flag = |key| Ok(fields.read(key, parse::flag)?.unwrap_or_default());
    let priority = parse::span(0..=u32::MAX);
    let domain = Domain::default()
        .with_name(fields.read(NAME, name)?)
        .with_may_go_along(
            list(&fields, MAY_GO_ALONG, "\"zebra\"", |value| protocol(value, tables))?
                .into_iter()
                .collect::<BTreeSet<u8>>(),
        )
        .with_interfaces(list(&fields, INTERFACES, "\"veth*\"", pattern)?)
        .with_created_interfaces(flag(CREATED_INTERFACES)?)
        .with_tables(list(&fields, TABLES, "100", |value| table_span(value, tables))?)
        .with_prefixes(list(&fields, PREFIXES, "\"10.0.0.0/8\"", parse::prefix)?)
        .with_rule_priorities(list(&fields, RULE_PRIORITIES, "\"1000-1999\"", priority)?)
        .with_nexthop_objects(flag(NEXTHOP_OBJECTS)?)
        .with_ledger_only(flag(LEDGER_ONLY)?);
    if domain.ledger_only && domain.name.is_none() {
        return fields.fault(
            LEDGER_ONLY,
            "`name` is missing: write name = \"pods\", and another one in each other file; files \
             without a name share a ledger, and each would delete what the other declares",
        );
    }
    match domain.is_limited() || !domain.may_go_along.is_empty() {
        true => Ok(domain),
        false => fault(
            at,
            "nothing is in this domain: write a part, such as interfaces = [ \"veth*\" ], or leave \
             `domain` out",
        ),
    }
}

/// Returns the keys that are given.
pub(crate) fn write(domain: &Domain) -> Table<'static> {
    let mut table = Table::default();
    table.set_some(NAME, domain.name.clone().map(|name| Node::Text(name.into())));
    let text = |text: String| Node::Text(text.into());
    let spans = |ranges: &[RangeInclusive<u32>]| {
        let span = |range: &RangeInclusive<u32>| parse::span_node(*range.start(), *range.end());
        ranges.iter().map(span).collect::<Node<'_>>()
    };
    if !domain.may_go_along.is_empty() {
        let protocols: Node<'_> =
            domain.may_go_along.iter().copied().map(|number| u32::from(number).into()).collect();
        table.set(MAY_GO_ALONG, protocols);
    }
    if !domain.interfaces.is_empty() {
        let patterns: Node<'_> =
            domain.interfaces.iter().map(|pattern| text(pattern.to_string())).collect();
        table.set(INTERFACES, patterns);
    }
    table.set_true(CREATED_INTERFACES, domain.created_interfaces);
    if !domain.tables.is_empty() {
        table.set(TABLES, spans(&domain.tables));
    }
    if !domain.prefixes.is_empty() {
        let prefixes: Node<'_> =
            domain.prefixes.iter().map(|prefix| text(prefix.to_string())).collect();
        table.set(PREFIXES, prefixes);
    }
    if !domain.rule_priorities.is_empty() {
        table.set(RULE_PRIORITIES, spans(&domain.rule_priorities));
    }
    table.set_true(NEXTHOP_OBJECTS, domain.nexthop_objects);
    table.set_true(LEDGER_ONLY, domain.ledger_only);
    table
}

/// Reads a list, which has one item at least; `example` is one.
fn list<T>(
    fields: &Fields<'_>,
    key: &str,
    example: &str,
    read: impl Fn(&Value<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let items = fields.read(key, |value| match &value.node {
        Node::List(items) if items.is_empty() => fault(
            value.at,
            format!("an empty list limits nothing: write {example} into it, or leave it out"),
        ),
        Node::List(items) => items.iter().map(&read).collect(),
        _ => value.unexpected(format_args!("a list, such as [ {example} ]")),
    })?;
    Ok(items.unwrap_or_default())
}

/// Reads what the domain is called: it becomes a part of the name of its journal.
fn name(value: &Value<'_>) -> Result<String> {
    let name = parse::text(value, "a name, such as \"pods\"")?;
    let is_right = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    match (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_right) {
        true => Ok(name.to_owned()),
        false => fault(
            value.at,
            format!("`{name}` is no name of a domain: write 1 to {MAX_NAME} of a-z, 0-9, - and _"),
        ),
    }
}

/// Reads the protocol of another writer, by its name or number.
fn protocol(value: &Value<'_>, tables: &TableNames) -> Result<u8> {
    let Node::Text(name) = &value.node else {
        return parse::number(3..=u8::MAX)(value);
    };
    tables.protocol(name).map_or_else(
        || {
            let message = format!("`{name}` is no protocol that is known here: write its number");
            fault(value.at, message)
        },
        Ok,
    )
}

fn pattern(value: &Value<'_>) -> Result<InterfacePattern> {
    let text = parse::text(value, "the name of an interface, in which * stands for any")?;
    text.parse().or_else(|error: ParseError| fault(value.at, error.to_string()))
}

/// Reads a table, or two as `"FIRST-LAST"`.
fn table_span(value: &Value<'_>, tables: &TableNames) -> Result<RangeInclusive<u32>> {
    let is_span = |text: &str| {
        text.split_once('-').is_some_and(|(first, last)| {
            let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            is_number(first) && is_number(last)
        })
    };
    match &value.node {
        Node::Text(text) if is_span(text) && tables.number(text).is_none() => {
            parse::span(1..=u32::MAX)(value)
        }
        _ => parse::table(tables)(value).map(|table| table..=table),
    }
}

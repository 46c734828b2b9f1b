//! `[domain]`: the part of the namespace that the file manages.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use trueup_net::{Domain, InterfacePattern, ParseError};

use crate::fields::Fields;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Node, Result, Table, Value, fault, text};

const KEYS: [&str; 9] = [
    "name",
    "may_go_along",
    "interfaces",
    "created_interfaces",
    "tables",
    "prefixes",
    "rule_priorities",
    "nexthop_objects",
    "ledger_only",
];

/// The longest name, in bytes.
const MAX_NAME: usize = 32;

pub(crate) fn read(at: usize, table: &Table<'_>, tables: &TableNames) -> Result<Domain> {
    let fields = Fields::new("[domain]", at, table, &[&KEYS], tables)?;
    let priority = parse::span(0..=u32::MAX);
    let mut domain = Domain::default()
        .with_may_go_along(
            list(&fields, "may_go_along", "\"zebra\"", |value| protocol(value, tables))?
                .into_iter()
                .collect::<BTreeSet<u8>>(),
        )
        .with_interfaces(list(&fields, "interfaces", "\"veth*\"", pattern)?)
        .with_created_interfaces(fields.flag("created_interfaces")?)
        .with_tables(list(&fields, "tables", "100", |value| table_span(value, tables))?)
        .with_prefixes(list(&fields, "prefixes", "\"10.0.0.0/8\"", parse::prefix)?)
        .with_rule_priorities(list(&fields, "rule_priorities", "\"1000-1999\"", priority)?)
        .with_nexthop_objects(fields.flag("nexthop_objects")?)
        .with_ledger_only(fields.flag("ledger_only")?);
    domain.name = fields.read("name", name)?;
    if domain.ledger_only && domain.name.is_none() {
        return fields.fault(
            "ledger_only",
            "`name` is missing: write name = \"pods\", and another one in each other file; files \
             without a name share a ledger, and each would delete what the other declares",
        );
    }
    if domain.is_limited() || !domain.may_go_along.is_empty() {
        return Ok(domain);
    }
    fault(
        at,
        "nothing is in this domain: write a part, such as interfaces = [ \"veth*\" ], or leave \
         `domain` out",
    )
}

/// Returns the keys that differ from their defaults.
pub(crate) fn write(domain: &Domain) -> Table<'static> {
    let mut table = Table::default();
    table.set_some("name", domain.name.as_ref().map(text));
    set_list(&mut table, "may_go_along", &domain.may_go_along, |number| u32::from(*number).into());
    set_list(&mut table, "interfaces", &domain.interfaces, text);
    table.set_true("created_interfaces", domain.created_interfaces);
    set_list(&mut table, "tables", &domain.tables, span);
    set_list(&mut table, "prefixes", &domain.prefixes, text);
    set_list(&mut table, "rule_priorities", &domain.rule_priorities, span);
    table.set_true("nexthop_objects", domain.nexthop_objects);
    table.set_true("ledger_only", domain.ledger_only);
    table
}

/// Sets a key to a list, unless it is empty.
fn set_list<'a, T: 'a>(
    table: &mut Table<'static>,
    key: &'static str,
    items: impl IntoIterator<Item = &'a T>,
    node: impl Fn(&'a T) -> Node<'static>,
) {
    let mut nodes = items.into_iter().map(node).peekable();
    if nodes.peek().is_some() {
        table.set(key, nodes.collect::<Node<'_>>());
    }
}

fn span(range: &RangeInclusive<u32>) -> Node<'static> {
    parse::span_node(*range.start(), *range.end())
}

/// Reads a list of at least one item. `example` is such an item.
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

/// Reads the domain's name, which becomes a part of its journal's name.
fn name(value: &Value<'_>) -> Result<String> {
    let name = parse::text(value, "a name, such as \"pods\"")?;
    if (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
    {
        return Ok(name.to_owned());
    }
    let remedy = format!("write 1 to {MAX_NAME} of a-z, 0-9, - and _");
    fault(value.at, format!("`{name}` is no name of a domain: {remedy}"))
}

/// Reads another writer's protocol, by name or number.
fn protocol(value: &Value<'_>, tables: &TableNames) -> Result<u8> {
    let Node::Text(name) = &value.node else {
        return parse::number(3..=u8::MAX)(value);
    };
    match tables.protocol(name) {
        Some(number) => Ok(number),
        None => {
            fault(value.at, format!("`{name}` is no protocol that is known here: write its number"))
        }
    }
}

fn pattern(value: &Value<'_>) -> Result<InterfacePattern> {
    let text = parse::text(value, "the name of an interface, in which * stands for any")?;
    text.parse().or_else(|error: ParseError| fault(value.at, error.to_string()))
}

/// Reads a table, or a range of tables as `"FIRST-LAST"`.
fn table_span(value: &Value<'_>, tables: &TableNames) -> Result<RangeInclusive<u32>> {
    if let Node::Text(text) = &value.node
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        && text.bytes().filter(|byte| *byte == b'-').count() == 1
        && tables.number(text).is_none()
    {
        return parse::span(1..=u32::MAX)(value);
    }
    parse::table(tables)(value).map(|table| table..=table)
}

//! `[[rule]]`.

use std::ops::RangeInclusive;

use trueup_diff::{Family, FwMark, IpNetwork, Kind, Prefix, Rule, RuleAction};

use crate::value::{Fields, Node, Result, Table, Value, fault};
use crate::{Declared, Form, words};

const ACTIONS: [(&str, RuleAction); 3] = [
    ("blackhole", RuleAction::Blackhole),
    ("unreachable", RuleAction::Unreachable),
    ("prohibit", RuleAction::Prohibit),
];

/// What says what a rule does, exactly one of them.
const ACTION_KEYS: [&str; 4] = ["table", "goto", "action", "l3mdev"];

/// The ports of a rule. The kernel refuses 0 and 65535 (`fib_rule_port_range_valid` in
/// include/net/fib_rules.h).
const PORTS: RangeInclusive<u16> = 1..=65534;

impl Form for Rule {
    const KIND: Kind = Kind::Rule;
    const WHAT: &'static str = "a rule";
    const KEYS: &'static [&'static str] = &[
        "priority",
        "family",
        "not",
        "from",
        "to",
        "iif",
        "oif",
        "fwmark",
        "fwmask",
        "tos",
        "ipproto",
        "sport",
        "dport",
        "uidrange",
        "l3mdev",
        "suppress_prefixlength",
        "suppress_ifgroup",
        "table",
        "goto",
        "action",
        "adopt",
    ];
    type Key<'a> = Rule;

    fn list(desired: &mut Declared) -> &mut Option<Vec<Self>> {
        &mut desired.rules
    }

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let priority = priority(fields)?;
        let prefix = |value: &Value<'_>| words::prefix(value).map(IpNetwork::from);
        let from = fields.read("from", prefix)?;
        let to = fields.read("to", prefix)?;
        let family = family(fields, from, to)?;
        let l3mdev = fields.read("l3mdev", words::flag)?.unwrap_or(false);
        let action = action(fields, priority, l3mdev)?;
        Ok(Rule {
            not: fields.read("not", words::flag)?.unwrap_or(false),
            from,
            to,
            iif: fields.read("iif", words::name)?,
            oif: fields.read("oif", words::name)?,
            fwmark: fwmark(fields)?,
            tos: fields.read("tos", words::bits(0..=255))?.unwrap_or(0),
            ipproto: fields.read("ipproto", words::ip_protocol)?,
            sport: fields.read("sport", words::span(PORTS))?.map(Into::into),
            dport: fields.read("dport", words::span(PORTS))?.map(Into::into),
            uidrange: fields
                .read("uidrange", words::span(0..=u32::MAX - 1))?
                .map(Into::into),
            l3mdev,
            suppress_prefixlength: fields.read("suppress_prefixlength", words::number(0..=128))?,
            suppress_ifgroup: fields.read("suppress_ifgroup", words::number(0..=u32::MAX - 1))?,
            ..Rule::new(family, priority, action)
        })
    }

    fn write(&self, table: &mut Table<'static>) {
        table.push("priority", Node::Integer(self.priority.into()));
        let network = |network: IpNetwork| Node::Text(network.to_string().into());
        if self.from.is_none() && self.to.is_none() && self.family == Family::Inet6 {
            table.push("family", Node::Text(self.family.name().into()));
        }
        if self.not {
            table.push("not", Node::Bool(true));
        }
        let mut optional = |key, node: Option<Node<'static>>| {
            if let Some(node) = node {
                table.push(key, node);
            }
        };
        optional("from", self.from.map(network));
        optional("to", self.to.map(network));
        optional("iif", self.iif.as_ref().map(words::name_node));
        optional("oif", self.oif.as_ref().map(words::name_node));
        if let Some(FwMark { mark, mask }) = self.fwmark {
            optional("fwmark", Some(Node::Integer(mark.into())));
            let mask = (mask != u32::MAX).then(|| Node::Text(format!("{mask:#x}").into()));
            optional("fwmask", mask);
        }
        optional(
            "tos",
            (self.tos != 0).then(|| Node::Integer(self.tos.into())),
        );
        optional("ipproto", self.ipproto.map(words::ip_protocol_node));
        let ports =
            |range: trueup_diff::PortRange| words::span_node(range.start.into(), range.end.into());
        optional("sport", self.sport.map(ports));
        optional("dport", self.dport.map(ports));
        let uids = self.uidrange;
        optional(
            "uidrange",
            uids.map(|uids| words::span_node(uids.start, uids.end)),
        );
        let number = |number: u32| Node::Integer(number.into());
        optional(
            "suppress_prefixlength",
            self.suppress_prefixlength.map(number),
        );
        optional("suppress_ifgroup", self.suppress_ifgroup.map(number));
        optional("l3mdev", self.l3mdev.then_some(Node::Bool(true)));
        match self.action {
            RuleAction::Lookup(0) => {}
            RuleAction::Lookup(table) => optional("table", Some(number(table))),
            RuleAction::Goto(target) => optional("goto", Some(number(target))),
            action => {
                let word = ACTIONS.iter().find(|(_, known)| *known == action);
                optional("action", word.map(|(word, _)| Node::Text((*word).into())));
            }
        }
    }

    fn plain(&self) -> Self {
        Rule {
            protocol: 0,
            ..self.clone()
        }
    }

    fn key(&self) -> Rule {
        self.clone().canonical()
    }

    fn key_words(&self) -> (String, &'static str) {
        let words = format!("rule of priority {} that is the same in all", self.priority);
        (words, "another priority")
    }
}

fn priority(fields: &Fields<'_>) -> Result<u32> {
    if !fields.has("priority") {
        return fault(
            fields.at,
            "`priority` is missing: write priority = 1000; without one the kernel would choose \
             another each time",
        );
    }
    match fields.read("priority", words::number(0..=u32::MAX))? {
        Some(priority @ 1..) => Ok(priority),
        _ => fields.fault(
            "priority",
            "priority: 0 is the kernel's own rule, which looks up table local: write 1 to \
             4294967295, below 32766 to come before table main",
        ),
    }
}

fn family(fields: &Fields<'_>, from: Option<IpNetwork>, to: Option<IpNetwork>) -> Result<Family> {
    let of = |network: IpNetwork| Prefix::containing(network).family();
    let given = [
        ("family", fields.read("family", words::family)?),
        ("from", from.map(of)),
        ("to", to.map(of)),
    ];
    let mut given = given
        .into_iter()
        .filter_map(|(key, family)| Some((key, family?)));
    let Some((first, family)) = given.next() else {
        return Ok(Family::Inet);
    };
    match given.find(|(_, other)| *other != family) {
        None => Ok(family),
        Some((key, other)) => {
            let message =
                format!("`{first}` is {family}, `{key}` is {other}: write a rule for each family");
            fields.fault(key, message)
        }
    }
}

fn action(fields: &Fields<'_>, priority: u32, l3mdev: bool) -> Result<RuleAction> {
    let given = |key: &&str| fields.has(key) && (*key != "l3mdev" || l3mdev);
    let mut given = ACTION_KEYS.into_iter().filter(given);
    let Some(first) = given.next() else {
        return fault(
            fields.at,
            "a rule needs one of `table`, `goto`, `action` and `l3mdev`: write table = 100",
        );
    };
    if let Some(second) = given.next() {
        let message = format!("`{first}` and `{second}` exclude each other: leave one out");
        return fields.fault(second, message);
    }
    if let Some(table) = fields.read("table", words::table(fields.tables))? {
        return Ok(RuleAction::Lookup(table));
    }
    if let Some(target) = fields.read("goto", words::number(1..=u32::MAX))? {
        if target <= priority {
            let message = format!("goto: only forward: write a priority above {priority}");
            return fields.fault("goto", message);
        }
        return Ok(RuleAction::Goto(target));
    }
    let word = |value: &Value<'_>| words::one_of(value, "action", &ACTIONS);
    Ok(fields
        .read("action", word)?
        .unwrap_or(RuleAction::Lookup(0)))
}

fn fwmark(fields: &Fields<'_>) -> Result<Option<FwMark>> {
    let mark = fields.read("fwmark", words::bits(0..=u32::MAX))?;
    let mask = fields.read("fwmask", words::bits(0..=u32::MAX))?;
    match (mark, mask) {
        (None, Some(_)) => fields.fault("fwmask", "`fwmask` needs `fwmark`: write fwmark = 0"),
        (mark, mask) => Ok(mark.map(|mark| FwMark {
            mark,
            mask: mask.unwrap_or(u32::MAX),
        })),
    }
}

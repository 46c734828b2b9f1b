//! `[[rule]]`.

use std::ops::RangeInclusive;

use trueup_net::{Family, FwMark, IpNetwork, Keyed as _, NumberRange, Prefix, Rule, RuleAction};

use crate::element::{Element, FileObject};
use crate::fields::Fields;
use crate::parse;
use crate::value::{Node, Result, Table, fault, text};

const ACTIONS: [(&str, RuleAction); 3] = [
    ("blackhole", RuleAction::Blackhole),
    ("unreachable", RuleAction::Unreachable),
    ("prohibit", RuleAction::Prohibit),
];

/// The keys for a rule's action. Each rule has exactly one of them.
const ACTION_KEYS: [&str; 4] = ["table", "goto", "action", "l3mdev"];

/// The ports of a rule. The kernel refuses 0 and 65535 (`fib_rule_port_range_valid` in
/// include/net/fib_rules.h).
const PORTS: RangeInclusive<u16> = 1..=65534;

impl Element for Rule {
    const WITH_ARTICLE: &'static str = "a rule";
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
    ];
    const REMEDY: &'static str = "another priority";
    type Key = Rule;

    fn read(fields: &Fields<'_>) -> Result<Self> {
        let priority = priority(fields)?;
        let from = fields.read("from", parse::prefix)?;
        let to = fields.read("to", parse::prefix)?;
        let family = family(fields, from, to)?;
        let l3mdev = fields.flag("l3mdev")?;
        let action = action(fields, priority, l3mdev)?;
        let mut rule = Rule::new(family, priority, action)
            .with_not(fields.flag("not")?)
            .with_tos(fields.read("tos", parse::bits(0..=255))?.unwrap_or(0))
            .with_l3mdev(l3mdev);
        rule.from = from.map(IpNetwork::from);
        rule.to = to.map(IpNetwork::from);
        rule.iif = fields.read("iif", parse::name)?;
        rule.oif = fields.read("oif", parse::name)?;
        rule.fwmark = fwmark(fields)?;
        rule.ipproto = fields.read("ipproto", parse::ip_protocol)?;
        rule.sport = fields.read("sport", parse::span(PORTS))?.map(Into::into);
        rule.dport = fields.read("dport", parse::span(PORTS))?.map(Into::into);
        rule.uidrange = fields.read("uidrange", parse::span(0..=u32::MAX - 1))?.map(Into::into);
        rule.suppress_prefixlength =
            fields.read("suppress_prefixlength", parse::number(0..=128))?;
        rule.suppress_ifgroup = fields.read("suppress_ifgroup", parse::number(0..=u32::MAX - 1))?;
        Ok(rule)
    }

    fn key(&self) -> Rule {
        self.canonical_key()
    }

    fn describe(&self) -> String {
        format!("rule of priority {} with the same keys", self.priority)
    }
}

impl FileObject for Rule {
    fn write(&self, table: &mut Table<'static>) {
        table.set("priority", self.priority);
        if self.from.is_none() && self.to.is_none() && self.family == Family::Inet6 {
            table.set("family", text(self.family));
        }
        table.set_true("not", self.not);
        table.set_some("from", self.from.map(text));
        table.set_some("to", self.to.map(text));
        table.set_some("iif", self.iif.as_ref().map(parse::name_node));
        table.set_some("oif", self.oif.as_ref().map(parse::name_node));
        if let Some(FwMark { mark, mask }) = self.fwmark {
            table.set("fwmark", mark);
            let mask = (mask != u32::MAX).then(|| text(format_args!("{mask:#x}")));
            table.set_some("fwmask", mask);
        }
        table.set_nonzero("tos", self.tos.into());
        table.set_some("ipproto", self.ipproto.map(parse::ip_protocol_node));
        table.set_some("sport", self.sport.map(range_node));
        table.set_some("dport", self.dport.map(range_node));
        table.set_some("uidrange", self.uidrange.map(range_node));
        table.set_some("suppress_prefixlength", self.suppress_prefixlength);
        table.set_some("suppress_ifgroup", self.suppress_ifgroup);
        table.set_true("l3mdev", self.l3mdev);
        match self.action {
            RuleAction::Lookup(id) => table.set_nonzero("table", id),
            RuleAction::Goto(target) => table.set("goto", target),
            action => table.set_some("action", parse::known_word(action, &ACTIONS)),
        }
    }

    fn authored(&self) -> Self {
        self.clone().with_protocol(0)
    }
}

fn range_node<T: Into<u32>>(range: NumberRange<T>) -> Node<'static> {
    parse::span_node(range.start.into(), range.end.into())
}

fn priority(fields: &Fields<'_>) -> Result<u32> {
    if !fields.has("priority") {
        return fault(
            fields.at,
            "`priority` is missing: write priority = 1000; without one the kernel would choose \
             another each time",
        );
    }
    match fields.read("priority", parse::number(0..=u32::MAX))? {
        Some(priority @ 1..) => Ok(priority),
        _ => fields.fault(
            "priority",
            "priority: 0 is the kernel's own rule, which looks up table local: write 1 to \
             4294967295, below 32766 to come before table main",
        ),
    }
}

fn family(fields: &Fields<'_>, from: Option<Prefix>, to: Option<Prefix>) -> Result<Family> {
    let mut given = [
        ("family", fields.read("family", parse::family)?),
        ("from", from.map(Prefix::family)),
        ("to", to.map(Prefix::family)),
    ]
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
    let mut given =
        ACTION_KEYS.into_iter().filter(|key| fields.has(key) && (*key != "l3mdev" || l3mdev));
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
    if let Some(table) = fields.read("table", parse::table(fields.tables))? {
        return Ok(RuleAction::Lookup(table));
    }
    if let Some(target) = fields.read("goto", parse::number(1..=u32::MAX))? {
        if target <= priority {
            let message = format!(
                "goto: a rule can only go to a later one: write a priority above {priority}"
            );
            return fields.fault("goto", message);
        }
        return Ok(RuleAction::Goto(target));
    }
    let action = fields.read("action", |value| parse::one_of(value, "action", &ACTIONS))?;
    Ok(action.unwrap_or(RuleAction::Lookup(0)))
}

fn fwmark(fields: &Fields<'_>) -> Result<Option<FwMark>> {
    let mark = fields.read("fwmark", parse::bits(0..=u32::MAX))?;
    let mask = fields.read("fwmask", parse::bits(0..=u32::MAX))?;
    match (mark, mask) {
        (None, Some(_)) => fields.fault("fwmask", "`fwmask` needs `fwmark`: write fwmark = 0"),
        (mark, mask) => Ok(mark.map(|mark| FwMark { mark, mask: mask.unwrap_or(u32::MAX) })),
    }
}

//! Why an op is there, in words.

use std::fmt;

use super::Name;
use super::command::{Lifetime, Spec, state_name, word};
use super::link::{LinkWords, Which};
use super::route::{HopWords, MetricWords, TargetWords, TypeName};
use crate::devices::Devices;
use crate::kinds::Action;
use crate::kinds::{Address, AddressFlags, Difference, Link, Neighbour, Nexthop, Object, Route};
use crate::op::{Hold, Op, Reason};

/// The reason of an op, and its hold.
pub(super) struct ReasonText<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for ReasonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReasonText(op, devices) = *self;
        match (op.reason, op.action) {
            (Reason::Missing, Action::Update) => f.write_str("sets up what was just created")?,
            (Reason::Missing, _) => f.write_str("missing")?,
            (Reason::Differs, _) => differences(f, op, devices)?,
            (Reason::Recreated, Action::Delete) => {
                f.write_str("makes room: cannot be changed in place")?;
            }
            (Reason::Recreated, _) => f.write_str("created anew: cannot be changed in place")?,
            (Reason::Undesired, _) => f.write_str("ours, no longer desired")?,
            (Reason::Orphan, _) => f.write_str("orphan: ours, and declared by nobody")?,
            (Reason::Taken, _) => {
                f.write_str("taken: ")?;
                differences(f, op, devices)?;
            }
            (Reason::GivenBack, _) => f.write_str("given back: no longer desired")?,
        }
        match &op.hold {
            None => Ok(()),
            Some(Hold::NotCreatable) => f.write_str("; held: must exist, netlink cannot create it"),
            Some(Hold::Bystander(object)) => {
                let (kind, spec) = (word(object.kind()), Spec(object, devices));
                write!(f, "; held: would take along {kind} {spec}")
            }
            Some(Hold::Forwarding(entry)) => {
                let lladdr = entry.lladdr;
                write!(f, "; held: would take along forwarding entry {lladdr}")?;
                match devices.name(entry.dev) {
                    Some(name) => write!(f, " dev {name}"),
                    None => Ok(()),
                }
            }
            Some(hold) => write!(f, "; held: {hold}"),
        }
    }
}

/// Every field that differs, with what it was.
fn differences(f: &mut fmt::Formatter<'_>, op: &Op, devices: &Devices) -> fmt::Result {
    let Some(was) = op.was.as_deref() else {
        return f.write_str("differs");
    };
    let fields = op.object.differences(was);
    for (at, Difference { field, .. }) in fields.iter().enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        let former = match was {
            Object::Link(was) => link_field(was, field, devices),
            Object::Address(was) => address_field(was, field),
            Object::Neighbour(was) => neighbour_field(was, field),
            Object::Route(was) => route_field(was, field, devices),
            Object::Rule(_) => None,
            Object::Nexthop(was) => nexthop_field(was, field, devices),
        };
        match former {
            Some(former) => write!(f, "{separator}{field}: was {former}")?,
            None => write!(f, "{separator}{field}")?,
        }
    }
    Ok(())
}

/// A value that may be absent, as it is read.
fn or_none(value: Option<impl ToString>) -> Option<String> {
    Some(value.map_or_else(|| "none".to_owned(), |value| value.to_string()))
}

fn words_or_none(words: impl ToString) -> Option<String> {
    let words = words.to_string();
    let words = words.trim_start();
    or_none((!words.is_empty()).then_some(words))
}

fn switch(on: bool) -> Option<String> {
    Some(if on { "on" } else { "off" }.to_owned())
}

fn route_field(was: &Route, field: &str, devices: &Devices) -> Option<String> {
    match field {
        "type" => Some(TypeName(was.kind).to_string()),
        "nexthops" => words_or_none(HopWords(&was.nexthops, was.family(), devices)),
        "src" => or_none(was.src),
        "scope" => or_none(was.scope.map(|scope| scope.0)),
        "metrics" => words_or_none(MetricWords(&was.metrics)),
        _ => None,
    }
}

fn nexthop_field(was: &Nexthop, field: &str, devices: &Devices) -> Option<String> {
    match field {
        "target" => words_or_none(TargetWords(&was.target, devices)),
        _ => None,
    }
}

fn address_field(was: &Address, field: &str) -> Option<String> {
    match field {
        "peer" => or_none(was.peer),
        "valid_lft" => Some(Lifetime(was.lifetimes.valid).to_string()),
        "preferred_lft" => Some(Lifetime(was.lifetimes.preferred).to_string()),
        "metric" => Some(was.metric.to_string()),
        "flags" => {
            let set = AddressFlags::ALL
                .iter()
                .filter(|(flag, _)| was.flags.contains(*flag));
            let names: Vec<&str> = set.map(|(_, name)| *name).collect();
            words_or_none(names.join(" "))
        }
        _ => None,
    }
}

fn neighbour_field(was: &Neighbour, field: &str) -> Option<String> {
    match field {
        "lladdr" => or_none(was.lladdr),
        "state" => match state_name(was.state) {
            "reachable" => Some("the kernel's own to move".to_owned()),
            name => Some(name.to_owned()),
        },
        "router" => switch(was.router),
        "ext_learn" => switch(was.ext_learn),
        _ => None,
    }
}

/// The attributes of a kind are told by the last word of those that would set them.
fn link_field(was: &Link, field: &str, devices: &Devices) -> Option<String> {
    match field {
        "up" => was.up.map(|up| if up { "up" } else { "down" }.to_owned()),
        "mtu" => or_none(was.mtu),
        "address" => or_none(was.address),
        "group" => or_none(was.group),
        "master" => or_none(
            was.master
                .flatten()
                .map(|dev| Name(dev, devices).to_string()),
        ),
        "alias" => words_or_none(was.alias.as_deref().map_or_else(String::new, |alias| {
            if alias.is_empty() {
                String::new()
            } else {
                super::Word(alias).to_string()
            }
        })),
        _ => {
            let words = LinkWords {
                link: was,
                which: Which::Only(field),
                devices,
            }
            .to_string();
            let attribute = words.split_once(" type ");
            or_none(attribute.and_then(|(_, rest)| Some(rest.rsplit_once(' ')?.1.to_owned())))
        }
    }
}

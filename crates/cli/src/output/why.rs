//! The output of `trueup why`.

use std::io::{self, Write};

use anyhow::Result;
use serde::Serialize;
use trueup::diff::render::OpRecord;
use trueup::diff::{Dev, Devices, IfName, Kind, Object, ObjectKey, ObjectKind as _, with_object};
use trueup::rtnl::{Entry, Explained, Explanation, Nothing, Origin, Present, Step, Whose};
use trueup_file::Location;

use super::{Collected, Format, clean, print};

/// What the output says besides the explanation.
pub(crate) struct WhyContext<'a> {
    /// The words of the question.
    pub(crate) asked: &'a str,
    /// The kind that it asks about.
    pub(crate) kind: Kind,
    /// The protocol number that marks our objects.
    pub(crate) marker: u8,
    /// The declared state is known.
    pub(crate) has_file: bool,
    /// The file, and the place in it of an object of that kind, by its position.
    pub(crate) place: &'a dyn Fn(usize) -> Option<(&'a str, Location)>,
    /// What other hosts export to the destination that it asks about, and to parts of that.
    pub(crate) collected: &'a [Collected],
}

/// Prints the explanation.
///
/// # Errors
///
/// When the standard output cannot be written to.
pub(crate) fn why(
    format: Format,
    context: &WhyContext<'_>,
    explanation: &Explanation,
) -> Result<()> {
    let Explanation {
        objects, devices, ..
    } = explanation;
    print(|out| match format {
        Format::Json => {
            let objects = objects.iter();
            let objects = objects.map(|explained| Record::new(explained, context, devices));
            let objects = objects.collect();
            let collected = context.collected;
            serde_json::to_writer(&mut *out, &Records { objects, collected })?;
            writeln!(out)
        }
        Format::Text if objects.is_empty() => {
            let declared = if context.has_file {
                ", not declared"
            } else {
                ""
            };
            writeln!(
                out,
                "{}: not in the kernel{declared}, and not in the ledger",
                clean(context.asked)
            )?;
            exported(out, context)
        }
        _ => {
            for (at, explained) in objects.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                text(out, explained, context, devices)?;
            }
            exported(out, context)
        }
    })
}

fn exported(out: &mut dyn Write, context: &WhyContext<'_>) -> io::Result<()> {
    let mut lines = context.collected.iter();
    lines.try_for_each(|it| writeln!(out, "  {}", clean(&it.to_string())))
}

fn text(
    out: &mut dyn Write,
    explained: &Explained,
    context: &WhyContext<'_>,
    devices: &Devices,
) -> io::Result<()> {
    let Explained {
        key,
        present,
        entry,
        desired,
        next,
        ..
    } = explained;
    writeln!(out, "{}", title(key, devices))?;
    if present.is_empty() {
        writeln!(out, "  in the kernel: nothing")?;
    }
    for Present { object, whose, .. } in present {
        writeln!(out, "  in the kernel: {}", object.spec(devices))?;
        writeln!(
            out,
            "    {}",
            whose_words(*whose, object, explained, context)
        )?;
    }
    match entry {
        Some(entry) => {
            writeln!(out, "  in the ledger: {}", origin_words(entry, devices))?;
            if entry.is_open {
                writeln!(
                    out,
                    "    the outcome of an earlier pass's intent is not known"
                )?;
            }
        }
        None => writeln!(out, "  in the ledger: nothing")?,
    }
    if !context.has_file {
        return writeln!(out, "  next pass: name what is declared with --file FILE");
    }
    match desired {
        Some((position, object)) => {
            let place = (context.place)(*position);
            let place = place.map_or_else(String::new, |(name, place)| format!("{name}:{place}: "));
            writeln!(out, "  declared: {place}{}", object.spec(devices))?;
        }
        None => writeln!(out, "  declared: nothing")?,
    }
    for step in next {
        writeln!(out, "  next pass: {}", step_words(step, context, devices))?;
    }
    Ok(())
}

fn step_words(step: &Step, context: &WhyContext<'_>, devices: &Devices) -> String {
    match step {
        Step::Op { op, waits_for } => {
            let held = if op.hold.is_some() { "! " } else { "" };
            let waits = waits_for.as_ref().map_or_else(String::new, |op| {
                format!("; waits for what is held: {}", op.text(devices))
            });
            format!("{held}{}{waits}", op.text(devices))
        }
        Step::Conflict(conflict) => format!(
            "conflict: {} stays, as it is not ours",
            conflict.foreign.spec(devices)
        ),
        Step::Adopt => "it is adopted: ours from then on, and left as it is".to_owned(),
        Step::Nothing(nothing) => format!("nothing: {}", nothing_words(*nothing, context.kind)),
        _ => String::new(),
    }
}

fn nothing_words(nothing: Nothing, kind: Kind) -> String {
    match nothing {
        Nothing::Unmanaged => format!("the file has no {kind} section, so they are not managed"),
        Nothing::AsDesired => "it is as declared".to_owned(),
        Nothing::SatisfiedByForeign => {
            "it is as declared: satisfied by a foreign object".to_owned()
        }
        Nothing::Foreign => "it is not ours, and not declared".to_owned(),
        Nothing::Absent => "it is not there, and not declared".to_owned(),
        Nothing::Along => "it comes or goes along with a link".to_owned(),
        Nothing::OtherEnd => "it is the other end of a declared pair".to_owned(),
        Nothing::Unread => format!("objects of kind {kind} could not be read whole"),
        _ => String::new(),
    }
}

/// Returns the owner of an object, with the proof.
fn whose_words(
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
            Some(protocol) => format!(
                "ours: it is in the ledger; it bears {}",
                protocol_words(protocol, kind)
            ),
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

fn origin_words(entry: &Entry, devices: &Devices) -> String {
    match (entry.origin, &entry.former) {
        (Origin::Made, _) => "made by us".to_owned(),
        (Origin::Adopted, _) => "adopted: it existed before, as declared".to_owned(),
        (Origin::Overridden, Some(former)) => format!(
            "overridden; restored once it is no longer declared: {}",
            former.spec(devices)
        ),
        (Origin::Overridden, None) => "overridden".to_owned(),
        _ => "made by us, or adopted".to_owned(),
    }
}

/// Returns the protocol that an object bears; links bear none.
fn protocol_of(object: &Object) -> Option<u8> {
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
fn protocol_name(protocol: u8, kind: Kind) -> Option<&'static str> {
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
fn title(key: &ObjectKey, devices: &Devices) -> String {
    let name = |dev: Dev| match devices.name(dev) {
        Some(name) => shown(name),
        None => format!("{dev:?}"),
    };
    match key {
        ObjectKey::Link(name) => format!("link {}", shown(name)),
        ObjectKey::Address(key) => {
            let len = key.subnet.map(|subnet| format!("/{}", subnet.len()));
            let len = len.unwrap_or_default();
            format!("address {}{len} dev {}", key.address, name(key.dev))
        }
        ObjectKey::Neighbour(key) => {
            let proxy = if key.proxy { "proxy " } else { "" };
            format!("neighbour {proxy}{} dev {}", key.dst, name(key.dev))
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
        // A rule is the same whoever owns it.
        ObjectKey::Rule(rule) => {
            let words = Object::Rule(rule.clone()).spec(devices);
            format!("rule {}", words.replace(" protocol 0", ""))
        }
        ObjectKey::Nexthop(id) => format!("nexthop id {id}"),
        other => format!("{} {other:?}", other.kind()),
    }
}

/// Returns a name without the characters that a terminal obeys.
fn shown(name: &IfName) -> String {
    clean(&name.to_string()).into_owned()
}

#[derive(Serialize)]
struct Records<'a> {
    objects: Vec<Record>,
    /// Left out where the file collects nothing.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    collected: &'a [Collected],
}

#[derive(Serialize)]
struct Record {
    kind: Kind,
    key: String,
    kernel: Vec<PresentRecord>,
    ledger: Option<EntryRecord>,
    declared: Option<DeclaredRecord>,
    /// `None` if the declared state is not known.
    next: Option<Vec<StepRecord>>,
}

#[derive(Serialize)]
struct PresentRecord {
    object: String,
    protocol: Option<u8>,
    protocol_name: Option<&'static str>,
    ours: bool,
    proof: &'static str,
}

#[derive(Serialize)]
struct EntryRecord {
    object: String,
    origin: &'static str,
    former: Option<String>,
    open: bool,
}

#[derive(Serialize)]
struct DeclaredRecord {
    file: String,
    line: u32,
    column: u32,
    object: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum StepRecord {
    Op {
        #[serde(flatten)]
        op: OpRecord,
        held: bool,
        waits_for: Option<String>,
    },
    Other {
        op: &'static str,
        reason: String,
    },
}

impl Record {
    fn new(explained: &Explained, context: &WhyContext<'_>, devices: &Devices) -> Record {
        let spec = |object: &Object| object.spec(devices);
        let present = explained.present.iter();
        let kernel = present.map(|Present { object, whose, .. }| {
            let protocol = protocol_of(object);
            PresentRecord {
                object: spec(object),
                protocol,
                protocol_name: protocol.and_then(|number| protocol_name(number, object.kind())),
                ours: whose.is_ours(),
                proof: proof_word(*whose),
            }
        });
        let ledger = explained.entry.as_ref().map(|entry| EntryRecord {
            object: spec(&entry.object),
            origin: match entry.origin {
                Origin::Made => "made",
                Origin::Adopted => "adopted",
                Origin::Overridden => "overridden",
                _ => "made_or_adopted",
            },
            former: entry.former.as_ref().map(spec),
            open: entry.is_open,
        });
        let declared = explained.desired.as_ref().and_then(|(position, object)| {
            let (file, place) = (context.place)(*position)?;
            Some(DeclaredRecord {
                file: file.to_owned(),
                line: place.line,
                column: place.column,
                object: spec(object),
            })
        });
        let next = explained.next.iter().map(|step| match step {
            Step::Op { op, waits_for } => StepRecord::Op {
                op: OpRecord::new(op, devices),
                held: op.hold.is_some(),
                waits_for: waits_for.as_ref().map(|op| op.command(devices)),
            },
            Step::Conflict(conflict) => StepRecord::Other {
                op: "conflict",
                reason: spec(&conflict.foreign),
            },
            Step::Adopt => StepRecord::Other {
                op: "adopt",
                reason: "as declared".to_owned(),
            },
            Step::Nothing(nothing) => StepRecord::Other {
                op: "nothing",
                reason: nothing_word(*nothing).to_owned(),
            },
            _ => StepRecord::Other {
                op: "unknown",
                reason: String::new(),
            },
        });
        Record {
            kind: context.kind,
            key: title(&explained.key, devices),
            kernel: kernel.collect(),
            ledger,
            declared,
            next: context.has_file.then(|| next.collect()),
        }
    }
}

fn proof_word(whose: Whose) -> &'static str {
    match whose {
        Whose::Marked => "marker",
        Whose::Recorded => "ledger",
        Whose::Kernels => "kernel",
        Whose::Passing => "passing",
        Whose::Rewritten => "rewritten",
        Whose::MarkUnproven => "unproven_marker",
        Whose::OutsideDomain => "outside_domain",
        Whose::Unmarked => "unmarked",
        _ => "protocol",
    }
}

fn nothing_word(nothing: Nothing) -> &'static str {
    match nothing {
        Nothing::Unmanaged => "unmanaged",
        Nothing::AsDesired => "as_declared",
        Nothing::SatisfiedByForeign => "satisfied_by_foreign",
        Nothing::Foreign => "foreign",
        Nothing::Absent => "absent",
        Nothing::Along => "along",
        Nothing::OtherEnd => "other_end",
        _ => "unread",
    }
}

//! The explanation as JSON.

use serde::Serialize;
use trueup::net::{Action, Devices, Kind};
use trueup::rtnl::{Explained, Explanation, Origin, Step, Whose};

use super::WhyContext;
use super::words::{protocol_name, protocol_of, title};
use crate::output::Collected;

#[derive(Serialize)]
pub(super) struct Records<'a> {
    objects: Vec<Record>,
    /// Left out if the file collects nothing.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    collected: &'a [Collected],
    /// Left out if this host's exports have no problem.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    contests: &'a [String],
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
        op: Action,
        kind: Kind,
        command: String,
        reason: String,
        held: bool,
        waits_for: Option<String>,
    },
    Other {
        op: &'static str,
        reason: String,
    },
}

impl<'a> Records<'a> {
    pub(super) fn new(explanation: &Explanation, context: &WhyContext<'a>) -> Records<'a> {
        let Explanation { objects, devices, .. } = explanation;
        Records {
            objects: objects.iter().map(|it| Record::new(it, context, devices)).collect(),
            collected: context.collected,
            contests: context.contests,
        }
    }
}

impl Record {
    fn new(explained: &Explained, context: &WhyContext<'_>, devices: &Devices) -> Record {
        let present = explained.present.iter();
        let kernel = present.map(|(object, whose)| {
            let protocol = protocol_of(object);
            PresentRecord {
                object: object.spec(devices),
                protocol,
                protocol_name: protocol.and_then(|number| protocol_name(number, object.kind())),
                ours: whose.is_ours(),
                proof: proof_word(*whose),
            }
        });
        let ledger = explained.entry.as_ref().map(|entry| EntryRecord {
            object: entry.object.spec(devices),
            origin: match entry.origin {
                Origin::Made => "made",
                Origin::Adopted => "adopted",
                Origin::Overridden => "overridden",
                _ => "made_or_adopted",
            },
            former: entry.former.as_ref().map(|it| it.spec(devices)),
            open: entry.is_open,
        });
        let declared = explained.desired.as_ref().and_then(|(position, object)| {
            let (file, place) = (context.place)(*position)?;
            Some(DeclaredRecord {
                file: file.to_owned(),
                line: place.line,
                column: place.column,
                object: object.spec(devices),
            })
        });
        let next = explained.next.iter().map(|step| match step {
            Step::Op { op, waits_for } => StepRecord::Op {
                op: op.action,
                kind: op.object.kind(),
                command: op.command(devices),
                reason: op.reason_text(devices),
                held: op.hold.is_some(),
                waits_for: waits_for.as_ref().map(|op| op.command(devices)),
            },
            Step::Conflict(conflict) => {
                StepRecord::Other { op: "conflict", reason: conflict.foreign.spec(devices) }
            }
            Step::Adopt => StepRecord::Other { op: "adopt", reason: "as declared".to_owned() },
            nothing => {
                StepRecord::Other { op: "nothing", reason: nothing_word(nothing).to_owned() }
            }
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

fn nothing_word(nothing: &Step) -> &'static str {
    match nothing {
        Step::Unmanaged => "unmanaged",
        Step::AsDesired => "as_declared",
        Step::SatisfiedByForeign => "satisfied_by_foreign",
        Step::Foreign => "foreign",
        Step::Absent => "absent",
        Step::Along => "along",
        Step::OtherEnd => "other_end",
        _ => "unread",
    }
}

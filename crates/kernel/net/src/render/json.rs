//! The JSON of plans and ops, as records that serde writes in any format.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::devices::Devices;
use crate::kinds::Action;
use crate::kinds::Kind;
use crate::op::Op;
use crate::plan::{Conflict, Plan};

/// An op: `{ "op": "create", "kind": "route", "command": "route add …", "reason": "missing" }`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct OpRecord {
    /// What it does.
    pub op: Action,
    /// The kind of its object.
    pub kind: Kind,
    /// [`Op::command`].
    pub command: String,
    /// [`Op::reason_text`].
    pub reason: String,
}

impl OpRecord {
    /// The record of an op of a plan with these devices.
    pub fn new(op: &Op, devices: &Devices) -> OpRecord {
        OpRecord {
            op: op.action,
            kind: op.object.kind(),
            command: op.command(devices),
            reason: op.reason_text(devices),
        }
    }
}

/// A conflict: `{ "kind": "route", "desired": "10.2.0.0/16 via …", "foreign": "10.2.0.0/16 via …",
/// "differs": ["nexthops"], "why": "10.2.0.0/16 via …; nexthops: is via …, declared via …; …" }`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ConflictRecord {
    /// The kind of both objects.
    pub kind: Kind,
    /// What we desire, as [`crate::Object::spec`] writes it.
    pub desired: String,
    /// What is there.
    pub foreign: String,
    /// The fields that differ, in iproute2's words.
    pub differs: Vec<&'static str>,
    /// What is there, the fields that differ with both values, and what to write:
    /// [`Conflict::foreign_text`].
    pub why: String,
}

impl ConflictRecord {
    /// The record of a conflict of a plan with these devices.
    pub fn new(conflict: &Conflict, devices: &Devices) -> ConflictRecord {
        ConflictRecord {
            kind: conflict.desired.kind(),
            desired: conflict.desired.spec(devices),
            foreign: conflict.foreign.spec(devices),
            differs: conflict.differences().iter().map(|it| it.field).collect(),
            why: conflict.foreign_text(devices),
        }
    }
}

/// What becomes ours as it is: `{ "kind": "route", "object": "10.2.0.0/16 via …" }`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
struct AdoptedRecord {
    kind: Kind,
    object: String,
}

/// A plan, and the hash of the state that it was made from; see [`Plan::record`].
pub(super) struct PlanRecord<'a> {
    pub(super) plan: &'a Plan,
    pub(super) snapshot: String,
}

impl Serialize for PlanRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Plan { ops, conflicts, adopted, notices, devices, .. } = self.plan;
        let mut record = serializer.serialize_struct("Plan", 5)?;
        record.serialize_field("ops", &Each(|| ops.iter().map(|op| OpRecord::new(op, devices))))?;
        record.serialize_field(
            "conflicts",
            &Each(|| conflicts.iter().map(|it| ConflictRecord::new(it, devices))),
        )?;
        record.serialize_field(
            "adopted",
            &Each(|| {
                adopted.iter().map(|it| AdoptedRecord { kind: it.kind(), object: it.spec(devices) })
            }),
        )?;
        record.serialize_field("notices", &Each(|| notices.iter().map(|it| it.text(devices))))?;
        record.serialize_field("snapshot", &self.snapshot)?;
        record.end()
    }
}

/// A list that is made while it is written.
struct Each<F>(F);

impl<I, F> Serialize for Each<F>
where
    I: IntoIterator<Item: Serialize>,
    F: Fn() -> I,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

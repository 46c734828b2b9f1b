//! Renders plans and ops as JSON: records that serde can write in any format.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::devices::Devices;
use crate::kinds::{Action, Kind};
use crate::op::Op;
use crate::plan::{Conflict, Plan};

impl Op {
    /// Returns the JSON of the op: `{ "op": "create", "kind": "route", "command": "route add …",
    /// "reason": "missing" }`. `devices` must be the plan's.
    pub fn record(&self, devices: &Devices) -> impl Serialize + use<> {
        #[derive(Serialize)]
        struct Record {
            op: Action,
            kind: Kind,
            command: String,
            reason: String,
        }
        Record {
            op: self.action,
            kind: self.object.kind(),
            command: self.command(devices),
            reason: self.reason_text(devices),
        }
    }
}

impl Conflict {
    /// Returns the JSON of the conflict: `{ "kind": "route", "desired": "10.2.0.0/16 via …",
    /// "foreign": "10.2.0.0/16 via …", "differs": ["nexthops"], "why": "10.2.0.0/16 via …;
    /// nexthops: is via …, declared via …; …" }`.
    fn record(&self, devices: &Devices) -> impl Serialize + use<> {
        #[derive(Serialize)]
        struct Record {
            kind: Kind,
            desired: String,
            foreign: String,
            differs: Vec<&'static str>,
            why: String,
        }
        Record {
            kind: self.desired.kind(),
            desired: self.desired.spec(devices),
            foreign: self.foreign.spec(devices),
            differs: self.differences().iter().map(|it| it.field).collect(),
            why: self.foreign_text(devices),
        }
    }
}

/// An adopted object: `{ "kind": "route", "object": "10.2.0.0/16 via …" }`.
#[derive(Serialize)]
struct AdoptedRecord {
    kind: Kind,
    object: String,
}

/// A plan, and the hash of the state from which it was made. See [`Plan::record`].
pub(super) struct PlanRecord<'a> {
    pub(super) plan: &'a Plan,
    pub(super) snapshot: String,
}

impl Serialize for PlanRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Plan { ops, conflicts, adopted, notices, devices, .. } = self.plan;
        let mut record = serializer.serialize_struct("Plan", 5)?;
        record.serialize_field("ops", &Each(|| ops.iter().map(|op| op.record(devices))))?;
        record.serialize_field(
            "conflicts",
            &Each(|| conflicts.iter().map(|it| it.record(devices))),
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

/// A list generated while it is written.
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

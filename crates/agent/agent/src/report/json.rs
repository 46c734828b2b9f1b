//! Reports as JSON, built while they are written: one may have a million ops.

use serde::ser::{Serialize, SerializeSeq as _, SerializeStruct as _, Serializer};
use trueup_reconcile::Outcome;

use super::{OpRecord, PassReport};
use crate::watch::event::News;

/// The ops of a report that have an outcome.
pub struct Ops<'a>(pub &'a dyn PassReport, pub fn(Outcome) -> bool);

impl Serialize for Ops<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        self.0.ops(&mut |op| {
            if written.is_ok() && (self.1)(op.outcome()) {
                written = out.serialize_element(&OpRecord::new(op));
            }
        });
        written?;
        out.end()
    }
}

/// The findings about ownership; those that last only if asked for.
pub struct Ownership<'a>(pub &'a dyn PassReport, pub bool);

impl Serialize for Ownership<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_seq(None)?;
        let mut written = Ok(());
        self.0.ownership(&mut |change| {
            if written.is_ok() && (self.1 || !change.lasts) {
                written = out.serialize_element(&change);
            }
        });
        written?;
        out.end()
    }
}

/// True for an op that was applied.
pub fn is_applied(outcome: Outcome) -> bool {
    outcome == Outcome::Applied
}

impl Serialize for News<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let News { report, changes, counts, is_converged } = self;
        let mut out = serializer.serialize_struct("News", 8)?;
        out.serialize_field("converged", is_converged)?;
        out.serialize_field("applied", &Ops(*report, is_applied))?;
        out.serialize_field("statuses", &changes.changed().collect::<Vec<_>>())?;
        out.serialize_field("cleared", &changes.cleared().collect::<Vec<_>>())?;
        out.serialize_field("snapshot", &changes.is_snapshot())?;
        out.serialize_field("ownership", &Ownership(*report, false))?;
        out.serialize_field("errors", &report.errors())?;
        out.serialize_field("unresolved", counts)?;
        out.end()
    }
}

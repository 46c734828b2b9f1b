//! Why an op is there, in words.

use std::fmt;

use super::command::{Spec, ip_object};
use crate::devices::Devices;
use crate::kinds::{Action, Difference, Render as _};
use crate::op::{Hold, Op, Reason};
use crate::with_object;

/// The reason of an op, and its hold.
pub(super) struct ReasonText<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for ReasonText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ReasonText(op, devices) = *self;
        match (op.reason, op.action) {
            (Reason::Missing, Action::Update) => f.write_str("sets up what was just created")?,
            (Reason::Missing, _) => f.write_str("missing")?,
            (Reason::Beside, _) => f.write_str("missing, beside a router advertisement's")?,
            (Reason::Differs, _) => differences(f, op, devices)?,
            (Reason::Recreated, Action::Delete) => {
                f.write_str("makes room: cannot be changed in place")?;
            }
            (Reason::Recreated, _) => f.write_str("created anew: cannot be changed in place")?,
            (Reason::Excluded, _) => {
                f.write_str("not declared, on a link of declared ones only")?
            }
            (Reason::Step, _) => {
                f.write_str("on the way: ")?;
                differences(f, op, devices)?;
            }
            (Reason::Undesired, _) => f.write_str("ours, no longer desired")?,
            (Reason::Orphan, _) => f.write_str("orphan: ours, and not declared")?,
            (Reason::Overridden, _) => {
                f.write_str("overridden: ")?;
                differences(f, op, devices)?;
            }
            (Reason::Restored, _) => f.write_str("restored: no longer desired")?,
        }
        match &op.hold {
            None => Ok(()),
            Some(Hold::NotCreatable) => f.write_str("; held: must exist, netlink cannot create it"),
            Some(Hold::NameTaken(name)) => write!(f, "; held: another link is {name}"),
            Some(Hold::Collateral(object)) => {
                let (kind, spec) = (ip_object(object), Spec(object, devices));
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
    let Some(was) = op.was() else {
        return f.write_str("differs");
    };
    let fields = op.object.differences(&was);
    for (at, Difference { field, .. }) in fields.iter().enumerate() {
        let separator = if at == 0 { "" } else { "; " };
        let former = with_object!(&*was, was => was.field(field, devices));
        match former {
            Some(former) => write!(f, "{separator}{field}: was {former}")?,
            None => write!(f, "{separator}{field}")?,
        }
    }
    Ok(())
}

//! The messages of an op.

use trueup_diff::{Action, Object, Op, with_object};
use trueup_netlink::codec::{Change, DeviceIndexes, EncodeError, KindCodec as _, Part};

/// A message of an op.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A part of the op itself.
    Op(Part),
    /// The new route, appended after the old one.
    Append,
    /// The delete of the old route.
    DeleteOld,
    /// The delete of the appended route.
    RollBack,
}

impl Step {
    /// Returns the object that the message is about, and what is done with it.
    pub(crate) fn target(self, op: &Op) -> (&Object, Action) {
        match (self, op.was.as_deref()) {
            (Step::Op(_), _) => (&op.object, op.action),
            (Step::Append, _) => (&op.object, Action::Create),
            (Step::DeleteOld, Some(was)) => (was, Action::Delete),
            (Step::DeleteOld, None) | (Step::RollBack, _) => (&op.object, Action::Delete),
        }
    }
}

/// Returns the parts of an op, in their order.
pub(crate) fn parts(op: &Op) -> &'static [Part] {
    with_object!(&op.object, object: K => K::parts(op.action, object, was(op)))
}

/// Encodes a message of an op.
pub(crate) fn encode(
    buffer: &mut Vec<u8>,
    op: &Op,
    step: Step,
    is_unmarked: bool,
    indexes: DeviceIndexes<'_>,
) -> Result<(), EncodeError> {
    let (object, action) = step.target(op);
    let part = match step {
        Step::Op(part) => part,
        Step::Append => Part::Append,
        Step::DeleteOld | Step::RollBack => Part::Whole,
    };
    with_object!(object, object: K => {
        let change = Change::new(action, object, indexes)
            .with_was(was(op))
            .with_is_unmarked(is_unmarked);
        K::encode(buffer, part, &change)
    })
}

/// Returns the observed object of an update.
fn was<'a, K>(op: &'a Op) -> Option<&'a K>
where
    &'a K: TryFrom<&'a Object>,
{
    op.was.as_deref().and_then(|was| was.try_into().ok())
}

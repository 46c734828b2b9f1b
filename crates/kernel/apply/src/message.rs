//! The messages of an op.

use std::borrow::Cow;

use trueup_net::{Action, Kind, Object, Op, Reason, with_object};
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
    pub(crate) fn target(self, op: &Op) -> (Cow<'_, Object>, Action) {
        let object = Cow::Borrowed(&op.object);
        match self {
            Step::Op(_) => (object, op.action),
            Step::Append => (object, Action::Create),
            Step::DeleteOld => (op.was().unwrap_or(object), Action::Delete),
            Step::RollBack => (object, Action::Delete),
        }
    }
}

/// Returns the parts of an op, in their order.
pub(crate) fn parts(op: &Op) -> &'static [Part] {
    if op.reason == Reason::Beside {
        return &[Part::Append];
    }
    let was = was(op);
    with_object!(&op.object, object: K => K::parts(op.action, object, of_kind(was.as_deref())))
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
    let was = was(op);
    with_object!(&*object, object: K => {
        let change = Change::new(action, object, indexes)
            .with_was(of_kind(was.as_deref()))
            .with_is_unmarked(is_unmarked);
        K::encode(buffer, part, &change)
    })
}

/// Returns the observed object of an update, where messages depend on it. Those of routes do not.
fn was(op: &Op) -> Option<Cow<'_, Object>> {
    let has_say = op.object.kind() != Kind::Route;
    has_say.then(|| op.was())?
}

fn of_kind<'a, K>(object: Option<&'a Object>) -> Option<&'a K>
where
    &'a K: TryFrom<&'a Object>,
{
    object?.try_into().ok()
}

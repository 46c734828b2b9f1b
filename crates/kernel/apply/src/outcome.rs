//! [`Outcome`]: the result of each op.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_net::{Action, Dev, Devices, Hold, IfName, Object};
use trueup_netlink::KernelError;
use trueup_reconcile::ErrorClass;

use crate::error_class::classify;

/// The outcome of one op. A single message has a [`trueup_netlink::Answer`].
pub type Outcome = trueup_reconcile::Outcome<Box<Failure>, Pending>;

/// The reason why an op was not sent.
pub type Pending = trueup_reconcile::Pending<Wait>;

/// The reason why an op failed. Contains both forms of an object that the kernel stores
/// differently.
pub type Failure = trueup_reconcile::Failure<Option<StoredForms>>;

/// The obstacle of an op that was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// It needs the op at this position of the plan, which was not applied.
    Needs(usize),
    /// The plan holds it, for this reason.
    Held(Hold),
    /// The plan's device with this name was not created.
    NoDevice(IfName),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Needs(_) => f.write_str("waits for an op that it needs"),
            Wait::Held(hold) => hold.fmt(f),
            Wait::NoDevice(name) => write!(f, "interface {name} is not there"),
        }
    }
}

/// The two forms of an object that the kernel stores differently, in the words of `ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredForms {
    /// The written form.
    pub desired: String,
    /// The stored form. `None` if the kernel stores no object.
    pub stored: Option<String>,
}

/// Makes the failure of an object that the kernel stores differently from what was written, or not
/// at all.
///
/// ```
/// use trueup_apply::stored_otherwise;
/// use trueup_net::{Devices, NextHops, Object, Route};
///
/// # fn main() -> Result<(), trueup_net::ParseError> {
/// let route: Object = Route::new("10.2.0.0/16".parse()?, NextHops::None).into();
/// let failure = stored_otherwise(&route, None, &Devices::default());
/// assert!(failure.to_string().starts_with("stored otherwise: the kernel keeps nothing"));
/// # Ok(())
/// # }
/// ```
pub fn stored_otherwise(desired: &Object, stored: Option<&Object>, devices: &Devices) -> Failure {
    let (desired, stored) = match stored {
        Some(stored) => {
            let (desired, stored) = desired.beside(stored, devices);
            (desired, Some(stored))
        }
        None => (desired.spec(devices), None),
    };
    let kept = match &stored {
        Some(stored) => format!("keeps \"{stored}\""),
        None => "keeps nothing".to_owned(),
    };
    Failure::new(
        ErrorClass::StoredOtherwise,
        format_args!("stored otherwise: the kernel {kept} where \"{desired}\" is written"),
    )
    .with_detail(Some(StoredForms { desired, stored }))
}

/// Makes the failure of an op that the kernel refused.
pub(crate) fn refused(object: &Object, action: Action, error: &KernelError) -> Failure {
    Failure::new(classify(action, object, error), error).with_errno(Some(error.errno()))
}

/// Makes the outcome of an op that failed without the kernel's answer.
pub(crate) fn failed(class: ErrorClass, why: impl fmt::Display) -> Outcome {
    Outcome::Failed(Box::new(Failure::new(class, why)))
}

/// The outcomes of a plan's ops.
///
/// ```no_run
/// use std::collections::BTreeMap;
/// use trueup_apply::{Outcome, apply};
/// use trueup_net::Plan;
/// use trueup_netlink::{Error, Socket};
///
/// fn count(plan: &Plan, socket: &mut Socket) -> Result<usize, Error> {
///     let done = apply(plan, socket, &BTreeMap::new(), &|| true);
///     assert_eq!(done.outcomes.len(), plan.ops.len()); // one for each op
///     Ok(done.outcomes.iter().filter(|it| it.is_applied()).count())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcomes {
    /// The outcome of each op, in the plan's order.
    pub outcomes: Vec<Outcome>,
    /// The interface indexes of the planned devices that were created.
    pub created: BTreeMap<Dev, u32>,
    /// The positions of creates that count as applied although another writer created the object:
    /// an equal rule existed by then.
    pub found_existing: BTreeSet<usize>,
    /// The positions of ops that changed nothing: the kernel refused them, or they were not sent.
    pub undone: BTreeSet<usize>,
    /// The object that the kernel echoed as stored or deleted, by the position of the op, after
    /// [`apply_with_echo`](crate::apply_with_echo). With an entry, no other read-back is needed.
    /// Without one, the state is unknown unless the op is [`undone`](Self::undone).
    pub echoed: BTreeMap<usize, Object>,
}

#[cfg(test)]
mod tests;

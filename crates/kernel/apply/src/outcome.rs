//! [`Outcome`]: what became of each op.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_net::{Action, Dev, Devices, Hold, IfName, Object, Route};
use trueup_netlink::{KernelError, codec};
use trueup_reconcile::ErrorClass;

use crate::error_class::classify;

/// The outcome of one op. Every op has one of these three, so the list is exhaustive. Of a message
/// it is [`trueup_netlink::Outcome`], and drivers see [`trueup_reconcile::Outcome`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel carried it out, or there was nothing left to do.
    Applied,
    /// The kernel refused it, or the kernel's answer was lost.
    Failed(Box<Failure>),
    /// It was not sent.
    Pending(Pending),
}

impl Outcome {
    /// Returns whether the op is done.
    pub fn is_applied(&self) -> bool {
        matches!(self, Outcome::Applied)
    }
}

/// The reason why an op was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending {
    /// It needs the op at this position of the plan, which was not applied.
    Needs(usize),
    /// The plan holds it.
    Held(Hold),
    /// The plan's device of this name was not created.
    NoDevice(IfName),
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pending::Needs(_) => f.write_str("waits for an op that it needs"),
            Pending::Held(hold) => hold.fmt(f),
            Pending::NoDevice(name) => write!(f, "interface {name} is not there"),
        }
    }
}

/// The reason why an op failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    class: ErrorClass,
    kernel: Option<KernelError>,
    message: String,
    forms: Option<Box<StoredForms>>,
}

/// The two forms of an object that the kernel stores otherwise, in the words of `ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredForms {
    /// The desired form.
    pub desired: String,
    /// The stored form; `None` if the kernel stores nothing.
    pub stored: Option<String>,
}

impl Failure {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// Returns the kernel's errno, if the kernel answered.
    pub fn errno(&self) -> Option<i32> {
        self.kernel.as_ref().map(KernelError::errno)
    }

    /// Returns the kernel's answer, with the attribute that it objected to.
    pub fn kernel(&self) -> Option<&KernelError> {
        self.kernel.as_ref()
    }

    /// Returns both forms of an object that the kernel stores otherwise.
    pub fn forms(&self) -> Option<&StoredForms> {
        self.forms.as_deref()
    }

    /// Makes the failure of an object that was written, and that the kernel stores as something
    /// else, or not at all.
    pub fn stored_otherwise(
        desired: &Object,
        stored: Option<&Object>,
        devices: &Devices,
    ) -> Failure {
        let (desired, stored) = match stored {
            Some(stored) => {
                let (desired, stored) = desired.beside(stored, devices);
                (desired, Some(stored))
            }
            None => (desired.spec(devices), None),
        };
        let forms = StoredForms { desired, stored };
        let StoredForms { desired, stored } = &forms;
        let kept = match stored {
            Some(stored) => format!("keeps \"{stored}\""),
            None => "keeps nothing".to_owned(),
        };
        Failure {
            class: ErrorClass::StoredOtherwise,
            kernel: None,
            message: format!("stored otherwise: the kernel {kept} where \"{desired}\" is written"),
            forms: Some(Box::new(forms)),
        }
    }

    pub(crate) fn refused(object: &Object, action: Action, error: KernelError) -> Failure {
        let class = classify(action, object, &error);
        Failure { class, message: error.to_string(), kernel: Some(error), forms: None }
    }

    /// Makes the failure of an op whose object another writer changed.
    pub(crate) fn conflict(message: impl Into<String>) -> Failure {
        Failure { class: ErrorClass::Conflict, message: message.into(), kernel: None, forms: None }
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Failure {
        Failure { class: ErrorClass::Unknown, kernel: None, message: message.into(), forms: None }
    }

    pub(crate) fn unencodable(error: codec::EncodeError) -> Failure {
        Failure {
            class: ErrorClass::Invalid,
            kernel: None,
            message: error.to_string(),
            forms: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The outcomes of a plan's ops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcomes {
    /// The outcome of each op, in the plan's order.
    pub outcomes: Vec<Outcome>,
    /// The interface indexes of the planned devices that were created.
    pub created: BTreeMap<Dev, u32>,
    /// The positions of the creates that count as applied although another writer created the
    /// object: an equal rule existed by then.
    pub found_existing: BTreeSet<usize>,
    /// The positions of the ops of which nothing was done: the kernel refused them, or they were
    /// not sent.
    pub undone: BTreeSet<usize>,
    /// The route that the kernel echoed as stored or deleted, by the position of the op, after
    /// [`apply_with_echo`](crate::apply_with_echo). Where a route is here, no other read-back is
    /// needed; where none is and the op is not [`undone`](Self::undone), nothing is known.
    pub echoed: BTreeMap<usize, Route>,
}

#[cfg(test)]
mod tests {
    use trueup_net::{Family, Rule, RuleAction};

    use super::*;

    #[test]
    fn a_failure_has_both_forms_of_what_is_stored_otherwise() {
        let rule = |table| Object::from(Rule::new(Family::Inet, 5, RuleAction::Lookup(table)));
        let (desired, stored) = (rule(7), rule(9));
        let forms = |stored| {
            let failure = Failure::stored_otherwise(&desired, stored, &Devices::default());
            assert_eq!(failure.class(), ErrorClass::StoredOtherwise);
            failure.forms().unwrap().clone()
        };
        let both = forms(Some(&stored));
        assert!(both.desired.contains("table 7"), "{both:?}");
        assert!(both.stored.unwrap().contains("table 9"));
        assert_eq!(forms(None).stored, None);
    }
}

//! Carries a plan out: ops in batches over netlink, and exactly one outcome for each.
//!
//! - Ops go in the plan's order. One that fails holds back only those that need it, which become
//!   pending and say for whom they wait; the rest goes on.
//! - What is to be deleted and is gone already counts as applied.
//! - Where the kernel's answer was lost, the op failed with class `unknown`: whether it was
//!   carried out only a new observation can tell.
//! - What to change is not decided here, and nothing is tried twice.
//!
//! No message leaves this crate that would touch more than its object: creates are exclusive,
//! replaces go only over what was observed as ours, deletes carry the full key and the marker. The
//! one delete of a group that many links of ours go by is of a group that they alone were put into.

#![forbid(unsafe_code)]

mod class;
mod run;
mod together;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use trueup_diff::{Dev, Devices, Hold, IfName, Object, Route};
use trueup_netlink::{KernelError, codec};
pub use trueup_reconcile::ErrorClass;

pub use run::{apply, apply_with_echo, draw_indexes, is_drawn_index};

/// What became of one op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out, or there was nothing left to do.
    Applied,
    /// It was tried and refused, or its answer was lost.
    Failed(Box<Failure>),
    /// It was not tried.
    Pending(Pending),
}

impl Outcome {
    /// Whether the op is done.
    pub fn is_applied(&self) -> bool {
        matches!(self, Outcome::Applied)
    }
}

/// Why an op was not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// The op at that position of the plan, which it needs, was not applied.
    Needs(usize),
    /// The plan holds it.
    Held(Hold),
    /// The plan's device of that name did not come to be.
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

/// Why an op failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    class: ErrorClass,
    kernel: Option<KernelError>,
    message: String,
    forms: Option<Box<Forms>>,
}

/// An object that the kernel stores otherwise, in the words of `ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forms {
    /// As it is desired.
    pub desired: String,
    /// As it is stored; `None` where it is not there.
    pub stored: Option<String>,
}

impl Failure {
    /// What it means for what comes next.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The kernel's errno, where it answered.
    pub fn errno(&self) -> Option<i32> {
        self.kernel.as_ref().map(KernelError::errno)
    }

    /// The kernel's answer, with the attribute that offended it.
    pub fn kernel(&self) -> Option<&KernelError> {
        self.kernel.as_ref()
    }

    /// Both forms of an object that the kernel stores otherwise.
    pub fn forms(&self) -> Option<&Forms> {
        self.forms.as_deref()
    }

    /// That an object was written, and is stored as something else, or not at all.
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
        let forms = Forms { desired, stored };
        let Forms { desired, stored } = &forms;
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

    fn refused(object: &Object, action: trueup_diff::Action, error: KernelError) -> Failure {
        let class = class::classify(action, object, &error);
        Failure {
            class,
            message: error.to_string(),
            kernel: Some(error),
            forms: None,
        }
    }

    /// What an op builds on is not so.
    fn conflict(message: impl Into<String>) -> Failure {
        Failure {
            class: ErrorClass::Conflict,
            message: message.into(),
            kernel: None,
            forms: None,
        }
    }

    fn unknown(message: impl Into<String>) -> Failure {
        Failure {
            class: ErrorClass::Unknown,
            kernel: None,
            message: message.into(),
            forms: None,
        }
    }

    fn unencodable(error: codec::EncodeError) -> Failure {
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
pub struct Outcomes {
    /// One for each op, in the plan's order.
    pub outcomes: Vec<Outcome>,
    /// The interface indexes of the planned devices that have come to be.
    pub created: BTreeMap<Dev, u32>,
    /// The creates, by position, that count as applied although somebody else made the object: an equal rule was there by then.
    pub found_existing: BTreeSet<usize>,
    /// The route that the kernel said it had stored, or taken out, by the position of the op, in a run that was to hear it. What
    /// an op on a route did may be known from this alone; where nothing is told, nothing is known.
    pub echoed: BTreeMap<usize, Route>,
}

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/apply.md")]
struct ContractPage;

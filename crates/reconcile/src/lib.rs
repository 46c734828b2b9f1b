//! The contract between a subsystem that can be made to agree with a declared state, and whatever drives it.
//!
//! A subsystem implements [`Source`]: one pass looks at the world, compares, changes, and tells in a [`Report`] what came
//! of it. A driver (`trueup-loop`, a command, a test) calls it without knowing what is inside: scope, desired state,
//! the ledger and options are opaque to it and passed on unchanged.
//!
//! This crate knows no subsystem, opens nothing, starts no thread and has no clock.

#![forbid(unsafe_code)]

mod class;
mod hints;
mod ledger;
mod limits;
mod report;
mod source;
mod subscription;

pub use class::ErrorClass;
pub use hints::Hints;
pub use ledger::{Claim, Ledger, LedgerError, LedgerScope, MemoryLedger};
pub use limits::{Extent, OpKey, PassLimits};
pub use report::{Outcome, Report, ReportedOp};
pub use source::{Observation, Source, Subscribed};
pub use subscription::{Drained, Subscription};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reconcile.md")]
struct ContractPage;

/// Runs the example of the page on how to write a source.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/source.md")]
struct SourcePage;

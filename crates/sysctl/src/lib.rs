//! The sysctl [`Source`](trueup_reconcile::Source): values below `/proc/sys/net` of a network namespace, made to agree with a
//! [`Desired`] state.
//!
//! A pass reads what is declared and what was ours, writes what differs, each key for itself, and reads again. The report's
//! `converged` is computed from the last reading alone.
//!
//! The kernel keeps no mark of who wrote a value, so that all ownership is the [`Ledger`]'s: what was last applied, and what
//! was there before. Nothing is told of a change, so that passes run by timer only.
//!
//! Not for what belongs to the host (`kernel.`, `vm.`, `fs.`), and not for orders that are written and never read.

#![forbid(unsafe_code)]

mod class;
mod desired;
mod due;
mod error;
mod files;
mod key;
mod look;
mod options;
mod pass;
mod record;
mod report;
mod source;
mod step;
mod value;

pub use desired::Desired;
pub use error::{Error, ErrorKind};
pub use files::{Files, ProcSys};
pub use key::Key;
pub use look::Observed;
pub use options::Options;
pub use report::{Action, Done, Failure, Finding, Outcome, Pending, Reason, Report};
pub use source::Sysctl;
pub use value::Value;

pub use trueup_netlink::Namespace;
pub use trueup_reconcile::{ErrorClass, Ledger, MemoryLedger};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sysctl.md")]
struct ContractPage;

//! The rtnetlink [`Source`](trueup_reconcile::Source): links, addresses, neighbours, routes and
//! rules of a network namespace, made to agree with a [`Desired`](trueup_diff::Desired) state.
//!
//! A pass observes, plans, applies, and looks again. What the kernel took away as a side effect of
//! the ops (the addresses that follow a deleted one, the routes of a link that went down) shows in
//! that second look and is mended in the same pass, a bounded number of times. The report's
//! `converged` is computed from the last look alone.
//!
//! Ownership: routes and rules bear the marker (`rtm_protocol`, `FRA_PROTOCOL`); so do addresses
//! and neighbours where the kernel keeps it, and [`LastApplied`] remembers them where it does not,
//! and links always. What is not ours by either is never changed or deleted.

#![forbid(unsafe_code)]

mod error;
mod ledger;
mod look;
mod options;
mod report;
mod source;

pub use error::{Error, ErrorKind};
pub use ledger::LastApplied;
pub use look::Planned;
pub use options::{
    Contention, DEFAULT_PROTOCOL, OnConflict, Options, Ownership, ReservedProtocol,
};
pub use report::{OpOutcome, Report};
pub use source::Rtnl;

pub use trueup_apply::{Failure, Outcome, Pending};
pub use trueup_netlink::Namespace;
pub use trueup_observe::{Doubt, Scope, Snapshot};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rtnl.md")]
struct ContractPage;

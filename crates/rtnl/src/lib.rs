//! The rtnetlink [`Source`](trueup_reconcile::Source): links, addresses, neighbours, routes and
//! rules of a network namespace, made to agree with a [`Desired`](trueup_diff::Desired) state.
//!
//! A pass observes, plans, applies, and looks again. What the kernel took away as a side effect of
//! the ops (the addresses that follow a deleted one, the routes of a link that went down) shows in
//! that second look and is mended in the same pass, a bounded number of times. The report's
//! `converged` is computed from the last look alone.
//!
//! Ownership: an object that bears our marker is ours, where the kernel keeps it. What it does not keep it on (links; on old
//! kernels addresses, neighbours and rules), what was adopted, and what was taken from others is ours by the
//! [`Ledger`], in which a pass records what it means to do before it does it. What is not ours by
//! either is never changed or deleted.

#![forbid(unsafe_code)]

mod dirty_part;
mod error;
mod history;
mod ledger_scope;
mod location;
mod monitor;
mod object_id;
mod options;
mod ownership;
mod pass;
mod planned;
mod report;
mod round;
mod source;
mod why;

pub use error::{Error, ErrorKind};
pub use ledger_scope::{ledger_scope, ledger_scope_of};
pub use monitor::Watch;
pub use options::{Contention, Options, ReservedProtocol};
pub use planned::Planned;
pub use report::{Finding, OpOutcome, Report, Rule};
pub use source::Rtnl;
pub use why::{Entry, Explained, Explanation, Nothing, Origin, Present, Query, Step, Whose};

pub use trueup_apply::{Failure, Outcome, Pending};
pub use trueup_diff::{DEFAULT_PROTOCOL, OnConflict, Ownership};
pub use trueup_netlink::Namespace;
pub use trueup_observe::{Incomplete, ReadScope, Snapshot};
pub use trueup_reconcile::{Ledger, LedgerScope, MemoryLedger};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rtnl.md")]
struct ContractPage;

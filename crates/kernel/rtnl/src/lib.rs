#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod connection;
mod dirty_part;
mod error;
mod events;
mod history;
pub mod key;
mod options;
mod ownership;
mod pass;
mod report;
mod round;
mod source;
mod status;
mod why;

pub use error::{Error, ErrorKind};
pub use options::Options;
pub use ownership::{ledger_scope, ledger_scope_of};
pub use report::{OwnershipRule, Report};
pub use round::OpOutcome;
pub use source::Rtnl;
pub use why::{Entry, Explained, Explanation, Origin, Query, Step, Whose};

pub use trueup_apply::{Failure, Outcome, Pending, Wait};
pub use trueup_net::{DEFAULT_PROTOCOL, MaxDeletes, Ownership};
pub use trueup_netlink::Namespace;
pub use trueup_observe::{Incomplete, ReadScope, Snapshot};
pub use trueup_reconcile::{Ledger, LedgerScope, MemoryLedger};

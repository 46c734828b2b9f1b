#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod changes;
mod desired;
mod error;
mod files;
mod key;
mod namespace;
mod pass;
mod plan;
mod record;
mod report;
mod source;
mod value;
mod write;

pub use desired::Desired;
pub use error::{Error, ErrorKind};
pub use files::{Files, ProcSys};
pub use key::Key;
pub use namespace::Observed;
pub use report::{Finding, Outcome, Reason, Report, SysctlOp};
pub use source::{Options, Sysctl};
pub use value::Value;

pub use trueup_netlink::Namespace;
pub use trueup_reconcile::{ErrorClass, Failure, Ledger, MemoryLedger, Pending};

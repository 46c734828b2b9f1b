#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod class;
mod hints;
pub mod keyed;
mod ledger;
mod limits;
mod ordered;
mod outcome;
mod report;
mod source;
mod status;
mod utc;

pub use class::ErrorClass;
pub use hints::{Hints, LateHints};
pub use ledger::{Claim, Ledger, LedgerError, LedgerScope, MemoryLedger};
pub use limits::{BeforeChange, Extent, OpKey, PassLimits};
pub use ordered::{Both, Ordered, OrderedError, OrderedReport, join};
pub use outcome::{Failure, Ops, Outcome, Pending};
pub use report::{EventCoverage, Report, ReportedOp};
pub use source::{Drained, PassInput, Source, Subscribed};
pub use status::{Condition, Status};
pub use utc::utc;

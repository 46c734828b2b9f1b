#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod class;
mod hints;
mod ledger;
mod limits;
mod report;
mod source;
mod status;
mod subscription;

pub use class::ErrorClass;
pub use hints::{Hints, LateHints};
pub use ledger::{Claim, Ledger, LedgerError, LedgerScope, MemoryLedger};
pub use limits::{Extent, OpKey, PassLimits};
pub use report::{EventCoverage, Outcome, Report, ReportedOp};
pub use source::{Observation, Source, Subscribed};
pub use status::{Condition, Status};
pub use subscription::{Drained, Subscription};

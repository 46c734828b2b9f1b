#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod board;
mod config;
mod control;
mod driver;
mod error;
mod fleet;
mod handle;
mod object_status;
mod pass_summary;
mod running;
mod state;
mod stats;
mod stepped;
mod sync;
mod trace;
mod wakers;

pub use config::Config;
pub use driver::{FinishedPass, Loop, LoopView};
pub use error::{Error, ErrorKind};
pub use fleet::Fleet;
pub use handle::{ConvergedFuture, Handle, TriedFuture};
pub use object_status::{Event, Events, ObjectStatus, Tried};
pub use pass_summary::PassSummary;
pub use running::Running;
pub use state::{Action, Budget, State, SubscriptionState};
pub use stats::{Ops, Revision, Stats};
pub use stepped::{Step, Stepped};

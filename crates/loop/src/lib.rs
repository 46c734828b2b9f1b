#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod config;
mod control;
mod driver;
mod error;
mod handle;
mod pass_summary;
mod running;
mod state;
mod stats;
mod sync;
mod trace;

pub use config::Config;
pub use driver::Loop;
pub use error::{Error, ErrorKind};
pub use handle::Handle;
pub use pass_summary::PassSummary;
pub use running::Running;
pub use state::{Action, State, SubscriptionState};
pub use stats::{Ops, Revision, Stats};

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
mod capacity;
mod closing;
mod config;
mod deadlock;
mod error;
mod lane;
mod panics;
mod queue;
mod ready;
mod shard;
mod shared;
mod stats;
mod submission;
mod task;
mod ticket;
mod trace;
mod worker;

use trueup_sync as sync;

pub use closing::{Unfinished, UnrunJob};
pub use config::Config;
pub use error::{Error, Rejected};
pub use queue::Queue;
pub use stats::Stats;
pub use ticket::{Outcome, Ticket};

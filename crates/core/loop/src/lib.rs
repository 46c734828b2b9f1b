#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod board;
mod config;
mod control;
mod driver;
mod error;
mod handle;
mod object_status;
mod runner;
mod running;
mod state;
mod stats;
mod trace;
mod turns;
mod watched;

pub use config::Config;
use trueup_sync as sync;

pub use driver::{Loop, LoopView, Rest, Step};
pub use error::{Error, ErrorKind};
pub use handle::Handle;
pub use object_status::{Event, Events, ObjectStatus, Tried};
pub use runner::{Due, Member, Runner, Task, Turn};
pub use running::Running;
pub use state::{Action, Budget, State, SubscriptionState};
pub use stats::{PassSummary, Revision, Stats};

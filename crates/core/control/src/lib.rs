#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod action;
mod backend;
mod config;
mod engine;
mod error;
mod gate;
mod normalise;
mod object;
mod plan;
mod provider;
mod record;
mod report;
#[cfg(feature = "signed")]
mod signed;
mod watched_file;

pub use action::{Action, Change, Verb};
pub use backend::{Backend, Found, Observed, Started, Subscription, Task};
pub use config::Config;
pub use engine::{ApprovalRequest, Engine, EngineHandle, JobState, Operation, StepsState, Verdict};
pub use error::{Error, ErrorKind};
pub use gate::{ActionHash, Approval, Gate, Terms};
pub use normalise::{Normalisers, lower_case, round_up, trim_end};
pub use object::{Object, Objects, Value};
pub use plan::{Plan, plan};
pub use provider::{Fixed, Provider};
pub use report::{ControlOp, Outcome, Pending, Report, Unread, Wait};
#[cfg(feature = "signed")]
pub use signed::public_key;
pub use watched_file::{WatchedFile, parse_json};

pub use trueup_journal::JournalId;
pub use trueup_reconcile::{ErrorClass, Failure};

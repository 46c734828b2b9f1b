//! The decisions of the loop, one by one and in every order: the very sources of the crate, so that a
//! search sees what the state machine keeps.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "the sources of a library, whose users are elsewhere"
)]

mod budget;
mod decisions;
mod jitter;
mod search;
#[path = "../../src"]
mod sources {
    pub(crate) mod config;
    pub(crate) mod state;
    pub(crate) mod stats;
}

use sources::*;
use trueup_sync as sync;

pub use config::Config;
pub use state::{Action, Budget, State, SubscriptionState};
pub use stats::{PassSummary, Revision, Stats};

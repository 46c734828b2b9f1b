//! The loop's decisions, one by one and in every order. The tests include the crate's own sources,
//! so a search sees the state machine's fields.
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

//! The queue over a model checker's locks, threads and clock: the very sources of the
//! crate, run under thousands of orders in which its threads may meet. A thread that waits for ever
//! is a deadlock to the checker.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the sources of a library, whose users are elsewhere"
)]

#[path = "../../src/admission.rs"]
mod admission;
#[path = "../../src/capacity.rs"]
mod capacity;
#[path = "../../src/closing.rs"]
mod closing;
#[path = "../../src/config.rs"]
mod config;
#[path = "../../src/deadlock.rs"]
mod deadlock;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/lane.rs"]
mod lane;
#[path = "../../src/panics.rs"]
mod panics;
mod properties;
#[path = "../../src/queue.rs"]
mod queue;
#[path = "../../src/ready.rs"]
mod ready;
#[path = "../../src/shard.rs"]
mod shard;
#[path = "../../src/shared.rs"]
mod shared;
#[path = "../../src/stats.rs"]
mod stats;
#[path = "../../src/submission.rs"]
mod submission;
#[path = "../../../sync/tests/model/sync.rs"]
mod sync;
#[path = "../../src/task.rs"]
mod task;
#[path = "../../src/ticket.rs"]
mod ticket;
#[path = "../../src/trace.rs"]
mod trace;
#[path = "../../src/worker.rs"]
mod worker;

pub use closing::{Unfinished, UnrunJob};
pub use config::Config;
pub use error::{Error, Rejected};
pub use queue::Queue;
pub use stats::Stats;
pub use ticket::{Outcome, Ticket};

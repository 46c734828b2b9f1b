//! The queue over a model checker's locks, threads and clock. The crate's own sources run under
//! thousands of interleavings of its threads. The checker reports a thread that waits for ever as a
//! deadlock.
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

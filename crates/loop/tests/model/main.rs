//! The loop over a model checker's locks, threads and clock (`sync.rs`): the very sources of the
//! crate, run under thousands of orders in which its threads may meet. A thread that waits for ever
//! is a deadlock to the checker.
//!
//! What decides is `State`, which has no threads and is tested by itself; here it is what stands
//! around it.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the sources of a library, whose users are elsewhere"
)]

#[path = "../../src/control.rs"]
mod control;
#[path = "../../src/driver.rs"]
mod driver;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/handle.rs"]
mod handle;
mod properties;
#[path = "../../src/running.rs"]
mod running;
mod source;
mod sync;
#[path = "../../src/trace.rs"]
mod trace;

pub use driver::Loop;
pub use error::{Error, ErrorKind};
pub use handle::Handle;
pub use running::Running;
pub use trueup_loop::{
    Action, Config, Ops, PassSummary, Revision, State, Stats, SubscriptionState,
};

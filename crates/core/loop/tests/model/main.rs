//! The loop over a model checker's locks, threads and clock. The crate's own sources run under
//! thousands of interleavings of its threads. The checker reports a thread that waits for ever as a
//! deadlock.
//!
//! `State` makes the decisions; it has no threads and its own tests. These tests check the code
//! around it.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "the sources of a library, whose users are elsewhere"
)]

#[path = "../../src/board.rs"]
mod board;
#[path = "../../src/control.rs"]
mod control;
#[path = "../../src/driver.rs"]
mod driver;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/handle.rs"]
mod handle;
#[path = "../../src/object_status.rs"]
mod object_status;
mod properties;
#[path = "../../src/runner.rs"]
mod runner;
#[path = "../../src/running.rs"]
mod running;
mod source;
#[path = "../../../sync/tests/model/sync.rs"]
mod sync;
#[path = "../../src/trace.rs"]
mod trace;
#[path = "../../src/turns.rs"]
mod turns;
#[path = "../../src/watched.rs"]
mod watched;

pub use driver::{Loop, LoopView, Rest, Step};
pub use error::{Error, ErrorKind};
pub use handle::Handle;
pub use object_status::{Event, Events, ObjectStatus, Tried};
pub use runner::{Due, Member, Runner, Task, Turn};
pub use running::Running;
pub use trueup_loop::{
    Action, Budget, Config, PassSummary, Revision, State, Stats, SubscriptionState,
};

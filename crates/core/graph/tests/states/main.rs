//! The state machine in every state that it can come to: the very sources of the crate, so that a
//! search sees what the state machine keeps.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "the sources of a library, whose users are elsewhere"
)]

mod search;
mod size;
#[path = "../../src"]
mod sources {
    pub(crate) mod builder;
    pub(crate) mod edge;
    pub(crate) mod error;
    pub(crate) mod graph;
    pub(crate) mod ports;
    pub(crate) mod records;
    pub(crate) mod spec;
    pub(crate) mod state;
    pub(crate) mod vertex;
}

use sources::*;
use trueup_sync as sync;

pub use builder::GraphBuilder;
pub use edge::EdgeKind;
pub use error::{Error, ErrorKind};
pub use graph::{Graph, VertexId};
pub use ports::Received;
pub use spec::VertexSpec;
pub use state::{
    Action, Cause, Config, Context, Explanation, Made, Record, Replaced, RunId, State, Verdict,
    Wait,
};
pub use trueup_loop::Turn;
pub use trueup_reconcile::Failure;
pub use vertex::{Records, RunContext, Vertex, Watch};

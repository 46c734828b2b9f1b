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

#[path = "../../src/adjacency.rs"]
mod adjacency;
#[path = "../../src/builder.rs"]
mod builder;
#[path = "../../src/config.rs"]
mod config;
#[path = "../../src/edge.rs"]
mod edge;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/graph.rs"]
mod graph;
#[path = "../../src/kinds.rs"]
mod kinds;
#[path = "../../src/links.rs"]
mod links;
#[path = "../../src/one_line.rs"]
mod one_line;
#[path = "../../src/ports.rs"]
mod ports;
#[path = "../../src/records.rs"]
mod records;
#[path = "../../src/restore.rs"]
mod restore;
mod search;
mod size;
#[path = "../../src/spec.rs"]
mod spec;
#[path = "../../src/state/mod.rs"]
mod state;
#[path = "../../src/vertex.rs"]
mod vertex;

use trueup_sync as sync;

pub use builder::GraphBuilder;
pub use config::Config;
pub use edge::EdgeKind;
pub use error::{Error, ErrorKind};
pub use graph::{Graph, VertexId};
pub use ports::Received;
pub use spec::VertexSpec;
pub use state::{
    Action, Cause, Context, Explanation, Made, Record, Replaced, RunId, State, Verdict, Wait,
};
pub use trueup_loop::Turn;
pub use trueup_reconcile::Failure;
pub use vertex::{Records, RunContext, Vertex, Watch};

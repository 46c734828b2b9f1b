//! The driver over a model checker's locks, threads and clock (`sync.rs`): the very sources of the
//! crate, run under many orders in which its threads may meet. A thread that waits for ever is a
//! deadlock to the checker.
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
#[path = "../../src/driver/mod.rs"]
mod driver;
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
#[path = "../../src/panics.rs"]
mod panics;
#[path = "../../src/ports.rs"]
mod ports;
mod properties;
#[path = "../../src/records.rs"]
mod records;
#[path = "../../src/restore.rs"]
mod restore;
#[path = "../../src/spec.rs"]
mod spec;
#[path = "../../src/state/mod.rs"]
mod state;
mod sync;
#[path = "../../../queue/tests/model/time.rs"]
mod time;
#[path = "../../src/vertex.rs"]
mod vertex;

pub use builder::GraphBuilder;
pub use config::Config;
pub use driver::{Driver, Snapshot};
pub use edge::EdgeKind;
pub use error::{Error, ErrorKind};
pub use graph::{Graph, VertexId};
pub use ports::Received;
pub use spec::VertexSpec;
pub use state::{
    Action, Cause, Context, Explanation, Made, Record, Replaced, RunId, State, Verdict, Wait,
};
pub use vertex::{Failure, Records, RunContext, Vertex, Watch};

//! The driver over a model checker's locks, threads and clock. The crate's own sources run under
//! many interleavings of its threads. The checker reports a thread that waits for ever as a
//! deadlock.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "the sources of a library, whose users are elsewhere"
)]

#[path = "../../src"]
mod sources {
    pub(crate) mod builder;
    pub(crate) mod driver;
    pub(crate) mod edge;
    pub(crate) mod error;
    pub(crate) mod graph;
    pub(crate) mod ports;
    pub(crate) mod records;
    pub(crate) mod spec;
    pub(crate) mod state;
    pub(crate) mod vertex;
}
mod properties;
#[path = "../../../loop/src/runner.rs"]
mod runner;
#[path = "../../../sync/tests/model/sync.rs"]
mod sync;
#[path = "../../../loop/src/turns.rs"]
mod turns;
#[path = "../../../loop/src/watched.rs"]
mod watched;

use sources::*;

use builder::GraphBuilder;
use driver::{Driver, Snapshot};
use edge::EdgeKind;
use error::{Error, ErrorKind};
use graph::{Graph, VertexId};
use runner::Turn;
use spec::VertexSpec;
use state::{
    Action, Cause, Config, Context, Explanation, Made, Record, RunId, State, Verdict, Wait,
};
use trueup_reconcile::Failure;
use vertex::{Records, RunContext, Vertex};

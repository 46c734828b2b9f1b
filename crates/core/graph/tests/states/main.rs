//! The state machine's decisions, and a search of its reachable states. The tests include the
//! crate's own sources, so a search sees the state machine's fields.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "the sources of a library, whose users are elsewhere"
)]

mod decisions;
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

use builder::GraphBuilder;
use edge::EdgeKind;
use error::{Error, ErrorKind};
use graph::{Graph, VertexId};
use spec::VertexSpec;
use state::{
    Action, Cause, Config, Context, Explanation, Made, Record, RunId, State, Verdict, Wait,
};
use trueup_loop::Turn;
use trueup_reconcile::Failure;
use vertex::{Records, RunContext, Vertex};

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adjacency;
mod builder;
mod check;
mod config;
mod driver;
mod edge;
mod error;
mod graph;
mod kinds;
mod links;
mod one_line;
mod panics;
mod ports;
mod records;
mod restore;
mod spec;
mod state;
mod svg;
mod vertex;
mod vertices;

use trueup_loop as runner;
use trueup_sync as sync;

pub use builder::GraphBuilder;
pub use check::check;
pub use config::Config;
pub use driver::{Driver, Snapshot};
pub use edge::EdgeKind;
pub use error::{Error, ErrorKind};
pub use graph::{Graph, VertexId};
pub use ports::Received;
pub use runner::Turn;
pub use spec::VertexSpec;
pub use state::{
    Action, Cause, Context, Explanation, Made, Record, Replaced, RunId, State, Verdict, Wait,
};
pub use vertex::{Records, RunContext, Vertex, Watch};
pub use vertices::{Exec, File, Places, SourceVertex};

pub use trueup_reconcile::Failure;

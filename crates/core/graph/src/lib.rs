#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod check;
mod driver;
mod edge;
mod error;
mod exec;
mod file;
mod graph;
mod ports;
mod records;
mod source;
mod spec;
mod state;
mod vertex;

use trueup_loop as runner;
use trueup_sync as sync;

pub use builder::validate;
pub use check::check;
pub use driver::{Driver, Snapshot};
pub use edge::EdgeKind;
pub use error::{Error, ErrorKind};
pub use exec::Exec;
pub use file::{File, Places};
pub use runner::Turn;
pub use source::SourceVertex;
pub use spec::VertexSpec;
pub use state::{Config, Explanation, Made, Record, Verdict, Wait};
pub use vertex::{Records, RunContext, Vertex};

pub use trueup_reconcile::Failure;

use builder::GraphBuilder;
use graph::{Graph, VertexId};
use state::{Action, Context, RunId, State};

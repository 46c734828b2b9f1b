#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod adjacency;
mod builder;
mod config;
mod error;
mod graph;
mod state;
mod vertex;

pub use builder::GraphBuilder;
pub use config::Config;
pub use error::{Error, ErrorKind};
pub use graph::{Graph, VertexId};
pub use state::{
    Action, Cause, Context, Explanation, Record, Replaced, RunId, State, Verdict, Wait,
};
pub use vertex::Vertex;

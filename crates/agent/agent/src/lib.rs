#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod agent;
mod apply;
mod core_dumps;
mod declared;
mod desired;
mod desired_file;
mod doctor;
mod error;
mod graph;
mod observe;
mod options;
mod plan;
mod report;
mod section;
mod source;
mod state;
mod status;
mod target;
mod watch;
mod words;
mod world;

pub use agent::Agent;
pub use apply::{Applied, RunReport};
pub use core_dumps::forbid as forbid_core_dumps;
pub use declared::Declared;
pub use desired_file::{Writers, is_stdin};
pub use doctor::Findings;
pub use error::{Error, ErrorKind, Result};
pub use observe::Authored;
pub use options::Options;
pub use plan::Plan;
pub use report::{
    ConflictRecord, FailureRecord, FormsRecord, Op, OpRecord, OpText, OwnershipRecord, PassReport,
};
pub use section::{Part, Section};
pub use target::Target;
pub use watch::event::{Event, FileChange, News};
pub use watch::{Address, Config, Handle, Running, STOP_TIMEOUT, Watch, WorldStatus};

pub use trueup_file::{Diagnostic, File, OwnElement};
pub use trueup_rtnl::Namespace;

/// Reports, plans and graphs in words, and as JSON that is built while it is written.
pub mod text {
    pub use crate::graph::{VertexRecord, VertexState, file_name, unsettled_lines, vertex_line};
    pub use crate::report::{Ops, Ownership, changes, is_applied, unfinished, verdict};
    pub use crate::status::status_text;
    pub use crate::words::{count, seconds, with_causes};
}

/// The directories of journals.
pub mod journals {
    pub use crate::state::{EXTENSION, StateFile, directories, existing};
}

/// The store of a file with `[world]`, for commands that look into it.
pub mod exchange {
    #[cfg(feature = "etcd")]
    pub use crate::world::etcd_config;
    pub use crate::world::{Collection, Use, grants_check, open, owner, read_grants};
}

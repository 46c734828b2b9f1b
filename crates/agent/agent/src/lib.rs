#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod agent;
mod apply;
mod collected;
mod core_dumps;
mod declared;
mod desired_file;
mod doctor;
mod error;
mod graph;
mod keyed_section;
mod namespace;
mod observe;
mod options;
mod part;
mod pass_vertex;
mod plan;
mod report;
mod section;
mod source;
mod state;
mod status;
#[cfg(test)]
mod testing;
mod watch;
mod world;

pub use agent::Agent;
pub use apply::{Applied, RunReport};
pub use core_dumps::forbid as forbid_core_dumps;
pub use declared::Declared;
pub use desired_file::{Writers, is_stdin};
pub use doctor::Findings;
pub use error::{Error, ErrorKind, Result};
pub use keyed_section::{KeyedSection, keyed_section};
pub use observe::Authored;
pub use options::Options;
pub use plan::Plan;
pub use report::{ConflictRecord, FailureRecord, Op, OpText, OwnershipRecord, PassReport};
pub use section::Section;
pub use watch::event::Event;
pub use watch::{Address, Config, Handle, STOP_TIMEOUT, Watch, WorldStatus};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data that stays valid if its holder panics.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub use trueup_file::{Diagnostic, File, OwnElement};
pub use trueup_rtnl::Namespace;

/// Reports, plans and graphs as text, and as JSON that is built while it is written.
pub mod text {
    pub use crate::error::with_causes;
    pub use crate::graph::{is_settled, unsettled_lines, vertex_line, vertex_name, vertex_record};
    pub use crate::report::{changes, ops, ownership, planned_op, unfinished, verdict};
    pub use crate::status::{count, seconds, status_text};
}

/// Journals on disk: their places, and the directories of the usual ones.
pub mod journals {
    pub use crate::state::{EXTENSION, StateFile, directories, existing};
}

/// The store of a file with `[world]`, for commands that look into it.
pub mod exchange {
    #[cfg(feature = "etcd")]
    pub use crate::world::etcd_config;
    pub use crate::world::{Collection, Use, grants_check, open, owner, read_grants};
}

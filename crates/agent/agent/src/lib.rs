#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod agent;
#[doc(hidden)]
pub mod apply;
#[doc(hidden)]
pub mod core_dumps;
#[doc(hidden)]
pub mod declared;
mod desired;
#[doc(hidden)]
pub mod desired_file;
mod doctor;
mod error;
#[doc(hidden)]
pub mod graph;
#[doc(hidden)]
pub mod observe;
mod options;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod section;
mod source;
#[doc(hidden)]
pub mod state;
#[doc(hidden)]
pub mod status;
#[doc(hidden)]
pub mod target;
#[doc(hidden)]
pub mod watch;
#[doc(hidden)]
pub mod words;
#[doc(hidden)]
pub mod world;

pub use agent::Agent;
pub use apply::{Applied, RunReport};
pub use declared::Declared;
pub use desired_file::Writers;
pub use doctor::Findings;
pub use error::{Error, ErrorKind, Result};
pub use options::Options;
pub use plan::Plan;
pub use report::{
    ConflictRecord, FailureRecord, FormsRecord, Op, OpRecord, OpText, OwnershipRecord, PassReport,
};
pub use section::Section;
pub use watch::event::{Event, FileChange, News};
pub use watch::{Address, Config, Handle, Running, Watch, WorldStatus};

pub use trueup_file::{Diagnostic, OwnElement};
pub use trueup_rtnl::Namespace;

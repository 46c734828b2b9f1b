#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acceptance;
mod collector;
mod deploys;
#[cfg(feature = "embedded")]
mod embedded;
mod error;
mod exporter;
#[cfg(feature = "grants")]
mod grants;
mod hash;
mod keys;
mod members;
mod resources;
mod scheduler;
mod session;
mod store;
mod strings;
mod threads;
mod watch;
mod world;

pub use acceptance::{
    Acceptance, Accepted, Collect, Contest, ContestEffect, Origin, Overlap, Protected, Refused,
    check_route,
};
pub use collector::{Collector, CollectorConfig, Holdings, Seen};
pub use deploys::{Deploy, DeployedFile};
#[cfg(feature = "embedded")]
pub use embedded::Embedded;
pub use error::{Error, ErrorKind};
pub use exporter::{ExportOp, ExportReport, Exporter};
#[cfg(feature = "grants")]
pub use grants::{Grants, GrantsCheck, GrantsError, GrantsFollower, grants_public_key};
pub use hash::Hash;
pub use keys::Access;
pub use resources::{Collected, Export, Filter, Hosts, ResourceKey};
pub use scheduler::{Schedule, Strategy};
pub use session::{Exported, Keeper, Session, SessionEvent, SessionStatus};
pub use store::{
    Compare, Entry, LeaseId, Limits, Revision, Store, StoreEvent, StoreMember, StoreWatch, Write,
};
pub use watch::{Event, View, Watch, WatchConfig};
pub use world::World;

pub use trueup_diff::Verdict;

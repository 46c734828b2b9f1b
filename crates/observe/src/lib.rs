//! What the kernel holds, read into `trueup-diff`'s model: a [`Snapshot`] of a namespace, whole or
//! scoped to what is managed, and how sure it is; and what of it became doubtful since, as a
//! [`Monitor`] learns it.
//!
//! The kernel leaves rows out of dumps and says nothing, so an [`Observer`] calls a kind complete only
//! with grounds to: it listens while it reads. Of an incomplete kind nothing may be deleted. Filters
//! go to the kernel where it knows them, and everything is filtered again here. What to change is not
//! decided here.

#![forbid(unsafe_code)]

mod alternate_sockets;
mod change_log;
mod completeness;
mod consistent_read;
mod dirty_set;
mod dump;
mod dump_guard;
mod kind_reader;
mod listener;
mod monitor;
mod observer;
mod routes;
mod snapshot;
mod subscribe;

pub use change_log::Change;
pub use completeness::Incomplete;
pub use dirty_set::DirtySet;
pub use monitor::{EventSummary, Monitor, RECEIVE_BUFFER, WatchScope};
pub use observer::Observer;

pub use snapshot::Snapshot;
pub use trueup_netlink::codec::ReadScope;

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/observe.md")]
struct ContractPage;

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod address_routes;
mod advertised;
mod completeness;
mod consistent_read;
mod dirty_set;
mod dump_guard;
mod gateways;
mod kind_reader;
mod listener;
mod monitor;
mod observer;
mod routes;
mod snapshot;

pub use completeness::Incomplete;
pub use dirty_set::DirtySet;
pub use listener::ObservedChange;
pub use monitor::{EventSummary, Monitor, RECEIVE_BUFFER, WatchScope};
pub use observer::Observer;
pub use snapshot::{SingleRead, Snapshot};
pub use trueup_netlink::codec::ReadScope;

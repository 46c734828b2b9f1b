//! What the kernel holds, read into `trueup-diff`'s model: a [`Snapshot`] of a namespace, whole or
//! scoped to what is managed, and how sure it is.
//!
//! Filters go to the kernel where it knows them, and everything is filtered again here. A dump
//! that was interrupted is repeated, within a bound; a message that cannot be read, a row that
//! comes twice, a dump that stays interrupted make the kind incomplete, and of an incomplete kind
//! nothing may be deleted. What to change is not decided here.

#![forbid(unsafe_code)]

mod doubtful;
mod monitor;
mod observer;
mod read;
mod settle;
mod snapshot;
mod witness;

pub use doubtful::Doubtful;
pub use monitor::{Attended, Interest, Monitor};
pub use observer::Observer;
pub use snapshot::{Doubt, Scope, Snapshot, routes_where, snapshot};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/observe.md")]
struct ContractPage;

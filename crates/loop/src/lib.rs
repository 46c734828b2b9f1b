//! A thin blocking loop over any [`Source`](trueup_reconcile::Source): it decides when passes run, and nothing else.
//!
//! [`Loop`] runs passes on the caller's thread; [`Handle`] controls it from any other. The decisions are those of
//! [`State`], which is given the time and has no clock, thread or descriptor of its own, so that it can be tested by
//! simulation and driven by something else than [`Loop`].
//!
//! Not for: an async runtime, any subsystem, what a pass does.

#![forbid(unsafe_code)]

mod config;
mod control;
mod driver;
mod error;
mod handle;
mod pass_summary;
mod running;
mod state;
mod stats;
mod sync;
mod trace;

pub use config::Config;
pub use driver::Loop;
pub use error::{Error, ErrorKind};
pub use handle::Handle;
pub use pass_summary::PassSummary;
pub use running::Running;
pub use state::{Action, State, SubscriptionState};
pub use stats::{Ops, Revision, Stats};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/loop.md")]
struct ContractPage;

//! Pure diff of the Linux kernel's network state: the model of its objects, what identifies each,
//! the canonical form in which the kernel would report it, and the plan that leads from what was
//! observed to what is desired.
//!
//! This crate does no I/O, holds no clock and starts no thread; it runs on any platform. It takes
//! what was observed as data and gives ops as data: reading the kernel and writing to it are for
//! others to do.
//!
//! - [`two_way`] and [`three_way`] compare items of any type.
//! - [`model`] has the kernel's objects.
//! - [`plan()`] compares whole states and puts the ops in order.
//! - [`render`] shows ops as iproute2 commands, as text and as JSON.

#![forbid(unsafe_code)]

mod check;
mod desired;
mod merge;
pub mod model;
mod options;
mod plan;
pub mod render;
mod resolve;
mod routes;

pub use desired::{Desired, NexthopMode, Observed, Owned, Policy, ProvenBy, proof};
pub use ipnetwork::IpNetwork;
pub use merge::{Diff, Duplicate, three_way, two_way};
pub use model::*;
pub use options::{DEFAULT_PROTOCOL, OnConflict, Ownership};
pub use plan::{Action, Conflict, Hold, Object, ObjectKey, Op, Plan, Reason, plan, plan_resolved};
pub use resolve::{DesiredError, Devices, Problem, Resolved, assigned, resolve};
pub use routes::{
    DumpMatcher, Mismatches, NexthopAssignment, NexthopTable, PlainRoute, Revision,
    RouteDependencies, Routes, RowMatch, Tracker,
};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/diff.md")]
struct ContractPage;

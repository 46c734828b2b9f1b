//! Tests of agents against kernels: a fake one that can be made to fail, and the running one without root.
//!
//! * [`fake::Kernel`] answers rtnetlink in memory as the running kernel would; [`faults::Faults`] lets messages to either
//!   go astray.
//! * [`mask`] makes of either an older one, which does not keep the markers of some objects.
//! * [`crash::Points`] kills a process before or after anything that it sends, or does elsewhere.
//! * [`scenario`] reads and carries out behaviours that are written as text.
//! * [`kernel_tests!`] makes the `main` of a test target: it enters a user, network and mount namespace of its own before
//!   any thread exists, then runs each test on a thread of its own in a fresh network namespace.
//! * [`veth_pair`], [`bridge`], [`uplinks`], [`ip`], [`ip_batch`] build the state that a test needs.
//! * [`Writer`] is a stranger in the namespace, [`Announcement`] tells what was his doing.
//! * [`ip_json`], [`raw_dump`], [`Snapshot`] and [`Changes`] tell what the kernel holds and what it announced. None of
//!   them shares a line with the codecs under test.
//!
//! Not for production code: a failure here is a panic that says what went wrong.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test tool: a panic with the reason is how it fails"
)]

mod changes;
pub mod crash;
mod directory;
mod enter;
pub mod fake;
pub mod faults;
mod layer;
mod mask;
mod message;
mod runner;
pub mod scenario;
mod settled;
mod show;
mod snapshot;
mod stable;
mod topology;
mod wire;
mod writer;

pub use changes::{Announcement, Changes, assert_no_changes};
pub use directory::empty_directory;
pub use enter::{
    Forbidden, enter, fresh_netns, quiet_netns, without_file_override, without_net_admin,
};
pub use mask::mask;
pub use message::{Action, Kind, RawMessage};
pub use runner::{TestWhere, example, main, main_where, running_version};
pub use snapshot::Snapshot;
pub use stable::stable;
pub use topology::{
    NamedNetns, bridge, index_of, ip, ip_batch, ip_fails, ip_json, named_netns, uplinks, veth_pair,
    wait_until,
};
pub use wire::{raw_dump, raw_dump_proxies};
pub use writer::Writer;

/// Compiles the example of the contract page, which `tests/kernel.rs` runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testkit.md")]
struct ContractPage;

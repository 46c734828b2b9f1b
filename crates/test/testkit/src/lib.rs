#![doc = include_str!("../README.md")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test tool: a panic with the reason is how it fails"
)]

mod changes;
pub mod crash;
mod directory;
mod enter;
pub mod faults;
pub mod fields;
pub mod layer;
mod ledger;
mod mask;
mod message;
pub mod model;
mod node;
mod router;
mod runner;
pub mod settled;
mod show;
mod snapshot;
mod stable;
mod topology;
mod wire;

pub use changes::{Changes, assert_no_changes};
pub use directory::{Scratch, empty_directory};
pub use enter::{enter, fresh_netns, quiet_netns, without_file_override, without_net_admin};
pub use ledger::{Claims, InterceptedLedger};
pub use mask::mask;
pub use message::{Action, Kind, RawMessage, attributes, u16_at, u32_at};
pub use node::{Node, bridge_at};
pub use router::advertise;
pub use runner::{
    TestWhere, example, is_long, is_short, main, main_where, may_skip, panic_text, random_cases,
    running_version, tests_at_once,
};
pub use snapshot::Snapshot;
pub use stable::stable;
pub use topology::{
    NamedNetns, bridge, index_of, ip, ip_batch, ip_fails, ip_force, ip_json, named_netns, uplinks,
    veth_pair, wait_until,
};
pub use wire::{Writer, lacks_kind, raw_dump, raw_dump_proxies, raw_request};

//! What a routing daemon asks of trueup: single changes of each form of route ([`forms`]), and a
//! day among a million routes ([`day`]), with gateways that cannot be reached and other writers'
//! routes all the time; beside it the command `trueup watch` ([`watch`]), and BIRD ([`bird`]).
//!
//! A change takes from [`Handle::change`](trueup_loop::Handle::change) to the kernel's own event
//! that it is there, which a socket of its own hears ([`listener`](crate::listener)).

mod agent;
pub mod bird;
pub mod day;
mod feed;
mod floor_routes;
pub mod forms;
mod meter;
pub mod table;
pub mod watch;

use std::fs;

use anyhow::Result;

use crate::{floor, state};

/// The base of ratios: the same change as one request, and its event.
pub const FLOOR: &str = "floor";
/// Its own name.
pub const TRUEUP: &str = "trueup";

/// Moves the calling thread to a namespace with the link that all gateways are behind.
fn enter_namespace() -> Result<()> {
    trueup_testkit::quiet_netns();
    // While it is 1, as by default, the kernel walks all routes for a nexthop object that changes.
    fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", "0")?;
    state::make_uplink();
    floor::wait_until_up("up0");
    Ok(())
}

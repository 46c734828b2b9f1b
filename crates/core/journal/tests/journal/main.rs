//! The journal's contract, on files and on failing devices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod common;
mod crash;
mod cut;
mod failure;
mod held;
mod id;
mod keys;
mod kill;
mod ledger;
mod maintenance;
mod openers;
mod opening;
mod operations;
mod processes;
mod removed;
mod sparse;
mod threads;
mod tokens;
mod unreadable;
mod volume;

/// Returns true if each test should run at its full length.
fn is_long() -> bool {
    std::env::var_os("TRUEUP_LONG").is_some_and(|set| set == "1")
}

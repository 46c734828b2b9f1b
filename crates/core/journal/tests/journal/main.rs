//! The journal's contract, on files and on failing devices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod common;
mod crash;
mod cut;
mod failure;
mod held;
mod id;
mod image;
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

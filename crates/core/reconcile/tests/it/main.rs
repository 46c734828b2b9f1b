//! The tests of the public API, in one program: each program more is one link more.
#![allow(clippy::unwrap_used)]

mod class;
mod hints;
mod ledger;
mod limits;
mod source;
mod utc;

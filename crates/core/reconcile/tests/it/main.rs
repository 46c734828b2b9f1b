//! The tests of the public API, in one program: each further program would have to be linked.
#![allow(clippy::unwrap_used)]

mod class;
mod hints;
mod ledger;
mod limits;
mod source;
mod utc;

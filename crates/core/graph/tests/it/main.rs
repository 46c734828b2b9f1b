//! The state machine's decisions, and the driver on real threads with the journal.
#![allow(clippy::unwrap_used)]

mod attacks;
mod bad_values;
mod crashes;
mod driver;
mod faults;
mod futures;
mod group_records;
mod groups;
mod inherited;
mod kinds;
mod other_users;
mod ports;
mod programs;
mod racing_user;
mod records;
mod restored;
mod reversals;
mod source;
#[allow(dead_code, reason = "shared with the tests of the walk")]
#[path = "../../../path/tests/attacks/stage.rs"]
mod stage;
mod storm;
mod support;
mod tried;
mod vertices;

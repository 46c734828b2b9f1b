//! The driver on real threads, with the journal.
#![allow(clippy::unwrap_used)]

mod attacks;
mod bad_values;
mod crashes;
mod driver;
mod faults;
mod group_records;
mod groups;
mod ports;
mod restored;
mod reversals;
mod source;
mod storm;
mod support;
mod tried;
mod vertices;

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod store;

pub use error::{Error, ErrorKind};
pub use store::{
    Change, Committed, Compare, Entry, LeaseId, Revision, Snapshot, Store, StoreMember, StoreWatch,
    Transaction, TransactionLimits, WatchEvent, Write,
};

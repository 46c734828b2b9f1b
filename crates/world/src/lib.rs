#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod store;

pub use error::{Error, ErrorKind};
pub use store::{
    Committed, Compare, Entry, KeyChange, LeaseId, Revision, Snapshot, Store, StoreEvent,
    StoreMember, StoreWatch, Transaction, TransactionLimits, Write,
};

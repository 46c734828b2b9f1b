#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod embedded;
mod error;
mod store;
#[cfg(feature = "testing")]
pub mod testing;

pub use access::Access;
pub use embedded::Embedded;
pub use error::{Error, ErrorKind};
pub use store::{
    Committed, Compare, Entry, KeyChange, LeaseId, Revision, Snapshot, Store, StoreEvent,
    StoreMember, StoreWatch, Transaction, TransactionLimits, Write,
};

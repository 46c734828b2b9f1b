#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod access;
mod backoffs;
mod database;
mod error;
mod execution;
mod files;
mod group_commit;
mod header;
mod id;
mod image;
mod in_place;
mod journal;
mod journal_file;
mod json_lines;
mod keys;
mod ledger;
mod lock;
mod lock_queue;
mod maintenance;
mod new_file;
mod nonces;
mod operation;
mod operations;
mod record;
mod retention;
mod snapshot;
mod stats;
mod storage;
mod store;

pub use backoffs::{Backoff, Backoffs};
pub use error::{Error, ErrorKind, Refusal};
pub use execution::Execution;
pub use files::lock_file;
pub use id::JournalId;
pub use journal::Journal;
pub use json_lines::Counts;
pub use keys::KeyState;
pub use ledger::JournalLedger;
pub use lock::{Holder, check_not_held};
pub use maintenance::{Loss, Repaired, check, export, repair};
pub use nonces::Nonces;
pub use operation::{Operation, OperationState, Outcome};
pub use operations::{Begun, InFlight, Operations, Start, Unreadable};
pub use retention::Keep;
pub use stats::{Compacted, Stats};
pub use storage::Storage;
pub use trueup_reconcile::LedgerScope;

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod backoffs;
mod database;
mod error;
mod execution;
mod files;
mod group_commit;
mod header;
mod journal;
mod journal_file;
mod json_lines;
mod keys;
mod ledger;
mod lock;
mod lock_queue;
mod maintenance;
mod nonces;
mod operation;
mod operations;
mod record;
mod snapshot;
mod storage;

pub use backoffs::Backoff;
pub use error::{Error, ErrorKind, Refusal};
pub use execution::Execution;
pub use files::lock_file;
pub use header::JournalId;
pub use journal::{Journal, Stats};
pub use json_lines::Counts;
pub use keys::KeyState;
pub use ledger::JournalLedger;
pub use lock::check_not_held;
pub use maintenance::{Repaired, check, export, repair};
pub use operation::{Keep, Operation, OperationState, Outcome};
pub use operations::{InFlight, Start};
pub use storage::Storage;
pub use trueup_reconcile::LedgerScope;

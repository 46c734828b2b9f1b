//! A durable, crash-safe store with three faces, in one file.
//!
//! - [`Operations`]: what was begun, what runs where, what came of it.
//! - [`Keys`]: what is to happen once happens once, across restarts.
//! - [`JournalLedger`]: what a source owns in a scope, and what it last applied; a [`Ledger`](trueup_reconcile::Ledger) of
//!   `trueup-reconcile`.
//!
//! Every call that changes something returns once that is durable, and calls from several threads share a sync. After a crash
//! all that was acknowledged is there. What is not known (an operation in flight, a key in doubt, an open intent) is told as
//! not known, and never assumed. One process at a time has it open, and damage is an error.
//!
//! It knows no subsystem, has no clock and starts no thread: keys, values and times are the caller's.

#![forbid(unsafe_code)]

mod care;
mod commit;
mod error;
mod frame;
mod journal;
mod keys;
mod ledger;
mod lines;
mod lock;
mod opening;
mod operations;
mod record;
mod regular;
mod retention;
mod storage;

pub use care::{Loss, Repaired, check, export, repair};
pub use error::{Error, ErrorKind, Refusal};
pub use journal::{Compacted, Journal, Stats};
pub use keys::{Ending, KeyState, Keys, Reservation, Reserved, Resolution};
pub use ledger::JournalLedger;
pub use lines::Counts;
pub use lock::{Holder, lock_file, unheld};
pub use operations::{Operation, OperationState, Operations};
pub use regular::open_regular;
pub use retention::Keep;
pub use storage::Storage;
pub use trueup_reconcile::LedgerScope;

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/journal.md")]
struct ContractPage;

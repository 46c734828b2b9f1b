//! One write of a value: the step, its execution, and its outcome.

use std::io;

use trueup_reconcile::{ErrorClass, Failure};

use crate::error::classify;
use crate::namespace::{ReadValue, read_key};
use crate::record::Record;
use crate::value::are_same;
use crate::{Files, Key, Outcome, Reason};

/// A write that is due.
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) from: Option<String>,
    pub(crate) to: String,
    pub(crate) reason: Reason,
    /// The record for the ledger after the write. `None` if the key is then not ours.
    pub(crate) record: Option<Record>,
}

/// The result of a write.
pub(crate) struct Written {
    pub(crate) error: Option<Failure>,
    /// The value read right after it.
    pub(crate) read_back: ReadValue,
}

/// Writes a value in one system call, and reads it back.
pub(crate) fn write(files: &dyn Files, step: &Step) -> Written {
    let line = format!("{}\n", step.to);
    let error = match files.write(&step.key, line.as_bytes()) {
        Ok(accepted) if accepted == line.len() => None,
        Ok(accepted) => {
            let length = line.len();
            let message = format!("the kernel accepted {accepted} of {length} bytes of the value");
            Some(Failure::new(ErrorClass::Invalid, message))
        }
        Err(error) => Some(write_failure(&error)),
    };
    let read_back = read_key(files, &step.key);
    Written { error, read_back }
}

fn write_failure(error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::EROFS) => ": /proc/sys is mounted read-only; mount it for writing",
        Some(libc::EACCES) => {
            ": that takes CAP_NET_ADMIN in the user namespace that owns the network namespace"
        }
        Some(libc::EPERM) => {
            ": the kernel asks for a capability, such as CAP_NET_ADMIN, or leaves this to the host"
        }
        _ => "",
    };
    Failure::new(classify(error), format!("cannot be written: {error}{hint}"))
        .with_errno(error.raw_os_error())
}

/// Returns the outcome of a write by the value read back, and the record for the ledger. If the
/// value could not be read, there is no record, and the intent stays open.
pub(crate) fn evaluate(
    step: &Step,
    written: Written,
    before: Option<Record>,
) -> (Outcome, Option<Option<Record>>) {
    let Written { error, read_back } = written;
    let now = match read_back {
        Ok(now) => now,
        Err(failure) if failure.errno == Some(libc::ENOENT) => {
            let outcome = match step.reason {
                // The key no longer exists, so there is no value to revert.
                Reason::Released => Outcome::Applied,
                _ => Outcome::Failed(error.unwrap_or(failure)),
            };
            return (outcome, Some(None));
        }
        Err(mut failure) => {
            failure.class = ErrorClass::Unknown;
            return (Outcome::Failed(error.unwrap_or(failure)), None);
        }
    };
    let is_right = are_same(&step.key, Some(&step.to), now.as_deref());
    let was_accepted = error.is_none() || is_right;
    let outcome = match error {
        _ if is_right => Outcome::Applied,
        Some(failure) => Outcome::Failed(failure),
        None => stored_differently(&step.to, now.as_deref().unwrap_or_default()),
    };
    let claim = match &step.record {
        _ if !was_accepted && are_same(&step.key, step.from.as_deref(), now.as_deref()) => before,
        // Ours with the value found, so that it can be reverted.
        Some(record) => Some(Record { found: now, accepted: was_accepted, ..record.clone() }),
        None => None,
    };
    (outcome, Some(claim))
}

/// Returns the outcome of a value that the kernel stores differently. Another write would be stored
/// the same way.
pub(crate) fn stored_differently(wanted: &str, now: &str) -> Outcome {
    let message =
        format!("the kernel keeps \"{now}\" where \"{wanted}\" is written: declare what it keeps");
    Outcome::Failed(Failure::new(ErrorClass::Invalid, message))
}

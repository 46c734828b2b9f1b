//! One write: what it is to do, its doing, and what came of it.

use std::io;

use trueup_reconcile::ErrorClass;

use crate::class::classify;
use crate::look::{Seen, read};
use crate::record::Record;
use crate::value::same;
use crate::{Action, Failure, Files, Key, Outcome, Reason};

/// A write that is due.
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) action: Action,
    pub(crate) from: Option<String>,
    pub(crate) to: String,
    pub(crate) reason: Reason,
    /// What the ledger is to say once it is done; `None`: not ours.
    pub(crate) record: Option<Record>,
}

/// What came of a write.
pub(crate) struct Written {
    pub(crate) error: Option<Failure>,
    /// What was read right after it.
    pub(crate) back: Seen,
}

/// Writes a value, in one go, and reads it back.
pub(crate) fn write(files: &dyn Files, step: &Step) -> Written {
    let line = format!("{}\n", step.to);
    let error = match files.write(&step.key, line.as_bytes()) {
        Ok(taken) if taken == line.len() => None,
        Ok(taken) => {
            let length = line.len();
            Some(Failure {
                class: ErrorClass::Invalid,
                errno: None,
                message: format!(
                    "the kernel took {taken} of {length} bytes, and a value is whole or none"
                ),
            })
        }
        Err(error) => Some(refused(&error)),
    };
    let back = read(files, &step.key);
    Written { error, back }
}

fn refused(error: &io::Error) -> Failure {
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
    Failure {
        class: classify(error),
        errno: error.raw_os_error(),
        message: format!("cannot be written: {error}{hint}"),
    }
}

/// What a write came to, by what was read after it, and what the ledger is to say; the intent stays open where nobody knows.
pub(crate) fn judge(
    step: &Step,
    written: Written,
    before: Option<Record>,
) -> (Outcome, Option<Option<Record>>) {
    let Written { error, back } = written;
    let now = match back {
        Ok(now) => now,
        Err(failure) if failure.errno == Some(libc::ENOENT) => {
            return match step.action {
                // It is gone, and with it what was to be undone.
                Action::Revert => (Outcome::Applied, Some(None)),
                Action::Set => (Outcome::Failed(error.unwrap_or(failure)), Some(None)),
            };
        }
        Err(failure) => {
            let unknown = Failure {
                class: ErrorClass::Unknown,
                ..failure
            };
            return (Outcome::Failed(error.unwrap_or(unknown)), None);
        }
    };
    let is_now = |text: Option<&str>| match (text, now.as_deref()) {
        (Some(text), Some(now)) => same(&step.key, text, now),
        (text, now) => text == now,
    };
    let is_right = is_now(Some(&step.to));
    let was_taken = error.is_none() || is_right;
    let outcome = match error {
        _ if is_right => Outcome::Applied,
        Some(failure) => Outcome::Failed(failure),
        None => kept(&step.to, now.as_deref().unwrap_or_default()),
    };
    let claim = match &step.record {
        _ if !was_taken && is_now(step.from.as_deref()) => before,
        // Ours by what was found, that it can be given back.
        Some(record) => Some(Record {
            found: now,
            accepted: was_taken,
            ..record.clone()
        }),
        None => None,
    };
    (outcome, Some(claim))
}

/// The kernel took a value and made another of it. Writing it again would make the same.
pub(crate) fn kept(wanted: &str, now: &str) -> Outcome {
    Outcome::Failed(Failure {
        class: ErrorClass::Invalid,
        errno: None,
        message: format!(
            "the kernel keeps \"{now}\" where \"{wanted}\" is written: declare what it keeps"
        ),
    })
}

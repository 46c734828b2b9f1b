//! Code of the caller's that panics: it must not end a worker, nor leave a lane behind.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the caller's, and returns the message of its panic if it panics.
///
/// Nothing of the queue is behind `run`, so nothing of it can be seen half changed.
pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

/// Drops a value of the caller's. A panic of its `drop` ends here.
pub(crate) fn discard<T>(value: T) {
    if let Err(message) = catch(|| drop(value)) {
        crate::trace::panicked(&message);
    }
}

/// Returns the message of a panic, and drops its payload.
fn message(payload: Box<dyn Any + Send>) -> String {
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => String::clone(text),
        (None, None) => "a panic without a message".to_owned(),
    };
    // The payload of a payload that panics when dropped may do so again: it is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(again);
    }
    message
}

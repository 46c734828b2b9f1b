//! Panics in the caller's code, which must neither end a worker nor leave a lane behind.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the caller's code. If it panics, returns the panic's message.
///
/// `run` has no access to the queue's state, so the state cannot be half changed.
pub(crate) fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

/// Drops a value of the caller's. Catches a panic of its `drop`.
pub(crate) fn discard<T>(value: T) {
    if let Err(message) = catch(|| drop(value)) {
        crate::trace::panicked(&message);
    }
}

/// Returns a panic's message, and drops its payload.
fn message(payload: Box<dyn Any + Send>) -> String {
    let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => String::clone(text),
        (None, None) => "a panic without a message".to_owned(),
    };
    // If dropping the payload panics, the new payload may panic in turn, so it is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(again);
    }
    message
}

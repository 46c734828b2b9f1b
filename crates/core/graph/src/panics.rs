//! Panics of vertices: none ends a thread of the driver.

use std::panic::{AssertUnwindSafe, catch_unwind};

use trueup_reconcile::ErrorClass;

use crate::Failure;

/// Calls a vertex. Its panic is a failure of class `Unknown`.
pub(crate) fn catch<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => String::clone(text),
            (None, None) => "without a message".to_owned(),
        };
        // Its own drop may panic.
        std::mem::forget(payload);
        let message = format!("the vertex panicked: {text}; this is a fault of its code");
        Err(Failure::new(ErrorClass::Unknown, message))
    })
}

/// Drops a value of a vertex.
pub(crate) fn discard<T>(value: T) {
    // There is no other place for the failure to go.
    let _ = catch(|| {
        drop(value);
        Ok(())
    });
}

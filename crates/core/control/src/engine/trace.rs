//! Spans and events for `tracing`, with the feature of that name. Without the feature, they are
//! empty.
#![cfg_attr(not(feature = "tracing"), allow(unused_variables))]

use super::flight::End;
use crate::record::Record;

/// Reports that an operation was recorded as started. Hides secrets.
pub(crate) fn started(record: &Record) {
    #[cfg(feature = "tracing")]
    tracing::info!(request = record.request, action = %record.action, "started");
}

/// Reports the end of an operation.
pub(crate) fn ended(record: &Record, end: &End) {
    #[cfg(feature = "tracing")]
    match end {
        End::Succeeded => {
            tracing::info!(request = record.request, key = record.action.key, "succeeded");
        }
        _ => tracing::warn!(request = record.request, action = %record.action, ?end, "ended"),
    }
}

/// Reports the number of operations that an earlier process left in flight.
pub(crate) fn recovered(count: usize) {
    #[cfg(feature = "tracing")]
    if count > 0 {
        tracing::warn!(count, "operations were in flight when the agent ended");
    }
}

/// Reports that the journal did not record an operation's result.
pub(crate) fn journal_failed(error: &dyn std::error::Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(%error, "the journal did not record what became of an operation");
}

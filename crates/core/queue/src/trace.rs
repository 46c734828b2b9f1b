//! Events for `tracing`, with the feature of that name. Without the feature, they are empty.

/// Reports that the caller's code panicked on a worker: a job, a waker, or a `drop`.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn panicked(message: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(panic = message, "a job of the queue panicked");
}

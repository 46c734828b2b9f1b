//! Spans and events for `tracing`, with the feature of that name. Without the feature, they are
//! empty.

use trueup_reconcile::Extent;

use crate::{PassSummary, Revision};

/// The span of a pass: `extent`, `revision`, then `converged`, `truncated`, `tried` and `pending`,
/// or `error`.
pub(crate) struct Pass {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Pass {
    #[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
    pub(crate) fn new(extent: Extent, revision: Revision) -> Pass {
        Pass {
            #[cfg(feature = "tracing")]
            span: tracing::info_span!(
                "pass",
                extent = match extent {
                    Extent::Everything => "everything",
                    Extent::Dirty => "dirty",
                },
                revision = revision.number(),
                converged = tracing::field::Empty,
                truncated = tracing::field::Empty,
                tried = tracing::field::Empty,
                pending = tracing::field::Empty,
                error = tracing::field::Empty,
            ),
        }
    }

    /// Runs `run` inside the span.
    pub(crate) fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        return self.span.in_scope(run);
        #[cfg(not(feature = "tracing"))]
        return run();
    }

    #[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
    pub(crate) fn done(&self, summary: &PassSummary) {
        #[cfg(feature = "tracing")]
        {
            self.span.record("converged", summary.converged);
            self.span.record("truncated", summary.truncated);
            self.span.record("tried", summary.tried());
            self.span.record("pending", summary.pending());
        }
    }

    #[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
    pub(crate) fn failed(&self, error: &dyn std::error::Error) {
        #[cfg(feature = "tracing")]
        self.span.record("error", tracing::field::display(error));
    }
}

/// Reports that the subscription lost events, for the `count`th time.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn overrun(count: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(count, "the subscription lost events: a full pass follows");
}

/// Reports that the subscription failed.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn subscription_failed(error: &dyn std::error::Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(%error, "the subscription failed: passes run by timer only");
}

//! Spans and events for `tracing`, with the feature of that name; without it, nothing. What happens is the driver's.

use trueup_reconcile::Extent;

use crate::{Passed, Revision};

/// The span of a pass: `extent`, `revision`, then `converged`, `cut`, `tried` and `pending`, or `error`.
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
                    Extent::Everything => "whole",
                    Extent::Dirty => "doubtful",
                },
                revision = revision.number(),
                converged = tracing::field::Empty,
                cut = tracing::field::Empty,
                tried = tracing::field::Empty,
                pending = tracing::field::Empty,
                error = tracing::field::Empty,
            ),
        }
    }

    /// Runs what belongs to the pass.
    pub(crate) fn within<T>(&self, run: impl FnOnce() -> T) -> T {
        #[cfg(feature = "tracing")]
        return self.span.in_scope(run);
        #[cfg(not(feature = "tracing"))]
        return run();
    }

    #[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
    pub(crate) fn over(&self, passed: &Passed) {
        #[cfg(feature = "tracing")]
        {
            self.span.record("converged", passed.converged);
            self.span.record("cut", passed.cut);
            self.span.record("tried", passed.tried());
            self.span.record("pending", passed.pending());
        }
    }

    #[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
    pub(crate) fn failed(&self, error: &dyn std::error::Error) {
        #[cfg(feature = "tracing")]
        self.span.record("error", tracing::field::display(error));
    }
}

/// The subscription lost something, for the so-many-th time.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn overrun(count: u64) {
    #[cfg(feature = "tracing")]
    tracing::warn!(count, "the subscription lost something: all is doubtful");
}

/// There is no subscription, though there should be.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables))]
pub(crate) fn subscription_failed(error: &dyn std::error::Error) {
    #[cfg(feature = "tracing")]
    tracing::warn!(%error, "the subscription failed: passes run by timer only");
}

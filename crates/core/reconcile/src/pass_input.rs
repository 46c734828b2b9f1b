//! What a pass is given.

use std::fmt;

use crate::{Ledger, PassLimits, Source};

/// What a driver gives a source for one pass: see [`Source::reconcile`].
pub struct PassInput<'a, S: Source + ?Sized> {
    /// The place to act in.
    pub scope: &'a S::Scope,
    /// The desired state.
    pub desired: &'a S::Desired,
    /// The source's ledger in this scope. It lists what earlier passes, and earlier processes, made
    /// ours.
    pub ledger: &'a mut dyn Ledger,
    /// Budgets and policies.
    pub options: &'a S::Options,
    /// How much the pass observes, how many ops it applies, and when it ends.
    pub limits: PassLimits<'a>,
}

impl<'a, S: Source + ?Sized> PassInput<'a, S> {
    /// Makes the input of an unlimited pass over everything.
    pub fn new(
        scope: &'a S::Scope,
        desired: &'a S::Desired,
        ledger: &'a mut dyn Ledger,
        options: &'a S::Options,
    ) -> Self {
        PassInput { scope, desired, ledger, options, limits: PassLimits::default() }
    }

    /// Sets a driver's limits.
    #[must_use]
    pub fn with_limits(self, limits: PassLimits<'a>) -> Self {
        PassInput { limits, ..self }
    }
}

impl<S: Source + ?Sized> fmt::Debug for PassInput<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassInput").field("limits", &self.limits).finish_non_exhaustive()
    }
}

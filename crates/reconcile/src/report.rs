//! The least that a driver needs to know of a completed pass.

/// What a completed pass tells, even one that could do only a part of its work.
///
/// The trait is what a driver needs and no more. By convention a concrete report also says which ops were applied, which
/// failed and which are pending, so that every op has exactly one outcome.
pub trait Report {
    /// What the subsystem remembers of its own doing: see [`Source::LastApplied`](crate::Source::LastApplied).
    type LastApplied;

    /// The world, as read back, is what was desired.
    ///
    /// Computed from what was read, never from acknowledgements; false whenever that could not be told.
    fn converged(&self) -> bool;

    /// What is to be handed to the next pass, and to be persisted by those whose ownership must survive a restart.
    ///
    /// Complete in itself: it replaces the previous one, so what is still ours from earlier passes is in it.
    fn last_applied(&self) -> &Self::LastApplied;
}

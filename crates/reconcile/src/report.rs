//! The least that a driver needs to know of a completed pass.

/// What a completed pass tells, even one that could do only a part of its work.
///
/// The trait is what a driver needs and no more. By convention a concrete report also says which ops were applied, which
/// failed and which are pending, so that every op has exactly one outcome.
pub trait Report {
    /// The world, as read back, is what was desired.
    ///
    /// Computed from what was read, never from acknowledgements; false whenever that could not be told.
    fn converged(&self) -> bool;
}

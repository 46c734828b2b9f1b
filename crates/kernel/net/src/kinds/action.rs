//! What an op does.

/// What an op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Action {
    /// Makes an object that is not there; fails if there is one by then.
    Create,
    /// Changes an object in place: one of ours, or one that is taken, or a link that others made
    /// and that we set up.
    Update,
    /// Removes an object of ours.
    Delete,
}

//! What a caller chooses about ownership: the marker, the proof of each kind, what a conflict does.

/// The marker unless said otherwise. No protocol of iproute2's `rt_protos` has this number.
pub const DEFAULT_PROTOCOL: u8 = 116;

/// The proof that an object of a kind is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The marker that the kernel stores on the object.
    Marker,
    /// The ledger of what trueup created. A link that was taken from others is ours to change, and
    /// not to delete.
    Ledger,
}

/// What happens to a foreign object on a desired key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnConflict {
    /// It stays, and the report says so.
    #[default]
    Report,
    /// It is replaced where that can be done in place. Its former state is remembered, and restored
    /// once the key is no longer desired.
    Take,
}

/// The most objects of a kind that a pass deletes because they are no longer desired: a guard
/// against a list that is empty, or short, by mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MaxDeletes {
    /// This many.
    Number(u32),
    /// This share in percent, 0 to 100, of the objects of the kind that are ours. It does not limit
    /// a kind of which fewer than [`MIN_OURS`](Self::MIN_OURS) are ours.
    Percent(u8),
}

impl MaxDeletes {
    /// The fewest objects that a percentage limits: of a few ones, one is a large share.
    pub const MIN_OURS: usize = 20;

    /// Returns the number of objects that may be deleted where so many are ours.
    pub fn of(self, ours: usize) -> usize {
        match self {
            MaxDeletes::Number(most) => usize::try_from(most).unwrap_or(usize::MAX),
            MaxDeletes::Percent(_) if ours < MaxDeletes::MIN_OURS => usize::MAX,
            MaxDeletes::Percent(share) => ours.saturating_mul(share.into()) / 100,
        }
    }
}

//! What a caller chooses about ownership: the marker, the proof of each kind, what a conflict does.

/// The marker unless said otherwise. No protocol of iproute2's `rt_protos` has this number.
pub const DEFAULT_PROTOCOL: u8 = 116;

/// The proof that an object of a kind is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The marker that the kernel stores on the object.
    Marker,
    /// The ledger of what trueup created.
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

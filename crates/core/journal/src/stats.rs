//! Counters of a journal, and the result of a compaction.

/// Counts the work of a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Syncs of the storage.
    pub syncs: u64,
    /// Writes to the storage.
    pub writes: u64,
    /// Bytes of these writes.
    pub written: u64,
    /// Commits that became durable.
    pub commits: u64,
    /// Records that these commits put or removed.
    pub changes: u64,
}

/// The length of a journal's file before and after a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// Length before, in bytes.
    pub before: u64,
    /// Length after, in bytes.
    pub after: u64,
}

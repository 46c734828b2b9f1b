//! What a store holds: keys with values, each of a revision.

use std::fmt;

/// The number of a state of the store. Each transaction that writes makes one. The first is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a lease, which the store gave. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision that made the key, since it was deleted last.
    pub created: Revision,
    /// The revision that wrote the value.
    pub modified: Revision,
    /// The lease with which it goes.
    pub lease: Option<LeaseId>,
}

/// All entries of a prefix, as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of the store, which is at least that of each entry.
    pub revision: Revision,
    /// The entries, by key.
    pub entries: Vec<Entry>,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyChange {
    /// It has a new value.
    Put(Entry),
    /// It is deleted: by a writer, or with its lease.
    Deleted(Vec<u8>),
}

impl KeyChange {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        match self {
            KeyChange::Put(entry) => &entry.key,
            KeyChange::Deleted(key) => key,
        }
    }
}

//! What a feed holds of its prefix.

use std::time::SystemTime;

use super::feed::Entries;
use crate::{Entry, KeyChange, Revision};

#[derive(Default)]
pub(super) struct FeedState {
    pub(super) entries: Entries,
    /// The bytes of its keys and values.
    pub(super) bytes: usize,
    pub(super) revision: Revision,
    pub(super) is_listed: bool,
    /// Since when it is not connected.
    pub(super) interrupted: Option<SystemTime>,
}

impl FeedState {
    /// How many entries it has after these changes, and their bytes.
    pub(super) fn size_after(&self, changes: &[KeyChange]) -> (usize, usize) {
        let (mut entries, mut bytes) = (self.entries.len(), self.bytes);
        for change in changes {
            if let Some(before) = self.entries.get(change.key()) {
                entries -= 1;
                bytes -= size(before);
            }
            if let KeyChange::Put(entry) = change {
                entries += 1;
                bytes += size(entry);
            }
        }
        (entries, bytes)
    }
}

pub(super) fn size(entry: &Entry) -> usize {
    entry.key.len() + entry.value.len()
}

//! [`ChangeLog`]: the changes that the kernel announces during the caller's writes. No dump can
//! tell whether an object ever was as it was written, and which writer made it what it is.

use trueup_net::Object;
use trueup_netlink::codec;
use trueup_netlink::wire::Message;

/// An object as the kernel announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedChange {
    /// The object; a veth without the name of its peer.
    pub object: Object,
    /// The object was deleted.
    pub is_deleted: bool,
    /// The change was announced after
    /// [`Observer::mark_writes_done`](crate::Observer::mark_writes_done).
    pub is_after_writes: bool,
}

/// A record of changes, up to a limit.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    changes: Vec<ObservedChange>,
    limit: usize,
    is_after_writes: bool,
    is_complete: bool,
}

impl ChangeLog {
    pub(crate) fn new(limit: usize) -> ChangeLog {
        ChangeLog { changes: Vec::new(), limit, is_after_writes: false, is_complete: true }
    }

    pub(crate) fn add(&mut self, message: &Message<'_>) {
        if !self.is_complete {
            return;
        }
        match codec::decode(message) {
            Ok(None) => {}
            Ok(Some((object, is_deleted))) if self.changes.len() < self.limit => {
                self.changes.push(ObservedChange {
                    object,
                    is_deleted,
                    is_after_writes: self.is_after_writes,
                });
            }
            _ => self.invalidate(),
        }
    }

    /// Drops the record: a change is missing in it.
    pub(crate) fn invalidate(&mut self) {
        self.is_complete = false;
        self.changes = Vec::new();
    }

    pub(crate) fn mark_writes_done(&mut self) {
        self.is_after_writes = true;
    }

    /// Returns all changes, if none is missing.
    pub(crate) fn into_changes(self) -> Option<Vec<ObservedChange>> {
        self.is_complete.then_some(self.changes)
    }
}

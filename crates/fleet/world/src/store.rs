//! The store under the world: keys with values, revisions, transactions, leases and watches, as
//! etcd has them.

use std::time::Duration;

use crate::entry::{Entry, KeyChange, LeaseId, Revision, Snapshot};
use crate::error::Error;
use crate::transaction::{Committed, Transaction, TransactionLimits};

/// A store of keys, as one host is connected to it.
///
/// Each call blocks at most for the store's timeout, of its configuration. A store does not repeat
/// a write whose answer was lost: that is [`Indeterminate`](crate::ErrorKind::Indeterminate).
pub trait Store: Send + Sync + 'static {
    /// Reads all entries whose keys begin with `prefix`, from one revision: `at`, or the newest.
    /// It is linearisable: what was acknowledged before is read.
    ///
    /// # Errors
    ///
    /// [`Compacted`](crate::ErrorKind::Compacted) if `at` is not kept any more.
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<Snapshot, Error>;

    /// Reads one key, and none that begins so, as [`read`](Self::read) does: the newest revision.
    /// Unless a store has a better way, it reads the prefix.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    fn read_key(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let entries = self.read(key, None)?.entries;
        Ok(entries.into_iter().find(|entry| entry.key == key))
    }

    /// Commits all writes of a transaction, or none: if all of its comparisons hold.
    ///
    /// # Errors
    ///
    /// [`LeaseEnded`](crate::ErrorKind::LeaseEnded) if a lease of a written key is gone,
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is larger than the store's
    /// [`limits`](Self::limits), or writes one key twice.
    fn commit(&self, transaction: &Transaction) -> Result<Committed, Error>;

    /// Returns how much one transaction can hold.
    fn limits(&self) -> TransactionLimits;

    /// Watches all keys that begin with `prefix`, for changes after the revision `after`.
    ///
    /// # Errors
    ///
    /// As those of [`StoreWatch::next`].
    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error>;

    /// Grants a lease that ends `ttl` after it was renewed last. A store may round up to its own
    /// shortest time, and ends a lease late rather than early.
    ///
    /// # Errors
    ///
    /// When no lease was granted, or it is not known.
    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error>;

    /// Renews a lease, and returns the time that it has from now on.
    ///
    /// # Errors
    ///
    /// [`LeaseEnded`](crate::ErrorKind::LeaseEnded) if it is gone, with all keys of it.
    fn renew(&self, lease: LeaseId) -> Result<Duration, Error>;

    /// Ends a lease, and deletes all keys of it. A lease that is gone is no error.
    ///
    /// # Errors
    ///
    /// When it may not have ended.
    fn revoke(&self, lease: LeaseId) -> Result<(), Error>;

    /// Returns the members of the store itself, for diagnostics.
    ///
    /// # Errors
    ///
    /// When no member answers.
    fn members(&self) -> Result<Vec<StoreMember>, Error>;
}

/// A watch of a [`Store`], which ends when it is dropped. It does not reconnect: after an error,
/// begin another one after the last revision.
pub trait StoreWatch: Send {
    /// Returns the next event, or none within `timeout`.
    ///
    /// # Errors
    ///
    /// [`Compacted`](crate::ErrorKind::Compacted) if changes are not kept any more that were not
    /// delivered, [`Unavailable`](crate::ErrorKind::Unavailable) if the connection is lost. The
    /// watch has then ended.
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error>;

    /// Asks for a [`Progress`](StoreEvent::Progress) of the newest revision, which comes as an
    /// event. A store that reports each revision by itself has nothing to do.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    fn request_progress(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// An event of a [`StoreWatch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// All changes of one revision, by key. A key stands there at most once.
    Changes {
        /// The revision that made them.
        revision: Revision,
        /// The changes.
        changes: Vec<KeyChange>,
    },
    /// All changes up to this revision have been delivered. The first event is one of these, of
    /// the revision that the watch began after or of a later one: it is connected.
    Progress(Revision),
}

/// A member of the store itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMember {
    /// Its name, as it was configured.
    pub name: String,
    /// The addresses for clients.
    pub endpoints: Vec<String>,
    /// True if it is the leader; none if it did not answer.
    pub is_leader: Option<bool>,
    /// Bytes of its database as a file; none if it did not answer.
    pub size: Option<u64>,
    /// Bytes of it that hold data; none if it did not say.
    pub size_in_use: Option<u64>,
    /// The largest [`size`](Self::size): with more it writes nothing. None if it did not say, as
    /// etcd before 3.6 does not.
    pub quota: Option<u64>,
    /// Its words for what is wrong: alarms, or why it did not answer.
    pub faults: Vec<String>,
}

//! The store beneath the world: keys with values, revisions, transactions, leases and watches, as
//! in etcd.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// A store of keys, as one host is connected to it.
///
/// Each call blocks at most for the configured timeout. If the answer to a write is lost, the store
/// does not repeat the write: it returns [`Indeterminate`](crate::ErrorKind::Indeterminate).
pub trait Store: Send + Sync + 'static {
    /// Reads all entries whose keys begin with `prefix`, in the order of keys. Reads them at
    /// revision `at`, or at the newest one if `None`. Returns the store's revision with them. The
    /// read is linearisable: it sees every acknowledged write.
    ///
    /// # Errors
    ///
    /// [`Compacted`](crate::ErrorKind::Compacted) if `at` is no longer kept.
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error>;

    /// Reads the newest revision of one key, like [`read`](Self::read) but without longer keys. The
    /// default implementation reads the prefix.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    fn read_key(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let (_, entries) = self.read(key, None)?;
        Ok(entries.into_iter().find(|entry| entry.key == key))
    }

    /// Commits all writes in one transaction, if all comparisons hold. Returns the revision of the
    /// writes. If a comparison does not hold, writes nothing and returns `None`.
    ///
    /// # Errors
    ///
    /// [`LeaseEnded`](crate::ErrorKind::LeaseEnded) if a written key's lease is gone.
    /// [`Invalid`](crate::ErrorKind::Invalid) if the transaction exceeds the store's
    /// [`limits`](Self::limits), or writes one key twice.
    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error>;

    /// Returns the largest transaction that the store accepts.
    fn limits(&self) -> Limits;

    /// Watches all keys that begin with `prefix`, for changes after the revision `after`.
    ///
    /// # Errors
    ///
    /// The errors of [`StoreWatch::next`].
    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error>;

    /// Grants a lease that ends `ttl` after its last renewal. A store may round up to its own
    /// shortest time, and ends a lease late rather than early.
    ///
    /// # Errors
    ///
    /// Fails if no lease was granted, or if this is unknown.
    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error>;

    /// Renews a lease. Returns its time to live from now on.
    ///
    /// # Errors
    ///
    /// [`LeaseEnded`](crate::ErrorKind::LeaseEnded) if it is gone, with all its keys.
    fn renew(&self, lease: LeaseId) -> Result<Duration, Error>;

    /// Ends a lease, and deletes all its keys. It is no error if the lease is gone.
    ///
    /// # Errors
    ///
    /// Fails if the lease may not have ended.
    fn revoke(&self, lease: LeaseId) -> Result<(), Error>;

    /// Returns the members of the store itself, for diagnostics.
    ///
    /// # Errors
    ///
    /// Fails if no member answers.
    fn members(&self) -> Result<Vec<StoreMember>, Error>;
}

/// A watch of a [`Store`], which ends when it is dropped. It does not reconnect. After an error,
/// begin another one after the last revision.
pub trait StoreWatch: Send {
    /// Returns the next event, or `None` if there is none within `timeout`.
    ///
    /// # Errors
    ///
    /// [`Compacted`](crate::ErrorKind::Compacted) if the next changes are no longer kept,
    /// [`Unavailable`](crate::ErrorKind::Unavailable) if the connection is lost. The watch has then
    /// ended.
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error>;

    /// Requests a [`Progress`](StoreEvent::Progress) of the newest revision, which comes as an
    /// event. A store that reports each revision anyway does nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`next`](Self::next).
    fn request_progress(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// An event of a [`StoreWatch`]: the changes of a revision, or progress without changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// All changes of one revision, within the watched prefix.
    Changes {
        /// The revision of the changes.
        revision: Revision,
        /// The entries by key. `None` if a writer deleted the key, or its lease ended.
        changes: BTreeMap<Vec<u8>, Option<Entry>>,
    },
    /// All changes up to this revision have been delivered. The first event of a watch is always
    /// one of these, with the revision that the watch began after or a later one. It shows that the
    /// watch is connected.
    Progress(Revision),
}

/// A member of the store itself, such as an etcd server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMember {
    /// The member's name, as configured.
    pub name: String,
    /// The member's URLs for clients.
    pub endpoints: Vec<String>,
    /// True if the member is the leader. `None` if it did not answer.
    pub is_leader: Option<bool>,
    /// The size of its database file in bytes. `None` if it did not answer.
    pub size: Option<u64>,
    /// The bytes of the database in use. `None` if the member did not report them.
    pub size_in_use: Option<u64>,
    /// The largest [`size`](Self::size), above which the member refuses writes. `None` if the
    /// member did not report it; etcd before 3.6 does not.
    pub quota: Option<u64>,
    /// The member's problems in words: alarms, or why it did not answer.
    pub faults: Vec<String>,
}

/// The number of a state of the store, from 1 on. Each writing transaction makes a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of a lease, which the store chose. It is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

/// A key with its value, its revisions and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The full key, with the world's prefix.
    pub key: Vec<u8>,
    /// The value, in a form that depends on the key.
    pub value: Vec<u8>,
    /// The revision that made the key, since it was last deleted.
    pub created: Revision,
    /// The revision that wrote the value.
    pub modified: Revision,
    /// The lease whose end deletes the key. `None` if the key stays.
    pub lease: Option<LeaseId>,
}

/// A condition of a transaction, which is written only if all conditions hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent(Vec<u8>),
    /// The key's value was written by this revision.
    Modified(Vec<u8>, Revision),
    /// The key exists and has exactly this value: first the key, then the value.
    Value(Vec<u8>, Vec<u8>),
}

/// A write of a transaction. All writes of one transaction have the same revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key and its lease.
    Put {
        /// The full key, with the world's prefix.
        key: Vec<u8>,
        /// The new value of the key.
        value: Vec<u8>,
        /// The lease whose end deletes the key. `None` keeps the key.
        lease: Option<LeaseId>,
    },
    /// Deletes a key. It is no error if it is missing.
    Delete(Vec<u8>),
}

impl Compare {
    /// Returns the full key, with the world's prefix, whose state the condition is about.
    pub fn key(&self) -> &[u8] {
        match self {
            Compare::Absent(key) | Compare::Modified(key, _) | Compare::Value(key, _) => key,
        }
    }
}

impl Write {
    /// Returns the full key, with the world's prefix, that is set or deleted.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete(key) => key,
        }
    }

    /// Returns the number of bytes of the key and the value.
    pub fn size(&self) -> usize {
        match self {
            Write::Put { key, value, .. } => key.len() + value.len(),
            Write::Delete(key) => key.len(),
        }
    }
}

/// Limits on a transaction, or on data that a store sends.
///
/// ```
/// use trueup_world::Limits;
///
/// let limits = Limits { count: 2, bytes: 100 };
/// assert!(limits.check("a list", 2, 100).is_ok());
/// assert!(limits.check("a list", 3, 100).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most comparisons and the most writes of a transaction, or the most entries.
    pub count: usize,
    /// The most bytes of keys and values.
    pub bytes: usize,
}

impl Default for Limits {
    /// Returns the default limits on data that a store sends: on a list, on one revision, and on a
    /// watch's copy. A store that sends more is not followed, and the previous state stays.
    ///
    /// They fit a store of the size that its hosts can use. A thousand hosts with twenty exports
    /// each make 20,000 entries and 2 MB, and a single host that exports a million routes fits too.
    /// An entry takes some 400 bytes beside its key and value. So a copy takes 1.1 GB at most, and
    /// briefly twice that while a list replaces it.
    fn default() -> Limits {
        Limits { count: 2_000_000, bytes: 256 << 20 }
    }
}

impl Limits {
    /// Checks that a store with these limits can commit a transaction.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the transaction is larger, or writes one key twice.
    pub fn check_transaction(&self, compares: &[Compare], writes: &[Write]) -> Result<(), Error> {
        let operations = compares.len().max(writes.len());
        let compared = compares.iter().map(|it| match it {
            Compare::Value(key, value) => key.len() + value.len(),
            other => other.key().len(),
        });
        let bytes = compared.chain(writes.iter().map(Write::size)).sum::<usize>();
        if operations > self.count || bytes > self.bytes {
            let message = format!(
                "a transaction has {operations} operations and {bytes} bytes; the store takes {} \
                 and {}: split it",
                self.count, self.bytes
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut keys: Vec<&[u8]> = writes.iter().map(Write::key).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("{}: written twice in one transaction", twice[0].escape_ascii());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }

    /// Checks that this many entries, with this many bytes of keys and values, may be held. `what`
    /// names them in the error.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](ErrorKind::TooLarge) if they exceed the limits.
    pub fn check(&self, what: &str, entries: usize, bytes: usize) -> Result<(), Error> {
        if entries <= self.count && bytes <= self.bytes {
            return Ok(());
        }
        let message = format!(
            "{what} has more than {} entries or {} bytes of keys and values, so none of it is \
             taken: delete what is not needed there, and revoke the role of the user who writes it",
            self.count, self.bytes
        );
        Err(Error::new(ErrorKind::TooLarge, message))
    }
}

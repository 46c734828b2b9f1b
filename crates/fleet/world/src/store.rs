//! The store under the world: keys with values, revisions, transactions, leases and watches, as
//! etcd has them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};

/// A store of keys, as one host is connected to it.
///
/// Each call blocks at most for the store's timeout, of its configuration. A store does not repeat
/// a write whose answer was lost: that is [`Indeterminate`](crate::ErrorKind::Indeterminate).
pub trait Store: Send + Sync + 'static {
    /// Reads all entries whose keys begin with `prefix`, by key, from one revision: `at`, or the
    /// newest. Returns the store's revision with them. It is linearisable: what was acknowledged
    /// before is read.
    ///
    /// # Errors
    ///
    /// [`Compacted`](crate::ErrorKind::Compacted) if `at` is not kept any more.
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error>;

    /// Reads one key, and none that begins so, as [`read`](Self::read) does: the newest revision.
    /// Unless a store has a better way, it reads the prefix.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    fn read_key(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let (_, entries) = self.read(key, None)?;
        Ok(entries.into_iter().find(|entry| entry.key == key))
    }

    /// Commits all writes in one transaction, if all comparisons hold. Returns the revision that
    /// wrote them; none if a comparison does not hold, and nothing is written.
    ///
    /// # Errors
    ///
    /// [`LeaseEnded`](crate::ErrorKind::LeaseEnded) if a lease of a written key is gone,
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is larger than the store's
    /// [`limits`](Self::limits), or writes one key twice.
    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error>;

    /// Returns how much one transaction can hold.
    fn limits(&self) -> Limits;

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
    /// All changes of one revision.
    Changes {
        /// The revision that made them.
        revision: Revision,
        /// The entries by key; `None`: it is deleted, by a writer or with its lease.
        changes: BTreeMap<Vec<u8>, Option<Entry>>,
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

/// A comparison, on which a transaction depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// There is no such key.
    Absent(Vec<u8>),
    /// The value of a key was written by this revision.
    Modified(Vec<u8>, Revision),
    /// A key has this value.
    Value(Vec<u8>, Vec<u8>),
}

/// A write of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key, and the lease with which it goes.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// The lease with which it goes.
        lease: Option<LeaseId>,
    },
    /// Deletes a key; a missing one is no error.
    Delete(Vec<u8>),
}

impl Compare {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        match self {
            Compare::Absent(key) | Compare::Modified(key, _) | Compare::Value(key, _) => key,
        }
    }
}

impl Write {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete(key) => key,
        }
    }

    /// Returns the bytes of key and value.
    pub fn size(&self) -> usize {
        match self {
            Write::Put { key, value, .. } => key.len() + value.len(),
            Write::Delete(key) => key.len(),
        }
    }
}

/// How much is taken at most: in one transaction, or of what a store sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most comparisons and the most writes of a transaction; the most entries.
    pub count: usize,
    /// The most bytes of keys and values.
    pub bytes: usize,
}

impl Default for Limits {
    /// Returns what is held of what a store sends, unless said otherwise: of a list, of one revision,
    /// or in the copy of a watch. A store that sends more is not followed, and what was known before
    /// stays.
    ///
    /// It has room for a store at the size that its hosts can use. A thousand hosts with twenty
    /// exports each are 20,000 entries and 2 MB, and a single host that exports a million routes
    /// fits too. An entry takes some 400 bytes beside its key and value, so a copy takes 1.1 GB at
    /// most, and a list that replaces it as much again for a moment.
    fn default() -> Limits {
        Limits { count: 2_000_000, bytes: 256 << 20 }
    }
}

impl Limits {
    /// Checks that a store with these limits can commit a transaction.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is larger, or writes one key twice.
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

    /// Checks that so many entries may be held, with so many bytes of keys and values. `what` names
    /// them in the error.
    ///
    /// # Errors
    ///
    /// [`TooLarge`](ErrorKind::TooLarge) if they are more than the limits.
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

//! [`World`]: one host's connection to the store, with the keys below a prefix.

use std::fmt;
use std::sync::Arc;

use crate::keys::{Keys, check_part};
use crate::{Compare, Entry, Error, ErrorKind, LeaseId, Revision, Store, Write};

/// The world, as one host sees it. Clones share the connection.
///
/// Each call makes a few requests, and blocks at most for the store's timeout for each of them. It
/// fails with the store's errors, and with those listed at the call. A write returns true if it
/// wrote something. It returns false if the store already had the value; then no watch has an
/// event.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # fn example() -> Result<(), trueup_world::Error> {
/// use trueup_world::{Embedded, World};
///
/// let store = Embedded::in_memory();
/// let a = World::new(store.connect(), "/trueup", "a")?;
/// let b = World::new(store.connect(), "/trueup", "b")?;
/// assert!(a.set_string("mtu", "1400")?);
/// assert_eq!(b.string("mtu")?.as_deref(), Some("1400"));
/// # Ok(())
/// # }
/// # #[cfg(feature = "embedded")]
/// # example().unwrap();
/// ```
#[derive(Clone)]
pub struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Keys,
    host: Arc<str>,
}

/// The number of attempts if another writer is first.
pub(crate) const ATTEMPTS: usize = 16;

impl World {
    /// Makes the world of a host. `prefix` is the start of all keys, such as `/trueup`. Hosts with
    /// the same prefix share a world.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the prefix or the name is empty or too long.
    pub fn new(store: Arc<dyn Store>, prefix: &str, host: &str) -> Result<World, Error> {
        if host.is_empty() {
            let message = "the host has no name; give it one that no other host has";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        check_part("a host's name", host.as_bytes())?;
        Ok(World { store, keys: Keys::new(prefix)?, host: host.into() })
    }

    /// Returns this host's name in the world.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the store, as this host is connected to it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Reads the newest entry of one key.
    pub(crate) fn entry(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        self.store.read_key(key)
    }

    /// Reads several prefixes at one revision, the newest at the first read.
    pub(crate) fn read_all(&self, prefixes: &[Vec<u8>]) -> Result<(Revision, Vec<Entry>), Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match read_at_once(&*self.store, prefixes) {
                Err(error) if error.kind() == ErrorKind::Compacted && attempt < ATTEMPTS => {}
                result => return result,
            }
        }
    }

    /// Sets a key to the result of `decide` for its current value, or deletes it. Writes only if no
    /// other writer has written in between. So it can safely try again if another writer was first,
    /// or if the result of a write is unknown. Returns true if it wrote something.
    pub(crate) fn update(
        &self,
        key: &[u8],
        lease: Option<LeaseId>,
        mut decide: impl FnMut(Option<&Entry>) -> Result<Option<Vec<u8>>, Error>,
    ) -> Result<bool, Error> {
        let mut is_unknown = None;
        for _ in 0..ATTEMPTS {
            let entry = match self.entry(key) {
                Ok(entry) => entry,
                Err(error) => return Err(is_unknown.unwrap_or(error)),
            };
            let value = decide(entry.as_ref())?;
            let is_same = match (&entry, &value) {
                (Some(entry), Some(value)) => entry.value == *value && entry.lease == lease,
                (None, None) => true,
                _ => false,
            };
            if is_same {
                return Ok(is_unknown.is_some());
            }
            let compare = fence(key, entry.as_ref());
            match self.store.commit(&[compare], &[write(key, value, lease)]) {
                Ok(Some(_)) => return Ok(true),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Indeterminate => is_unknown = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(is_unknown.unwrap_or_else(|| {
            let message = format!(
                "{}: other writers were first {ATTEMPTS} times; try again",
                key.escape_ascii()
            );
            Error::new(ErrorKind::Conflict, message)
        }))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("World");
        it.field("host", &self.host).finish_non_exhaustive()
    }
}

fn read_at_once(store: &dyn Store, prefixes: &[Vec<u8>]) -> Result<(Revision, Vec<Entry>), Error> {
    let (mut at, mut all) = (None, Vec::new());
    for prefix in prefixes {
        let (revision, entries) = store.read(prefix, at)?;
        at = Some(revision);
        all.extend(entries);
    }
    Ok((at.unwrap_or_default(), all))
}

/// Returns the comparison that a key is unchanged since it was read.
pub(crate) fn fence(key: &[u8], entry: Option<&Entry>) -> Compare {
    match entry {
        Some(entry) => Compare::Modified(key.to_vec(), entry.modified),
        None => Compare::Absent(key.to_vec()),
    }
}

pub(crate) fn write(key: &[u8], value: Option<Vec<u8>>, lease: Option<LeaseId>) -> Write {
    match value {
        Some(value) => Write::Put { key: key.to_vec(), value, lease },
        None => Write::Delete(key.to_vec()),
    }
}

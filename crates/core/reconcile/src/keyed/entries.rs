//! The desired state: [`Entries`], a map that remembers its latest changes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::error::Error;
use std::fmt;

use trueup_diff::{ChangeLog, Revision};

/// The number of changes remembered. After more, a pass looks at everything.
pub(super) const KEPT: usize = 4096;

/// The declared values by key.
///
/// It remembers the keys of its last 4096 changes, so a pass over dirty keys costs what has
/// changed, not what is declared.
///
/// ```
/// use trueup_reconcile::keyed::Entries;
///
/// let mut desired = Entries::from_pairs([("a", 1), ("b", 2)])?;
/// desired.insert("a", 3);
/// desired.remove(&"b");
/// assert_eq!(desired.iter().collect::<Vec<_>>(), [(&"a", &3)]);
/// assert!(Entries::from_pairs([("a", 1), ("a", 1)]).is_err());
/// # Ok::<(), trueup_reconcile::keyed::Repeated<&str>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Entries<K, V> {
    values: BTreeMap<K, V>,
    log: ChangeLog<K>,
}

impl<K: Ord + Clone, V: PartialEq> Entries<K, V> {
    /// Collects declared pairs.
    ///
    /// # Errors
    ///
    /// A key is declared twice, even with the same value.
    pub fn from_pairs(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Entries<K, V>, Repeated<K>> {
        let mut values = BTreeMap::new();
        for (key, value) in pairs {
            match values.entry(key) {
                Entry::Vacant(entry) => drop(entry.insert(value)),
                Entry::Occupied(entry) => return Err(Repeated(entry.key().clone())),
            }
        }
        Ok(values.into())
    }

    /// Declares a value, and returns the key's former one; `None` if the key was not declared.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.values.get(&key) != Some(&value) {
            self.log.add(key.clone(), KEPT);
        }
        self.values.insert(key, value)
    }

    /// No longer declares a key, and returns its value; `None` if the key was not declared.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (key, value) = self.values.remove_entry(key)?;
        self.log.add(key, KEPT);
        Some(value)
    }
}

impl<K: Ord, V> Entries<K, V> {
    /// Returns a key's declared value; `None` if the key is not declared.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    /// Returns the pairs, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.values.iter()
    }

    /// Returns the number of declared keys.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if no key is declared.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.values.keys()
    }

    pub(super) fn revision(&self) -> Revision {
        self.log.now()
    }

    /// Returns the keys changed since a revision; `None` if they are no longer known.
    pub(super) fn since(&self, revision: Revision) -> Option<impl Iterator<Item = &K>> {
        self.log.since(revision)
    }
}

impl<K, V> Default for Entries<K, V> {
    fn default() -> Self {
        BTreeMap::new().into()
    }
}

impl<K, V> From<BTreeMap<K, V>> for Entries<K, V> {
    fn from(values: BTreeMap<K, V>) -> Self {
        Entries { values, log: ChangeLog::new() }
    }
}

/// Two desired states are equal if they declare the same, however they came about.
impl<K: PartialEq, V: PartialEq> PartialEq for Entries<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl<K: Eq, V: Eq> Eq for Entries<K, V> {}

/// The error that a key is declared twice. Its field is the key.
///
/// ```
/// assert_eq!(trueup_reconcile::keyed::Repeated("gain").to_string(), "gain is declared twice");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated<K>(pub K);

impl<K: fmt::Display> fmt::Display for Repeated<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is declared twice", self.0)
    }
}

impl<K: fmt::Display + fmt::Debug> Error for Repeated<K> {}

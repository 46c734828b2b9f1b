//! The functions that a subsystem provides: [`Backend`], and the types in their signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;
use std::os::fd::BorrowedFd;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{ErrorClass, Hints, Subscribed};

/// A subsystem that holds one value for each key. [`Keyed`](super::Keyed) makes a source of it; see
/// [the module](super) for an example.
///
/// - A key's `Display` is its name in statuses and reports. Two keys have different names, and a
///   key has the same name in each process.
/// - serde writes keys and values to the ledger, so a later version must be able to read them. A
///   value in the ledger is as readable as the journal: do not put secrets in it.
/// - If a method panics, the op fails or the pass ends with an error. The backend is used again in
///   the next pass.
pub trait Backend {
    /// The place to act in: a namespace, a directory, or `()` for a backend that has its own.
    type Scope;
    /// An object's identity.
    type Key: Ord + Clone + fmt::Display + Serialize + DeserializeOwned;
    /// An object's state, without its key.
    type Value: Clone + PartialEq + Serialize + DeserializeOwned;
    /// The error of a read or a change.
    type Error: Error + Send + Sync + 'static;

    /// The kind of all objects in statuses and reports, such as `file`.
    const KIND: &'static str;

    /// The proof that an object is ours. By default, the ledger holds its value.
    const OWNERSHIP: Ownership = Ownership::Value;

    /// Reads the values of `keys`. A key without an object is left out. The result may have other
    /// keys too, which are ignored, so a backend that cannot read single keys reads everything.
    ///
    /// # Errors
    ///
    /// Nothing could be read. If only a part could not, return the rest: see [`Observation`].
    fn observe(
        &mut self,
        scope: &Self::Scope,
        keys: Keys<'_, Self::Key>,
    ) -> Result<Observation<Self::Key, Self::Value>, Self::Error>;

    /// Makes one change. It must end within a bounded time.
    ///
    /// A [`Create`](Change::Create) must fail if the key has an object by now, with an error of
    /// class [`Conflict`](ErrorClass::Conflict), because that object is another writer's. If it is
    /// equal, [`DoneAlready`](ErrorClass::DoneAlready) may stand for the conflict: it stays
    /// foreign. An update or a delete should fail if the object is no longer `from`, if the
    /// subsystem can check that. `Ok` means accepted; the pass reads back the result.
    ///
    /// # Errors
    ///
    /// The subsystem refused, or did not answer. The other changes still run.
    fn apply(
        &mut self,
        scope: &Self::Scope,
        change: &Change<Self::Key, Self::Value>,
    ) -> Result<(), Self::Error>;

    /// Returns an error's class, which determines the next try. If the change may have taken
    /// effect, the class is [`Unknown`](ErrorClass::Unknown).
    fn classify(error: &Self::Error) -> ErrorClass;

    /// Makes several changes. Override it if the subsystem takes many at once. Pass each result to
    /// `done`, in order. If `done` returns false, begin no other change.
    fn apply_all(
        &mut self,
        scope: &Self::Scope,
        changes: &[Change<Self::Key, Self::Value>],
        done: &mut dyn FnMut(Result<(), Self::Error>) -> bool,
    ) {
        for change in changes {
            if !done(self.apply(scope, change)) {
                break;
            }
        }
    }

    /// Returns true if `observed` is the stored form of `desired`. By default they are equal. If
    /// the subsystem stores `0x10` as `16`, compare canonical forms; otherwise the object fails as
    /// [`StoredOtherwise`](ErrorClass::StoredOtherwise).
    fn same(desired: &Self::Value, observed: &Self::Value) -> bool {
        desired == observed
    }

    /// Returns true if an observed object has our marker. Only called with [`Ownership::Marker`].
    fn has_marker(&self, _key: &Self::Key, _value: &Self::Value) -> bool {
        false
    }

    /// Returns true if an error means that the scope is gone, so that no later pass can work.
    fn is_scope_gone(_error: &Self::Error) -> bool {
        false
    }

    /// Subscribes for changes of objects: see [`Source::subscribe`](crate::Source::subscribe).
    fn subscribe(&mut self, _scope: &Self::Scope, _hints: Hints) -> Subscribed<(), Self::Error> {
        Subscribed::Unsupported
    }

    /// Returns true if the subscription reports each later change of every object by any
    /// writer. A driver then runs full passes less often.
    fn reports_every_change(&self) -> bool {
        false
    }

    /// Lends a descriptor that is readable while events wait: see
    /// [`Source::descriptor`](crate::Source::descriptor).
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all waiting events without blocking. Leave out objects that are certainly foreign.
    ///
    /// # Errors
    ///
    /// The subscription has ended. Without a descriptor, the pass subscribes again; otherwise the
    /// driver does later.
    fn drain(&mut self) -> Result<Events<Self::Key>, Self::Error> {
        Ok(Events::default())
    }
}

/// The proof that an object is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The object has the value in the ledger, which was read back after our last change. If
    /// another writer changes the value, the object is foreign from then on, and stays.
    ///
    /// If a value is stored in a form that [`Backend::same`] does not know, it looks like
    /// another writer's change. It is then not ours.
    Value,
    /// The key is in the ledger, because we created its object. If another writer changes the
    /// value, it is restored.
    Key,
    /// The subsystem stores a marker with the object: [`Backend::has_marker`]. If another writer
    /// changes the value and leaves the marker, the value is restored. A full observation must
    /// contain all marked objects, and no intents are written to the ledger.
    Marker,
}

/// The keys to read in an observation.
///
/// ```
/// use std::collections::BTreeSet;
/// use trueup_reconcile::keyed::Keys;
///
/// let asked = BTreeSet::from([1, 2]);
/// let keys = Keys::only(&asked);
/// assert!(keys.contains(&1) && !keys.is_everything());
/// ```
#[derive(Debug)]
pub struct Keys<'a, K> {
    pub(super) keys: &'a BTreeSet<K>,
    pub(super) is_everything: bool,
}

impl<'a, K: Ord> Keys<'a, K> {
    /// Creates a question for these keys alone, for a backend's tests.
    pub fn only(keys: &'a BTreeSet<K>) -> Keys<'a, K> {
        Keys { keys, is_everything: false }
    }

    /// Creates a question for these keys and for every marked object, for a backend's tests.
    pub fn everything(keys: &'a BTreeSet<K>) -> Keys<'a, K> {
        Keys { keys, is_everything: true }
    }

    /// Returns true if the pass looks at everything. With [`Ownership::Marker`], the result must
    /// then contain every marked object, not only the [listed](Self::iter) keys.
    pub fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// Returns the keys in order: in a full pass every declared key and every key in the ledger, in
    /// other passes the ones that may have changed.
    pub fn iter(&self) -> impl Iterator<Item = &'a K> + use<'a, K> {
        self.keys.iter()
    }

    /// Returns true if the key is listed.
    pub fn contains(&self, key: &K) -> bool {
        self.keys.contains(key)
    }
}

impl<K> Clone for Keys<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Keys<'_, K> {}

/// The result of [`Backend::observe`]. A map or an iterator of values converts into a complete one.
///
/// ```
/// use std::collections::BTreeMap;
/// use trueup_reconcile::keyed::Observation;
///
/// let complete = Observation::from(BTreeMap::from([("a", 1)]));
/// assert!(complete.incomplete.is_none());
/// let partial = complete.with_unread("b", "permission denied");
/// assert_eq!(partial.unread["b"], "permission denied");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observation<K, V> {
    /// The objects' values.
    pub values: BTreeMap<K, V>,
    /// The keys that could not be read, each with the reason. They are neither created, nor
    /// changed, nor deleted, and the pass has not converged.
    pub unread: BTreeMap<K, String>,
    /// The reason why objects may be missing in the result; `None` if none are. Nothing is then
    /// created or deleted, because an absent key may have an object.
    pub incomplete: Option<String>,
}

impl<K: Ord, V> Observation<K, V> {
    /// Adds a key that could not be read.
    #[must_use]
    pub fn with_unread(mut self, key: K, why: impl Into<String>) -> Self {
        self.unread.insert(key, why.into());
        self
    }

    /// Declares that objects may be missing in the result.
    #[must_use]
    pub fn with_incomplete(self, why: impl Into<String>) -> Self {
        Observation { incomplete: Some(why.into()), ..self }
    }

    /// Returns why the state of a key is not known; `None` if it is.
    pub(super) fn doubt(&self, key: &K) -> Option<&str> {
        let unread = self.unread.get(key);
        unread
            .or_else(|| self.incomplete.as_ref().filter(|_| !self.values.contains_key(key)))
            .map(String::as_str)
    }
}

impl<K, V> From<BTreeMap<K, V>> for Observation<K, V> {
    fn from(values: BTreeMap<K, V>) -> Self {
        Observation { values, unread: BTreeMap::new(), incomplete: None }
    }
}

/// Collects a complete observation.
impl<K: Ord, V> FromIterator<(K, V)> for Observation<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        pairs.into_iter().collect::<BTreeMap<_, _>>().into()
    }
}

/// A change of one key's object.
///
/// ```
/// use trueup_reconcile::keyed::Change;
///
/// let change = Change::Update { key: "gain", from: 1, to: 2 };
/// assert_eq!((change.action(), change.key(), change.to()), ("update", &"gain", Some(&2)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<K, V> {
    /// Creates the object. The key had none when it was read.
    Create {
        /// The object's key.
        key: K,
        /// The declared value.
        to: V,
    },
    /// Replaces the value of an object of ours.
    Update {
        /// The object's key.
        key: K,
        /// The value that was read.
        from: V,
        /// The declared value.
        to: V,
    },
    /// Deletes an object of ours that is no longer declared.
    Delete {
        /// The object's key.
        key: K,
        /// The value that was read.
        from: V,
    },
}

impl<K, V> Change<K, V> {
    /// Returns the object's key.
    pub fn key(&self) -> &K {
        match self {
            Change::Create { key, .. }
            | Change::Update { key, .. }
            | Change::Delete { key, .. } => key,
        }
    }

    /// Returns the value that was read; `None` for a create.
    pub fn from(&self) -> Option<&V> {
        match self {
            Change::Create { .. } => None,
            Change::Update { from, .. } | Change::Delete { from, .. } => Some(from),
        }
    }

    /// Returns the declared value; `None` for a delete.
    pub fn to(&self) -> Option<&V> {
        match self {
            Change::Create { to, .. } | Change::Update { to, .. } => Some(to),
            Change::Delete { .. } => None,
        }
    }

    /// Returns `create`, `update` or `delete`.
    pub fn action(&self) -> &'static str {
        match self {
            Change::Create { .. } => "create",
            Change::Update { .. } => "update",
            Change::Delete { .. } => "delete",
        }
    }

    /// Returns the reason for the change in words.
    pub fn reason(&self) -> &'static str {
        match self {
            Change::Create { .. } => "it is missing",
            Change::Update { .. } => "it has another value",
            Change::Delete { .. } => "no longer declared",
        }
    }

    /// Returns the place in the order of a pass: deletes first, because a new object may need a
    /// name or a place of an old one.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Change::Delete { .. } => 0,
            Change::Update { .. } => 1,
            Change::Create { .. } => 2,
        }
    }
}

/// The result of [`Backend::drain`].
///
/// ```
/// use trueup_reconcile::keyed::Events;
///
/// let mut changed = std::collections::BTreeSet::new();
/// changed.insert("gain");
/// assert_ne!(Events::Keys(changed), Events::default());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events<K> {
    /// These objects may have changed; with an empty set, none has.
    Keys(BTreeSet<K>),
    /// Any object may have changed: the events have no keys, or some were lost. The next pass looks
    /// at everything.
    Unknown,
}

impl<K> Default for Events<K> {
    fn default() -> Self {
        Events::Keys(BTreeSet::new())
    }
}

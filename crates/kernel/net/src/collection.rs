//! [`Collection`]: the desired objects of a kind, by key, with a log of their changes.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use trueup_diff::{ChangeLog, Revision};

/// The least number of logged changes. For many objects it is a sixteenth of their number.
const LOGGED: usize = 4096;

/// Returns the number of changes to log for a collection of `len` objects.
pub(crate) fn logged(len: usize) -> usize {
    LOGGED.max(len / 16)
}

/// An authored object with a key, which names its devices as the author does.
pub trait Keyed: Clone + PartialEq {
    /// Two objects with the same key cannot coexist in the kernel.
    type Key: Ord + Clone + fmt::Debug;

    /// Returns the object's identity, the same for every form in which it can be written.
    fn canonical_key(&self) -> Self::Key;
}

/// A change: the key, and the object that it had before, if any.
pub(crate) type Change<A> = (<A as Keyed>::Key, Option<Arc<A>>);

/// Desired objects of a kind, in key order. If two have the same key, the last counts.
///
/// The collection logs its changes. A source that has brought all objects in place then looks only
/// at the changed ones, so the cost of a change does not depend on the number of objects. Clones
/// share the objects.
///
/// ```
/// use trueup_net::{Collection, Family, Rule, RuleAction};
///
/// let rule = |priority, table| Rule::new(Family::Inet, priority, RuleAction::Lookup(table));
/// let mut rules = Collection::from([rule(10, 100), rule(20, 200)]);
/// let before = rules.revision();
/// rules.insert(rule(30, 300));
/// let changed = rules.changed_since(before).unwrap_or_default();
/// assert_eq!(changed.iter().map(|key| key.priority).collect::<Vec<_>>(), [30]);
/// assert_eq!(rules.len(), 3);
/// ```
#[derive(Clone)]
pub struct Collection<A: Keyed> {
    objects: BTreeMap<A::Key, Arc<A>>,
    adopted: BTreeSet<A::Key>,
    log: ChangeLog<Change<A>>,
}

impl<A: Keyed> Collection<A> {
    /// Makes an empty collection. In a desired state it means "none of ours".
    pub fn new() -> Collection<A> {
        Collection { objects: BTreeMap::new(), adopted: BTreeSet::new(), log: ChangeLog::default() }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds an object. Returns the object that it replaces, if there was one with its key.
    pub fn insert(&mut self, object: A) -> Option<A> {
        let key = object.canonical_key();
        let former = self.objects.insert(key.clone(), Arc::new(object));
        self.log(key, former.clone());
        former.map(Arc::unwrap_or_clone)
    }

    /// Removes and returns an object, or returns `None` if the key has none. The object's adoption
    /// ends with it.
    pub fn remove(&mut self, key: &A::Key) -> Option<A> {
        let former = self.objects.remove(key)?;
        self.adopted.remove(key);
        self.log(key.clone(), Some(Arc::clone(&former)));
        Some(Arc::unwrap_or_clone(former))
    }

    /// Returns the object of a key, which must be as [`Keyed::canonical_key`] gives it.
    pub fn get(&self, key: &A::Key) -> Option<&A> {
        self.objects.get(key).map(Arc::as_ref)
    }

    /// Returns true if a key has an object.
    pub fn contains(&self, key: &A::Key) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns the objects, in key order.
    pub fn iter(&self) -> Iter<'_, A> {
        Iter(self.objects.values())
    }

    /// Returns the objects' keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &A::Key> + ExactSizeIterator {
        self.objects.keys()
    }

    /// Returns the keys in a range, in order.
    pub fn keys_in(&self, range: impl RangeBounds<A::Key>) -> impl Iterator<Item = &A::Key> {
        self.objects.range(range).map(|(key, _)| key)
    }

    /// Makes an object ours if it already exists as desired. Removing the object ends this.
    pub fn adopt(&mut self, key: A::Key) {
        if self.adopted.insert(key.clone()) {
            let object = self.objects.get(&key).map(Arc::clone);
            self.log(key, object);
        }
    }

    /// Adopts the objects with these keys: see [`adopt`](Self::adopt).
    #[must_use]
    pub fn with_adopted(mut self, keys: impl IntoIterator<Item = A::Key>) -> Collection<A> {
        keys.into_iter().for_each(|key| self.adopt(key));
        self
    }

    /// Returns the keys of the objects that become ours if they already exist.
    pub fn adopted(&self) -> &BTreeSet<A::Key> {
        &self.adopted
    }

    /// Returns the revision, which is unique among all states of this and other collections.
    pub fn revision(&self) -> Revision {
        self.log.now()
    }

    /// Returns the keys of the objects added, changed or removed since a revision of this
    /// collection. Returns `None` if too much has changed since, or if the revision belongs to
    /// another collection.
    pub fn changed_since(&self, revision: Revision) -> Option<BTreeSet<A::Key>> {
        Some(self.changes_since(revision)?.map(|(key, _)| key.clone()).collect())
    }

    /// Returns the changes since a revision, each with the key's former object.
    pub(crate) fn changes_since(
        &self,
        revision: Revision,
    ) -> Option<impl Iterator<Item = &Change<A>>> {
        self.log.since(revision)
    }

    /// Returns the objects with these keys, with their adoption.
    #[must_use]
    pub fn at<'k>(&self, keys: impl IntoIterator<Item = &'k A::Key>) -> Collection<A>
    where
        A::Key: 'k,
    {
        let objects = keys
            .into_iter()
            .filter_map(|key| Some((key.clone(), Arc::clone(self.objects.get(key)?))));
        self.part(objects.collect())
    }

    /// Returns the objects for which `wanted` returns true, with their adoption.
    #[must_use]
    pub fn filtered(&self, mut wanted: impl FnMut(&A) -> bool) -> Collection<A> {
        let objects = self.objects.iter().filter(|(_, object)| wanted(object));
        self.part(objects.map(|(key, object)| (key.clone(), Arc::clone(object))).collect())
    }

    /// Makes the object of a key, and its adoption, the same as in another collection. Clones share
    /// the object.
    pub fn copy_from(&mut self, other: &Collection<A>, key: &A::Key) {
        let former = match other.objects.get(key) {
            Some(object) => self.objects.insert(key.clone(), Arc::clone(object)),
            None => self.objects.remove(key),
        };
        if other.adopted.contains(key) {
            self.adopted.insert(key.clone());
        } else {
            self.adopted.remove(key);
        }
        self.log(key.clone(), former);
    }

    /// Returns part of the objects, with a log of its own.
    fn part(&self, objects: BTreeMap<A::Key, Arc<A>>) -> Collection<A> {
        let adopted = if self.adopted.is_empty() {
            BTreeSet::new()
        } else {
            objects.keys().filter(|key| self.adopted.contains(key)).cloned().collect()
        };
        Collection { objects, adopted, log: ChangeLog::default() }
    }

    fn log(&mut self, key: A::Key, former: Option<Arc<A>>) {
        self.log.add((key, former), logged(self.objects.len()));
    }
}

impl<A: Keyed> Default for Collection<A> {
    fn default() -> Collection<A> {
        Collection::new()
    }
}

/// True if the objects and their adoption are the same, with any history.
impl<A: Keyed> PartialEq for Collection<A> {
    fn eq(&self, other: &Collection<A>) -> bool {
        self.revision() == other.revision()
            || self.objects == other.objects && self.adopted == other.adopted
    }
}

impl<A: Keyed + fmt::Debug> fmt::Debug for Collection<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<A: Keyed> FromIterator<A> for Collection<A> {
    fn from_iter<I: IntoIterator<Item = A>>(objects: I) -> Collection<A> {
        let objects =
            objects.into_iter().map(|object| (object.canonical_key(), Arc::new(object))).collect();
        Collection { objects, ..Collection::new() }
    }
}

impl<A: Keyed> Extend<A> for Collection<A> {
    fn extend<I: IntoIterator<Item = A>>(&mut self, objects: I) {
        objects.into_iter().for_each(|object| drop(self.insert(object)));
    }
}

impl<A: Keyed> From<Vec<A>> for Collection<A> {
    fn from(objects: Vec<A>) -> Collection<A> {
        objects.into_iter().collect()
    }
}

impl<A: Keyed, const N: usize> From<[A; N]> for Collection<A> {
    fn from(objects: [A; N]) -> Collection<A> {
        objects.into_iter().collect()
    }
}

/// The objects of a [`Collection`], in key order.
pub struct Iter<'a, A: Keyed>(btree_map::Values<'a, A::Key, Arc<A>>);

impl<A: Keyed> Clone for Iter<'_, A> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<A: Keyed> fmt::Debug for Iter<'_, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.0.len()).finish()
    }
}

impl<'a, A: Keyed> Iterator for Iter<'a, A> {
    type Item = &'a A;

    fn next(&mut self) -> Option<&'a A> {
        self.0.next().map(Arc::as_ref)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<A: Keyed> DoubleEndedIterator for Iter<'_, A> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(Arc::as_ref)
    }
}

impl<A: Keyed> ExactSizeIterator for Iter<'_, A> {}

impl<'a, A: Keyed> IntoIterator for &'a Collection<A> {
    type Item = &'a A;
    type IntoIter = Iter<'a, A>;

    fn into_iter(self) -> Iter<'a, A> {
        self.iter()
    }
}

/// The objects of a [`Collection`], taken out of it in key order.
pub struct IntoIter<A: Keyed>(btree_map::IntoValues<A::Key, Arc<A>>);

impl<A: Keyed> fmt::Debug for IntoIter<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("left", &self.0.len()).finish()
    }
}

impl<A: Keyed> Iterator for IntoIter<A> {
    type Item = A;

    fn next(&mut self) -> Option<A> {
        self.0.next().map(Arc::unwrap_or_clone)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<A: Keyed> IntoIterator for Collection<A> {
    type Item = A;
    type IntoIter = IntoIter<A>;

    fn into_iter(self) -> IntoIter<A> {
        IntoIter(self.objects.into_values())
    }
}

#[cfg(test)]
mod tests;

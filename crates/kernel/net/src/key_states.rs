//! [`KeyStates`]: the exceptions to "the kernel is as desired", by key.

use std::collections::BTreeMap;

/// The keys on which the kernel may differ from the desired state, with its objects there.
///
/// A key is dirty until a plan has covered it. An object that could not be brought in place is
/// parked: plans leave it out until it is woken. On every other key the kernel is as desired.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyStates<K, T> {
    dirty: BTreeMap<K, Vec<T>>,
    parked: BTreeMap<K, Vec<T>>,
}

impl<K, T> Default for KeyStates<K, T> {
    fn default() -> KeyStates<K, T> {
        KeyStates { dirty: BTreeMap::new(), parked: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, T> KeyStates<K, T> {
    /// Records the kernel's objects on a key, which the next plan covers.
    pub fn mark(&mut self, key: K, there: Vec<T>) {
        self.parked.remove(&key);
        self.dirty.insert(key, there);
    }

    /// Records a change of the declaration. `there` is called for the kernel's objects on the key
    /// if the kernel was as desired until now. Returns `None` if `there` does.
    pub fn mark_changed(&mut self, key: K, there: impl FnOnce() -> Option<Vec<T>>) -> Option<()> {
        if !self.dirty.contains_key(&key) && !self.wake(&key) {
            self.dirty.insert(key, there()?);
        }
        Some(())
    }

    /// Records that the kernel is as desired on a key.
    pub fn mark_in_sync(&mut self, key: &K) {
        self.dirty.remove(key);
        self.parked.remove(key);
    }

    /// Records that the kernel is as desired on all keys for which `seen` returns true.
    pub fn mark_all_in_sync(&mut self, seen: impl Fn(&K) -> bool) {
        self.dirty.retain(|key, _| !seen(key));
        self.parked.retain(|key, _| !seen(key));
    }

    /// Records the kernel's objects on a key, and that they stay for now.
    pub fn park(&mut self, key: K, there: Vec<T>) {
        self.dirty.remove(&key);
        self.parked.insert(key, there);
    }

    /// Has a parked key planned again. Returns false if the key is not parked.
    pub fn wake(&mut self, key: &K) -> bool {
        let there = self.parked.remove_entry(key);
        let woken = there.is_some();
        self.dirty.extend(there);
        woken
    }

    /// Returns true if a key is parked.
    pub fn is_parked(&self, key: &K) -> bool {
        self.parked.contains_key(key)
    }

    /// Returns the kernel's objects on a parked key, or `None` if it is not parked.
    pub fn parked(&self, key: &K) -> Option<&[T]> {
        self.parked.get(key).map(Vec::as_slice)
    }

    /// Returns the keys that are parked.
    pub fn parked_keys(&self) -> impl Iterator<Item = &K> {
        self.parked.keys()
    }

    /// Returns the kernel's objects on a dirty or parked key. `None` for any other key, on which
    /// the kernel is as desired.
    pub fn there(&self, key: &K) -> Option<&[T]> {
        self.dirty.get(key).or_else(|| self.parked.get(key)).map(Vec::as_slice)
    }

    /// Returns the keys for the next plan: the kernel differs there from the desired state, or did
    /// when a change was last reported.
    pub fn dirty_keys(&self) -> impl Iterator<Item = &K> {
        self.dirty.keys()
    }

    /// Returns the dirty keys, each with the kernel's objects.
    pub fn dirty(&self) -> impl Iterator<Item = (&K, &[T])> {
        self.dirty.iter().map(|(key, there)| (key, there.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parked_key_is_left_out_until_it_changes_or_is_woken() {
        let mut states = KeyStates::default();
        states.mark(1, vec!['a']);
        states.park(1, vec!['b']);
        states.park(2, vec![]);
        assert_eq!(states.dirty_keys().count(), 0);
        assert_eq!((states.there(&1), states.parked(&2)), (Some(&['b'][..]), Some(&[][..])));
        // The kernel's objects on a parked key are known, so the declaration's are not asked for.
        assert_eq!(states.mark_changed(1, || None), Some(()));
        assert_eq!(states.dirty().collect::<Vec<_>>(), [(&1, &['b'][..])]);
        assert!(states.wake(&2) && !states.wake(&2));
        assert_eq!(states.mark_changed(3, || None), None);
        assert_eq!(states.mark_changed(3, || Some(vec!['c'])), Some(()));
        states.mark_all_in_sync(|key| *key < 3);
        assert_eq!(states.dirty_keys().collect::<Vec<_>>(), [&3]);
        states.mark_in_sync(&3);
        assert_eq!(states, KeyStates::default());
    }
}

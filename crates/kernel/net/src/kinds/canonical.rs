//! [`Canonical`] holds an object as the kernel would report it, the only form in which objects are
//! compared.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use trueup_diff::Duplicate;

use super::{Difference, ObjectKind, OfKind};
use crate::devices::Devices;

/// One or more objects in canonical form. Only this module makes them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Canonical<T>(T);

impl<'a, K: ObjectKind> Canonical<Cow<'a, K>> {
    /// Converts an object. `devices` gives the names on which a form depends.
    pub(crate) fn of(object: &'a K, devices: &Devices) -> Canonical<Cow<'a, K>> {
        if object.is_canonical_on(devices) {
            Canonical(Cow::Borrowed(object))
        } else {
            Canonical(Cow::Owned(object.clone().canonical_on(devices)))
        }
    }
}

impl<'a, K: ObjectKind> Canonical<Cow<'a, [K]>> {
    /// Converts a list of objects.
    pub(crate) fn list(list: Cow<'a, [K]>, devices: &Devices) -> Canonical<Cow<'a, [K]>> {
        if list.iter().all(|object| object.is_canonical_on(devices)) {
            return Canonical(list);
        }
        Canonical(list.into_owned().into_iter().map(|it| it.canonical_on(devices)).collect())
    }
}

/// A list of objects for each kind, converted together.
pub trait Lists: Clone {
    /// Returns the lists, each converted by [`Canonical::list`].
    fn canonical_on(&self, devices: &Devices) -> Cow<'_, Self>;
}

impl<'a, T: Lists> Canonical<Cow<'a, T>> {
    /// Converts all lists.
    pub(crate) fn lists(lists: &'a T, devices: &Devices) -> Self {
        Canonical(lists.canonical_on(devices))
    }
}

impl<T: Lists> Canonical<&T> {
    /// Returns the list of a kind.
    pub(crate) fn of_kind<K>(&self) -> Canonical<&[K]>
    where
        T: OfKind<K, Cell = Vec<K>>,
    {
        Canonical(OfKind::<K>::of_kind(self.0))
    }

    /// Returns the list of a kind, or `None` if the kind is unmanaged.
    pub(crate) fn of_managed<K>(&self) -> Option<Canonical<&[K]>>
    where
        T: OfKind<K, Cell = Option<Vec<K>>>,
    {
        OfKind::<K>::of_kind(self.0).as_deref().map(Canonical)
    }
}

impl<'a, K> Canonical<&'a [K]> {
    /// Returns the objects of a list.
    pub(crate) fn objects(self) -> impl Iterator<Item = Canonical<&'a K>> {
        self.0.iter().map(Canonical)
    }

    /// Splits a list at a position.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let (before, after) = self.0.split_at(at);
        (Canonical(before), Canonical(after))
    }
}

impl<'a, K> Canonical<&[&'a K]> {
    /// Returns the objects of a list.
    pub(crate) fn items(self) -> impl Iterator<Item = Canonical<&'a K>> {
        self.0.iter().copied().map(Canonical)
    }
}

impl<'a, K: ObjectKind> Canonical<&'a K> {
    /// Returns true if an observed object is as desired in every field.
    pub(crate) fn agrees(self, observed: Canonical<&K>) -> bool {
        let mut is_same = true;
        K::compare(self, observed, &mut |_| is_same = false);
        is_same
    }

    /// Returns every field in which an observed object differs from the desired one.
    pub(crate) fn differences(self, observed: Canonical<&K>) -> Vec<Difference> {
        let mut all = Vec::new();
        K::compare(self, observed, &mut |difference| all.push(difference));
        all
    }

    /// Returns true if the kernel can make an observed object as desired without deleting it.
    pub(crate) fn changes_in_place(self, observed: Canonical<&K>) -> bool {
        let mut keeps = true;
        K::compare(self, observed, &mut |difference| keeps &= difference.in_place);
        keeps
    }

    /// Returns the desired object with its open fields filled from another writer's.
    pub(crate) fn with_open_of(self, other: Canonical<&K>) -> Canonical<Cow<'a, K>> {
        Canonical(self.0.with_open_of(other.0))
    }
}

impl<'a, T: ToOwned + ?Sized> From<Canonical<&'a T>> for Canonical<Cow<'a, T>> {
    fn from(Canonical(object): Canonical<&'a T>) -> Canonical<Cow<'a, T>> {
        Canonical(Cow::Borrowed(object))
    }
}

impl<T: Deref> Canonical<T> {
    pub(crate) fn get(&self) -> Canonical<&T::Target> {
        Canonical(&*self.0)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl<T: Deref> Deref for Canonical<T> {
    type Target = T::Target;

    fn deref(&self) -> &T::Target {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Canonical<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Walks desired and observed objects of a kind together, in the order of their keys.
pub(crate) fn walk<'a, K: ObjectKind>(
    desired: Canonical<&'a [K]>,
    observed: Canonical<&'a [K]>,
    mut each: impl FnMut(Option<Canonical<&'a K>>, Canonical<&[&'a K]>),
) -> Result<(), Duplicate> {
    trueup_diff::walk(desired.0, observed.0, K::key, K::key, |_, wanted, present| {
        each(wanted.map(Canonical), Canonical(present));
    })
}

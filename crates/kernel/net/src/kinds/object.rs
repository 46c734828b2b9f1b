//! Objects of any kind, their keys, and sets of kinds, all generated from the registry.

use std::fmt;

use super::{Canonical, Difference, ObjectKind, Registered as _};
use crate::devices::Devices;
use crate::values::Dev;
use crate::{kinds, with_object};

macro_rules! enumerations {
    ($({
        $(#[$doc:meta])*
        $field:ident: $kind:ident {
            with: $with:ident($declared:ty),
            held: $held:ty, key: $key:ty, desired: $desired:ty, owned: $owned:ty,
        }
    })*) => {
        /// The kind of an object: one message family of rtnetlink.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds, in the order in which objects are created.
            pub const ALL: [Kind; [$(Kind::$kind),*].len()] = [$(Kind::$kind),*];

            /// Returns the kind's name in files, reports and messages.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => <crate::$kind as ObjectKind>::NAME,)*
                }
            }

            /// Returns true if the kernel stores a protocol on objects of this kind.
            pub const fn bears_protocol(self) -> bool {
                match self {
                    $(Kind::$kind => <crate::$kind as ObjectKind>::BEARS_PROTOCOL,)*
                }
            }

            /// Returns true if objects of this kind are declared by themselves.
            pub const fn is_declared(self) -> bool {
                match self {
                    $(Kind::$kind => <crate::$kind as ObjectKind>::IS_DECLARED,)*
                }
            }
        }

        /// An object of any kind, for ops and reports. A link is boxed, because it is large.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
        #[non_exhaustive]
        pub enum Object {
            $($(#[$doc])* $kind($held),)*
        }

        /// The identity of an object of any kind, without its other fields.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
        #[non_exhaustive]
        pub enum ObjectKey {
            $($(#[$doc])* $kind($key),)*
        }

        impl ObjectKey {
            /// Returns the object's kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(ObjectKey::$kind(_) => Kind::$kind,)*
                }
            }
        }

        $(
            impl From<crate::$kind> for Object {
                fn from(object: crate::$kind) -> Object {
                    Object::$kind(object.into())
                }
            }

            impl<'a> TryFrom<&'a Object> for &'a crate::$kind {
                type Error = Kind;

                /// Returns the object if it is of this type, else its kind as the error.
                fn try_from(object: &'a Object) -> Result<&'a crate::$kind, Kind> {
                    match object {
                        Object::$kind(object) => Ok(object),
                        other => Err(other.kind()),
                    }
                }
            }
        )*
    };
}

kinds!([enumerations]);

impl Object {
    /// Returns the object's identity among all kinds.
    pub fn key(&self) -> ObjectKey {
        with_object!(self, object => object.object_key())
    }

    /// Returns the kind, which is the name of the variant.
    pub fn kind(&self) -> Kind {
        with_object!(self, _object: K => K::KIND)
    }

    /// Returns the object's protocol, or 0 if its kind has none.
    pub fn protocol(&self) -> u8 {
        with_object!(self, object => object.protocol())
    }

    /// Returns the devices that it is on, leads to or is stacked on, as far as the kernel reports
    /// them.
    pub fn devices(&self) -> Vec<Dev> {
        with_object!(self, object => object.devices())
    }

    /// Returns every field in which an observed object of the same kind differs from this one.
    pub fn differences(&self, observed: &Object) -> Vec<Difference> {
        with_object!(self, desired: K => match <&K>::try_from(observed) {
            Ok(observed) => desired.differences(observed),
            Err(_) => Vec::new(),
        })
    }

    /// Returns true if an observed object of the same kind is as this desired one in every field.
    /// `devices` gives the names on which a form depends.
    pub fn agrees_on(&self, observed: &Object, devices: &Devices) -> bool {
        with_object!(self, desired: K => match <&K>::try_from(observed) {
            Ok(observed) => {
                let desired = Canonical::of(desired, devices);
                desired.get().agrees(Canonical::of(observed, devices).get())
            }
            Err(_) => false,
        })
    }

    /// Fills this desired object's open fields from another one of the kind. See
    /// [`ObjectKind::with_open_of`].
    #[must_use]
    pub fn with_open_of(&self, other: &Object) -> Object {
        with_object!(self, desired: K => match <&K>::try_from(other) {
            Ok(other) => desired.with_open_of(other).into_owned().into(),
            Err(_) => self.clone(),
        })
    }

    /// Returns the object without the fields that change without a writer, such as the rest of a
    /// lifetime. Returns it unchanged if nothing would be left.
    #[must_use]
    pub fn lasting(&self) -> Object {
        with_object!(self, object => match object.lasting() {
            Some(object) => object.into_owned().into(),
            None => self.clone(),
        })
    }

    /// Returns true if the kernel made it for itself: routes of addresses and of router
    /// advertisements, addresses as in [`crate::Address::is_kernels_own`], and the rules with which
    /// every namespace begins. No writer overrides or adopts such an object, or it would be deleted
    /// one day. `unstored` lists the kinds on whose objects this kernel stores no protocol.
    pub fn is_kernels_own(&self, unstored: Kinds) -> bool {
        with_object!(self, object => object.is_kernels_own(unstored))
    }
}

impl Kind {
    /// The kinds whose objects are declared by themselves, in the same order.
    pub const DECLARED: [Kind; Kind::count_declared()] = {
        let mut declared = [Kind::ALL[0]; Kind::count_declared()];
        let (mut from, mut to) = (0, 0);
        while from < Kind::ALL.len() {
            if Kind::ALL[from].is_declared() {
                declared[to] = Kind::ALL[from];
                to += 1;
            }
            from += 1;
        }
        declared
    };

    const fn count_declared() -> usize {
        let (mut at, mut count) = (0, 0);
        while at < Kind::ALL.len() {
            count += Kind::ALL[at].is_declared() as usize;
            at += 1;
        }
        count
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of kinds, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// The empty set.
    pub const NONE: Kinds = Kinds(0);
    /// Every kind.
    pub const ALL: Kinds = Kinds((1 << Kind::ALL.len()) - 1);

    /// Adds a kind to the set.
    #[must_use]
    pub fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u32)
    }

    /// Removes a kind from the set.
    #[must_use]
    pub fn without(self, kind: Kind) -> Kinds {
        Kinds(self.0 & !(1 << kind as u32))
    }

    /// Returns true if a kind is in the set.
    pub fn contains(self, kind: Kind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Kinds {
        kinds.into_iter().fold(Kinds::NONE, Kinds::with)
    }
}

/// An op's action on its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Action {
    /// Makes an object; fails if it exists by then.
    Create,
    /// Changes an object in place: one of ours, an overridden one, or a link of others that we set
    /// up.
    Update,
    /// Deletes an object that the marker or the ledger proves ours.
    Delete,
}

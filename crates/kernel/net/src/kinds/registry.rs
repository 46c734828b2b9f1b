//! The registry of kinds, and the macros that repeat code for each kind.
//!
//! These macros generate all code that exists once for each kind from the one list in
//! [`kinds!`](crate::kinds): the enumerations [`Kind`](crate::Kind), [`Object`](crate::Object) and
//! [`ObjectKey`](crate::ObjectKey), containers with a field for each kind
//! ([`per_kind!`](crate::per_kind)), and code that is the same for each kind
//! ([`each_kind!`](crate::each_kind), [`with_object!`](crate::with_object)). A new kind is a new
//! row.

use super::{ObjectKey, ObjectKind as _};

/// Calls a macro with the rows of all kinds, in the order in which objects are created.
///
/// `kinds!([path::of::the_macro] context)` expands to `path::of::the_macro! { context rows }`. A
/// row is `{ docs field: Type { with, held, key, desired, owned } }`:
///
/// - `field: Type` is the field of a container, and the type of its objects.
/// - `with` is the method that sets the field, and its argument in [`Desired`](crate::Desired).
/// - `held` and `key` are the contents of [`Object`](crate::Object) and
///   [`ObjectKey`](crate::ObjectKey).
/// - `desired` and `owned` are the kind's fields in [`Desired`](crate::Desired) and
///   [`Owned`](crate::Owned).
#[macro_export]
macro_rules! kinds {
    ([$($then:tt)+] $($context:tt)*) => {
        $($then)+! {
            $($context)*
            {
                /// Links: interfaces.
                links: Link {
                    with: with_links($crate::Collection<$crate::Link<$crate::IfName>>),
                    held: Box<$crate::Link>,
                    key: $crate::IfName,
                    desired: Option<$crate::Collection<$crate::Link<$crate::IfName>>>,
                    owned: std::collections::BTreeSet<u32>,
                }
            }
            {
                /// IPv4 and IPv6 addresses on interfaces.
                addresses: Address {
                    with: with_addresses($crate::Collection<$crate::Address<$crate::IfName>>),
                    held: $crate::Address,
                    key: $crate::AddressKey,
                    desired: Option<$crate::Collection<$crate::Address<$crate::IfName>>>,
                    owned: std::collections::BTreeMap<$crate::AddressKey, u8>,
                }
            }
            {
                /// Permanent, NOARP and externally learned neighbours, and proxy entries.
                neighbours: Neighbour {
                    with: with_neighbours($crate::Collection<$crate::Neighbour<$crate::IfName>>),
                    held: $crate::Neighbour,
                    key: $crate::NeighbourKey,
                    desired: Option<$crate::Collection<$crate::Neighbour<$crate::IfName>>>,
                    owned: std::collections::BTreeMap<$crate::NeighbourKey, u8>,
                }
            }
            {
                /// Nexthop objects. None is declared by itself: the routes' mode decides about
                /// them.
                nexthops: Nexthop {
                    with: with_nexthops($crate::NexthopMode),
                    held: $crate::Nexthop,
                    key: u32,
                    desired: $crate::NexthopMode,
                    owned: (),
                }
            }
            {
                /// Routes, in any table.
                routes: Route {
                    with: with_routes($crate::Routes),
                    held: $crate::Route,
                    key: $crate::RouteKey,
                    desired: Option<$crate::Routes>,
                    owned: std::collections::BTreeMap<$crate::RouteKey, u8>,
                }
            }
            {
                /// Policy routing rules.
                rules: Rule {
                    with: with_rules($crate::Collection<$crate::Rule>),
                    held: Box<$crate::Rule>,
                    key: Box<$crate::Rule>,
                    desired: Option<$crate::Collection<$crate::Rule>>,
                    owned: std::collections::BTreeSet<$crate::Rule>,
                }
            }
        }
    };
}

/// Repeats code for each kind, in the order in which objects are created. `K` is the type of the
/// kind's objects.
///
/// ```
/// use trueup_net::{Observed, ObjectKind, OfKind, each_kind};
///
/// let observed = Observed::default();
/// let mut count = 0;
/// each_kind!(K => count += OfKind::<K>::of_kind(&observed).len());
/// assert_eq!(count, 0);
/// let mut kinds = Vec::new();
/// each_kind!(K => kinds.push(K::KIND));
/// assert_eq!(kinds, trueup_net::Kind::ALL);
/// ```
#[macro_export]
macro_rules! each_kind {
    ($k:ident => $body:expr) => {
        $crate::kinds!([$crate::__each_kind]($k)($body))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __each_kind {
    (($k:ident) ($body:expr)
     $({ $(#[$doc:meta])* $field:ident: $kind:ident { $($columns:tt)* } })*) => {
        { $({ type $k = $crate::$kind; $body; })* }
    };
}

/// Runs code for an [`Object`](crate::Object) of any kind, with its type as `K`.
///
/// ```
/// use trueup_net::{Object, ObjectKind, Rule, RuleAction, Family, with_object};
///
/// let object: Object = Rule::new(Family::Inet, 7, RuleAction::Lookup(100)).into();
/// assert_eq!(with_object!(&object, it: K => (K::KIND.name(), it.protocol())), ("rule", 0));
/// ```
#[macro_export]
macro_rules! with_object {
    ($object:expr, $it:ident => $body:expr) => {
        $crate::kinds!([$crate::__with_object] ($object) ($it _K) ($body))
    };
    ($object:expr, $it:ident: $k:ident => $body:expr) => {
        $crate::kinds!([$crate::__with_object] ($object) ($it $k) ($body))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __with_object {
    (
        ($object:expr) ($it:ident $k:ident) ($body:expr)
        $({ $(#[$doc:meta])* $field:ident: $kind:ident { $($columns:tt)* } })*
    ) => {
        match $object {
            $($crate::Object::$kind(held) => {
                #[allow(dead_code, reason = "not every use names the type")]
                type $k = $crate::$kind;
                let $it: &$crate::$kind = held;
                $body
            })*
            // `Object` is non-exhaustive outside of its crate.
            #[allow(unreachable_patterns, reason = "all kinds of the registry are above")]
            _ => unreachable!("an object of a kind that is not registered"),
        }
    };
}

/// Declares a container: a struct with a field for each kind, and fields of its own.
///
/// `Cell<K>` is the type of the field for the kind `K`. The container implements
/// [`OfKind`](crate::OfKind) for every kind, so that generic code reaches the fields.
///
/// ```
/// trueup_net::per_kind! {
///     /// How many objects of each kind there are, and of which namespace.
///     #[derive(Debug, Default)]
///     pub struct Counts[Count] {
///         /// The namespace.
///         pub namespace: String,
///     }
/// }
/// type Count<K> = std::marker::PhantomData<K>;
/// let counts = Counts::default();
/// let _of_links: Count<trueup_net::Link> = counts.links;
/// ```
#[macro_export]
macro_rules! per_kind {
    ($(#[$meta:meta])* $vis:vis struct $name:ident[$cell:ident] { $($more:tt)* }) => {
        $crate::kinds!([$crate::__per_kind] ($(#[$meta])* $vis struct $name[$cell] { $($more)* }));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __per_kind {
    (
        ($(#[$meta:meta])* $vis:vis struct $name:ident[$cell:ident] { $($more:tt)* })
        $({ $(#[$doc:meta])* $field:ident: $kind:ident { $($columns:tt)* } })*
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[$doc])* pub $field: $cell<$crate::$kind>,)*
            $($more)*
        }

        $(impl $crate::OfKind<$crate::$kind> for $name {
            type Cell = $cell<$crate::$kind>;

            fn of_kind(&self) -> &Self::Cell {
                &self.$field
            }

            fn of_kind_mut(&mut self) -> &mut Self::Cell {
                &mut self.$field
            }
        })*
    };
}

/// The columns of a kind's row in the registry.
pub trait Registered {
    /// The type of the kind's declaration.
    type Desired;
    /// The type of the kind's ledger, which lists the objects that we recorded as ours.
    type Owned;

    /// Returns the kind's ledger from that of all kinds.
    fn owned_in(owned: &crate::Owned) -> &Self::Owned;

    /// Returns the key as an [`ObjectKey`].
    fn object_key(&self) -> ObjectKey;

    /// Returns the object if it is of this kind.
    fn of_object(object: &crate::Object) -> Option<&Self>;
}

macro_rules! registered {
    ($({
        $(#[$doc:meta])*
        $field:ident: $kind:ident {
            with: $with:ident($declared:ty),
            held: $held:ty, key: $key:ty, desired: $desired:ty, owned: $owned:ty,
        }
    })*) => {
        $(impl Registered for crate::$kind {
            type Desired = $desired;
            type Owned = $owned;

            fn owned_in(owned: &crate::Owned) -> &$owned {
                &owned.$field
            }

            fn object_key(&self) -> ObjectKey {
                ObjectKey::$kind(self.key().into())
            }

            fn of_object(object: &crate::Object) -> Option<&crate::$kind> {
                object.try_into().ok()
            }
        })*
    };
}

kinds!([registered]);

/// A container with a field for the kind `K`. See [`per_kind!`](crate::per_kind).
pub trait OfKind<K> {
    /// The field's type.
    type Cell;

    /// Returns the field for the kind.
    fn of_kind(&self) -> &Self::Cell;

    /// Returns the field for the kind, to change it.
    fn of_kind_mut(&mut self) -> &mut Self::Cell;
}

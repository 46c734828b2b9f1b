//! The values of objects: families, prefixes, device references, names, hardware addresses and
//! protocol numbers.

mod names;
mod net;
mod protocols;
#[cfg(feature = "serde")]
pub(crate) mod serial;

pub use names::{IfName, InterfacePattern, Label, LinkAddr};
pub use net::{Dev, Family, ParseError, Prefix};
pub use protocols::Protocols;

/// Converts an enumeration to and from numbers and iproute2's words.
macro_rules! words {
    ($type:ident, $number:ty: $($variant:ident = $value:literal $name:literal),+ $(,)?) => {
        impl $type {
            /// Every value.
            pub const ALL: &[$type] = &[$($type::$variant),+];

            /// Returns the kernel's number.
            pub fn number(self) -> $number {
                match self { $($type::$variant => $value),+ }
            }

            /// Returns iproute2's word.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name),+ }
            }

            /// Returns the value with a number, or `None` if there is none.
            pub fn from_number(number: $number) -> Option<$type> {
                $type::ALL.iter().copied().find(|value| value.number() == number)
            }

            /// Returns the value with a word, or `None` if there is none.
            pub fn from_name(name: &str) -> Option<$type> {
                $type::ALL.iter().copied().find(|value| value.name() == name)
            }
        }
    };
}

pub(crate) use words;

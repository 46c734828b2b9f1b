//! The values that objects are made of: families, prefixes, device references, names, hardware
//! addresses and protocol numbers.

mod names;
mod net;
mod protocols;
#[cfg(feature = "serde")]
pub(crate) mod serial;

pub use names::{IfName, Label, LinkAddr};
pub use net::{Dev, Family, ParseError, Prefix};
pub use protocols::Protocols;

//! The exchange between hosts: `[world]`, `[[export]]` and `[[collect]]`.

mod accept;
mod acceptance;
mod collect;
mod contests;
mod export;
mod grant;
mod grants_key;
mod overlaps;
mod protected;
mod route;
mod store;
mod transport;
mod unusable;

use std::fmt;

use crate::list::List;
use crate::parse;
use crate::section::Elements;
use crate::value::{Node, Result, Value, fault};

pub use accept::{Accepted, Origin, Overlap, Refused, Resource, accept};
pub use acceptance::Acceptance;
pub use collect::Collect;
pub use contests::{Contest, ContestEffect, Contests};
pub use export::Export;
pub use grant::Grant;
pub use protected::{AddressUse, Protected};
pub use store::{Certificate, Credentials, Partition, StoreAddress, World};
pub(crate) use store::{read, write};

/// Returns the elements of each section.
pub(crate) fn sections() -> Vec<Box<dyn Elements>> {
    vec![Box::new(List::<Export>::default()), Box::new(List::<Collect>::default())]
}

/// The word for all hosts.
const ANY: &str = "any";

/// The length of the longest name of a host, in bytes, as that of a domain name.
const MAX_HOST: usize = 253;

/// The hosts that are meant: one, or any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hosts {
    /// Any host.
    Any,
    /// The host of this name.
    One(String),
}

impl Hosts {
    /// True if `host` is meant.
    pub fn contains(&self, host: &str) -> bool {
        match self {
            Hosts::Any => true,
            Hosts::One(name) => name == host,
        }
    }
}

/// Writes the name of the host, or `any`.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hosts::Any => f.write_str(ANY),
            Hosts::One(name) => f.write_str(name),
        }
    }
}

/// Reads a host, or any.
fn hosts(value: &Value<'_>) -> Result<Hosts> {
    match &value.node {
        Node::Text(text) if text == ANY => Ok(Hosts::Any),
        _ => host(value).map(Hosts::One),
    }
}

/// Reads the name of a host. It becomes a part of keys, of roles and of users of the store.
fn host(value: &Value<'_>) -> Result<String> {
    let name = parse::text(value, "the name of a host, such as \"a\"")?;
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name == ANY {
        return fault(value.at, "`any` stands for all hosts: write another name");
    }
    match (1..=MAX_HOST).contains(&name.len()) && name.bytes().all(is_right) {
        true => Ok(name.to_owned()),
        false => fault(
            value.at,
            format!(
                "`{name}` is no name of a host: write 1 to {MAX_HOST} letters, digits, `-`, `_` \
                 and `.`"
            ),
        ),
    }
}

//! The exchange between hosts: `[world]`, `[[export]]` and `[[collect]]`.

mod collect;
mod export;
mod grants_key;
mod route;
mod store;

use trueup_world::Hosts;

use crate::parse;
use crate::value::{Node, Result, Value, fault};

pub use export::Export;
pub use route::exported_route;
pub use store::{Certificate, Credentials, Partition, StoreAddress, World};
pub(crate) use store::{read, write};

/// The word for all hosts.
const ANY: &str = "any";

/// The length of the longest name of a host, in bytes, as that of a domain name.
const MAX_HOST: usize = 253;

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
    if name == ANY {
        return fault(value.at, "`any` stands for all hosts: write another name");
    }
    if (1..=MAX_HOST).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it))
    {
        return Ok(name.to_owned());
    }
    let message = format!(
        "`{name}` is no name of a host: write 1 to {MAX_HOST} letters, digits, `-`, `_` and `.`"
    );
    fault(value.at, message)
}

//! What identifies an exported resource.

use std::fmt;

use crate::encoding::check_part;
use crate::{Error, ErrorKind};

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

/// The key of an exported resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// The host that exports it.
    pub exporter: String,
    /// The hosts that it is for.
    pub recipient: Hosts,
    /// Its kind, such as `route`.
    pub kind: String,
    /// Its name: any bytes.
    pub name: Vec<u8>,
}

impl ResourceKey {
    /// Checks that each part is one that can be stored.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_part("a kind", self.kind.as_bytes())?;
        check_part("a name", &self.name)?;
        match &self.recipient {
            Hosts::One(host) => check_part("a recipient", host.as_bytes()),
            Hosts::Any => Ok(()),
        }
    }

    /// Checks that it is an export of a host.
    pub(crate) fn check_exporter(&self, host: &str) -> Result<(), Error> {
        if self.exporter == host {
            return Ok(());
        }
        let message = format!("{self}: only its exporter deletes it, and this is {host}");
        Err(Error::new(ErrorKind::Denied, message))
    }
}

/// Writes the name of the host, or `any`.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hosts::Any => f.write_str("any"),
            Hosts::One(host) => f.write_str(host),
        }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (&self.kind, self.name.escape_ascii());
        write!(f, "{kind} {name} of {} for {}", self.exporter, self.recipient)
    }
}

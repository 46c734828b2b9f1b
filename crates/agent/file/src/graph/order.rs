//! What a file or a command runs after: `after` and `on`.

use std::fmt;

use super::{EXEC, FILE};
use crate::fields::Fields;
use crate::parse;
use crate::value::{Result, Value, fault};

pub(super) const AFTER: &str = "after";
pub(super) const ON: &str = "on";

/// What a file or a command runs after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Order {
    /// What it runs after.
    pub after: Vec<NodeRef>,
    /// What it is refreshed by, and runs after.
    pub on: Vec<NodeRef>,
}

/// What a file or a command refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRef {
    /// All of a section of the file, such as `route`.
    Section(String),
    /// The file of this name.
    File(String),
    /// The command of this name.
    Exec(String),
}

impl Order {
    /// Iterates over all of it.
    pub fn iter(&self) -> impl Iterator<Item = &NodeRef> {
        self.after.iter().chain(&self.on)
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Order> {
        Ok(Order {
            after: fields.read(AFTER, references)?.unwrap_or_default(),
            on: fields.read(ON, references)?.unwrap_or_default(),
        })
    }
}

/// Writes the reference as in the file: `route`, `file.resolv`.
impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeRef::Section(name) => f.write_str(name),
            NodeRef::File(name) => write!(f, "{FILE}.{name}"),
            NodeRef::Exec(name) => write!(f, "{EXEC}.{name}"),
        }
    }
}

fn references(value: &Value<'_>) -> Result<Vec<NodeRef>> {
    let expected = "a list such as [ \"route\", \"file.resolv\" ]";
    parse::list(value, expected, |value| {
        let text = parse::text(value, "a section or SECTION.NAME, such as \"file.resolv\"")?;
        match text.split_once('.') {
            None => Ok(NodeRef::Section(text.to_owned())),
            Some((FILE, name)) => Ok(NodeRef::File(name.to_owned())),
            Some((EXEC, name)) => Ok(NodeRef::Exec(name.to_owned())),
            Some((section, _)) => fault(
                value.at,
                format!(
                    "only files and commands are referred to by name: write \"{}\"",
                    section.escape_debug()
                ),
            ),
        }
    })
}

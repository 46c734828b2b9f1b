//! The declarations beside the network: `[[file]]` and `[[exec]]`, and their order.

mod exec;
mod managed_file;

use std::fmt;
use std::path::{Component, PathBuf};

pub use exec::Exec;
pub use managed_file::{FileContent, ManagedFile};

use crate::parse;
use crate::value::{Result, Value, fault};

/// The name of the section of files.
pub(crate) const FILE: &str = "file";
pub(crate) const EXEC: &str = "exec";

/// Reads the absolute path of a file.
fn path(value: &Value<'_>) -> Result<PathBuf> {
    let text = parse::text(value, "the path of a file, such as \"/etc/resolv.conf\"")?;
    let path = PathBuf::from(text);
    if path.components().any(|it| it == Component::ParentDir) {
        let message = format!(
            "`{}` has `..` in it, so that another path can lead to the same file: write the path \
             without it",
            text.escape_debug()
        );
        return fault(value.at, message);
    }
    // Removes redundant parts, such as a second slash, so that one file has one path.
    let path: PathBuf = path.components().collect();
    let names_file = path.file_name().is_some() && !text.ends_with('/') && !text.ends_with("/.");
    if path.is_absolute() && names_file && !text.contains('\0') {
        return Ok(path);
    }
    let message = format!(
        "`{}` is no absolute path of a file: write one such as \"/etc/resolv.conf\"",
        text.escape_debug()
    );
    fault(value.at, message)
}

const AFTER: &str = "after";
const ON: &str = "on";

/// A reference from a file or a command to its predecessors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeRef {
    /// A whole section of the file, such as `route`.
    Section(String),
    /// The `[[file]]` with this name.
    File(String),
    /// The `[[exec]]` with this name.
    Exec(String),
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

/// Reads the references to the predecessors of a file or a command.
fn references(value: &Value<'_>) -> Result<Vec<NodeRef>> {
    let expected = "a list such as [ \"route\", \"file.resolv\" ]";
    parse::list(value, expected, |value| {
        let text = parse::text(value, "a section or SECTION.NAME, such as \"file.resolv\"")?;
        match text.split_once('.') {
            None => Ok(NodeRef::Section(text.to_owned())),
            Some((FILE, name)) => Ok(NodeRef::File(name.to_owned())),
            Some((EXEC, name)) => Ok(NodeRef::Exec(name.to_owned())),
            Some((section, _)) => {
                let name = section.escape_debug();
                let message = "only files and commands are referred to by name: write";
                fault(value.at, format!("{message} \"{name}\""))
            }
        }
    })
}

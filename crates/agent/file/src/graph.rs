//! What a file declares beside the network: `[[file]]` and `[[exec]]`, and the order between them.

mod exec;
mod managed_file;
mod order;

use std::path::{Component, PathBuf};

use crate::parse;
use crate::value::{Result, Value, fault};

pub use exec::{Exec, Semaphore};
pub use managed_file::{FileContent, ManagedFile, Owner};
pub use order::{NodeRef, Order};

/// The names of the two sections.
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
    // Without what says nothing, such as a second slash: one file has one path.
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

//! What a file declares beside the network: `[[file]]` and `[[exec]]`, and the order between them.

mod check;
mod exec;
mod managed_file;
mod order;

use std::path::{Component, PathBuf};

use crate::list::List;
use crate::parse;
use crate::section::Elements;
use crate::value::{Result, Value, fault};

pub(crate) use check::check;
pub use exec::{Exec, Semaphore};
pub use managed_file::{FileContent, ManagedFile, Owner};
pub use order::{NodeRef, Order};

/// The names of the two sections.
const FILE: &str = "file";
const EXEC: &str = "exec";

/// Returns the elements of each section.
pub(crate) fn sections() -> Vec<Box<dyn Elements>> {
    vec![Box::new(List::<ManagedFile>::default()), Box::new(List::<Exec>::default())]
}

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
    match path.is_absolute() && names_file && !text.contains('\0') {
        true => Ok(path),
        false => fault(
            value.at,
            format!(
                "`{}` is no absolute path of a file: write one such as \"/etc/resolv.conf\"",
                text.escape_debug()
            ),
        ),
    }
}

//! `[[file]]`: a file with its content.

use std::path::PathBuf;

use super::{FILE, path};
use crate::fields::Fields;
use crate::file::File;
use crate::list::Element;
use crate::parse;
use crate::section::Keyed;
use crate::value::{Result, Value, fault};

const CONTENT: &str = "content";
const SOURCE: &str = "source";

/// The mode of a file, unless said otherwise.
const DEFAULT_MODE: u32 = 0o644;

/// A file with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManagedFile {
    /// The name, by which commands refer to it.
    pub name: String,
    /// The absolute path.
    pub path: PathBuf,
    /// The content.
    pub content: FileContent,
    /// The permissions, with the bits for set-user-id, set-group-id and sticky: 0 to 0o7777.
    pub mode: u32,
    /// The owner; `None` leaves it as it is.
    pub owner: Option<Owner>,
}

/// The owner of a file, by numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group; `None` leaves it as it is.
    pub group: Option<u32>,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// This text.
    Text(String),
    /// That of the file at this absolute path.
    Source(PathBuf),
}

impl Element for ManagedFile {
    const NAME: &'static str = FILE;
    const WITH_ARTICLE: &'static str = "a file";
    const KEYS: &'static [&'static str] = &["name", "path", CONTENT, SOURCE, "mode", "owner"];

    fn read(fields: &Fields<'_>) -> Result<ManagedFile> {
        let text = |value: &Value<'_>| {
            let text = parse::text(value, "the content of the file")?;
            Ok(FileContent::Text(text.to_owned()))
        };
        let source = |value: &Value<'_>| path(value).map(FileContent::Source);
        let content = match (fields.read(CONTENT, text)?, fields.read(SOURCE, source)?) {
            (Some(content), None) | (None, Some(content)) => content,
            (Some(_), Some(_)) => {
                return fields.fault(SOURCE, "`content` is given: remove one of the two");
            }
            (None, None) => {
                let message =
                    "`content` is missing: write content = \"TEXT\", or source = \"/FILE\"";
                return fault(fields.at, message);
            }
        };
        Ok(ManagedFile {
            name: fields.required("name", "name = \"resolv\"", parse::element_name)?,
            path: fields.required("path", "path = \"/etc/resolv.conf\"", path)?,
            content,
            mode: fields.read("mode", mode)?.unwrap_or(DEFAULT_MODE),
            owner: fields.read("owner", owner)?,
        })
    }

    fn list(file: &mut File) -> &mut Option<Vec<ManagedFile>> {
        &mut file.files
    }
}

impl Keyed for ManagedFile {
    const REMEDY: &'static str = "another name";
    type Key = String;

    fn key(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> String {
        format!("file `{}`", self.name)
    }
}

/// Reads a mode: a string of three or four octal digits. As a number, 0644 would be decimal.
fn mode(value: &Value<'_>) -> Result<u32> {
    let text = parse::text(value, "a mode as a string, such as \"0644\"")?;
    let is_octal = text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal && matches!(text.len(), 3 | 4) => Ok(mode),
        _ => fault(
            value.at,
            format!(
                "`{}` is no mode: write three or four octal digits, such as \"0644\"",
                text.escape_debug()
            ),
        ),
    }
}

/// Reads an owner: `USER` or `USER:GROUP`, by number. Names have different numbers on each host,
/// and their databases need not be files.
fn owner(value: &Value<'_>) -> Result<Owner> {
    let text = parse::text(value, "an owner as a string, such as \"0:0\"")?;
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (number(user), number(group).map(Some)),
        None => (number(text), Some(None)),
    };
    match (user, group) {
        (Some(user), Some(group)) => Ok(Owner { user, group }),
        _ => fault(
            value.at,
            format!(
                "`{}` is no owner: write the numbers of the user and the group, such as \"0:0\"; \
                 `id NAME` prints them",
                text.escape_debug()
            ),
        ),
    }
}

/// Reads the number of a user or a group. The last one means none to the kernel.
fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let number = text.parse().ok().filter(|number| *number < u32::MAX);
    number.filter(|_| is_number)
}

//! `[[file]]`: a file with its content.

use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::{Group, User};

use super::{AFTER, FILE, ON, Order, path};
use crate::fields::Fields;
use crate::parse;
use crate::section::{Element, Keyed};
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
    /// The owner; `None` leaves it as it is, unless another user can have made the file.
    pub owner: Option<Owner>,
    /// What the file is written after. It is looked at when what refreshes it has changed.
    pub order: Order,
}

/// The owner of a file, by numbers: the file's names were looked up when it was read.
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
    const KEYS: &'static [&'static str] =
        &["name", "path", CONTENT, SOURCE, "mode", "owner", AFTER, ON];

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
            order: Order::read(fields)?,
        })
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

/// Reads an owner: `USER` or `USER:GROUP`, each by name or by number. Names are looked up now, on
/// this host, so that a wrong one is an error of the file and its place.
fn owner(value: &Value<'_>) -> Result<Owner> {
    let text = parse::text(value, "an owner as a string, such as \"root:root\"")?;
    let mut parts = text.split(':');
    let (user, group, more) = (parts.next(), parts.next(), parts.next());
    let is_empty = |part: Option<&str>| part.is_some_and(str::is_empty);
    let Some(user) = user.filter(|_| more.is_none() && !is_empty(user) && !is_empty(group)) else {
        let message = "write USER or USER:GROUP, each a name or a number, such as \"root:root\"";
        return fault(value.at, format!("`{}` is no owner: {message}", text.escape_debug()));
    };
    let user_id = |name: &str| Ok(User::from_name(name)?.map(|it| it.uid.as_raw()));
    let group_id = |name: &str| Ok(Group::from_name(name)?.map(|it| it.gid.as_raw()));
    Ok(Owner {
        user: id(value, "user", user, user_id)?,
        group: match group {
            Some(group) => Some(id(value, "group", group, group_id)?),
            None => None,
        },
    })
}

/// Reads a user or a group. Digits are a number.
fn id(
    value: &Value<'_>,
    kind: &str,
    text: &str,
    look_up: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32> {
    let shown = text.escape_debug();
    let message = match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => match text.parse() {
            // The last one means none to the kernel.
            Ok(number) if number < u32::MAX => return Ok(number),
            _ => format!("{shown} is no number of a {kind}: write one up to {}", u32::MAX - 1),
        },
        false => match look_up(text) {
            Ok(Some(number)) => return Ok(number),
            // A host without the database of users has none of that name: getpwnam(3).
            Ok(None) | Err(Errno::ENOENT | Errno::ESRCH) => format!(
                "there is no {kind} `{shown}` on this host: add it before the file is read \
                 (`{kind}add`), or write a number"
            ),
            Err(error) => format!(
                "the {kind} `{shown}` cannot be looked up ({}): write its number",
                error.desc()
            ),
        },
    };
    fault(value.at, message)
}

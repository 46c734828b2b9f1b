//! `[[file]]`: a file with its content.

use std::path::PathBuf;

use nix::errno::Errno;
use nix::unistd::{Group, User};

use super::{AFTER, NodeRef, ON, path, references};
use crate::element::Element;
use crate::fields::Fields;
use crate::parse;
use crate::value::{Result, Value, fault};

const CONTENT: &str = "content";
const SOURCE: &str = "source";

/// The default mode of a file.
const DEFAULT_MODE: u32 = 0o644;

/// A file that trueup writes, with its content and mode.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManagedFile {
    /// The unique name, by which commands refer to the file.
    pub name: String,
    /// The absolute path to write.
    pub path: PathBuf,
    /// The text to write, or the place to copy it from.
    pub content: FileContent,
    /// The permissions, including the bits for set-user-id, set-group-id and sticky: 0 to 0o7777.
    pub mode: u32,
    /// The numbers of the owner and of the group. Their names were looked up when the declaration
    /// was read. `None` leaves either as it is, unless another user can have made the file.
    pub owner: Option<(u32, Option<u32>)>,
    /// The references to write the file after.
    pub after: Vec<NodeRef>,
    /// The references to write the file after. If one of them has changed, the file is looked at
    /// again.
    pub on: Vec<NodeRef>,
}

/// Where the content of a managed file comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// The value of `content`, as UTF-8 without a change.
    Text(String),
    /// The content of the file at this absolute path.
    Source(PathBuf),
}

impl Element for ManagedFile {
    const WITH_ARTICLE: &'static str = "a file";
    const KEYS: &'static [&'static str] =
        &["name", "path", CONTENT, SOURCE, "mode", "owner", AFTER, ON];
    type Key = String;

    fn read(fields: &Fields<'_>) -> Result<ManagedFile> {
        let text = fields.read(CONTENT, |value| parse::text(value, "the content of the file"))?;
        let content = match (text, fields.read(SOURCE, path)?) {
            (Some(text), None) => FileContent::Text(text.to_owned()),
            (None, Some(source)) => FileContent::Source(source),
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
            after: fields.read(AFTER, references)?.unwrap_or_default(),
            on: fields.read(ON, references)?.unwrap_or_default(),
        })
    }

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
        _ => {
            let message = "is no mode: write three or four octal digits, such as \"0644\"";
            fault(value.at, format!("`{}` {message}", text.escape_debug()))
        }
    }
}

/// Reads an owner: `USER` or `USER:GROUP`, each by name or by number. Names are looked up now, on
/// this host, so that a wrong name is an error with its place in the file.
fn owner(value: &Value<'_>) -> Result<(u32, Option<u32>)> {
    let text = parse::text(value, "an owner as a string, such as \"root:root\"")?;
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 2 || parts.contains(&"") {
        let message = "write USER or USER:GROUP, each a name or a number, such as \"root:root\"";
        return fault(value.at, format!("`{}` is no owner: {message}", text.escape_debug()));
    }
    let user =
        id(value, "user", parts[0], |name| Ok(User::from_name(name)?.map(|it| it.uid.as_raw())))?;
    let group = parts.get(1).map(|group| {
        id(value, "group", group, |name| Ok(Group::from_name(name)?.map(|it| it.gid.as_raw())))
    });
    Ok((user, group.transpose()?))
}

/// Reads a user or a group. Digits are always a number.
fn id(
    value: &Value<'_>,
    kind: &str,
    text: &str,
    look_up: impl Fn(&str) -> nix::Result<Option<u32>>,
) -> Result<u32> {
    let shown = text.escape_debug();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        // To the kernel, the last number means none.
        return text.parse().ok().filter(|number| *number < u32::MAX).map_or_else(
            || {
                let most = u32::MAX - 1;
                fault(value.at, format!("{shown} is no number of a {kind}: write one up to {most}"))
            },
            Ok,
        );
    }
    let message = match look_up(text) {
        Ok(Some(number)) => return Ok(number),
        // Without a database of users, the host has no user of this name: getpwnam(3).
        Ok(None) | Err(Errno::ENOENT | Errno::ESRCH) => format!(
            "there is no {kind} `{shown}` on this host: add it before the file is read \
             (`{kind}add`), or write a number"
        ),
        Err(error) => {
            format!("the {kind} `{shown}` cannot be looked up ({}): write its number", error.desc())
        }
    };
    fault(value.at, message)
}

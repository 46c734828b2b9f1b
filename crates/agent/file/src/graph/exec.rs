//! `[[exec]]`: a command that runs when something has changed, or when a check fails.

use std::time::Duration;

use super::{AFTER, NodeRef, ON, references};
use crate::element::Element;
use crate::fields::Fields;
use crate::parse;
use crate::value::{Result, Value, fault};

const CHECK: &str = "check";
const EVERY: &str = "every";

/// The default time that a command may run.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// A day: the longest timeout, and the longest time between two checks.
const DAY: u32 = 86_400;

/// The highest count of a semaphore.
const MAX_COUNT: u32 = 1_000_000;

/// A command that runs when something has changed, or when a check fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exec {
    /// The unique name, by which other commands refer to this one.
    pub name: String,
    /// The program's absolute path, and its arguments. They pass through no shell.
    pub command: Vec<String>,
    /// The references to run after, without a refresh.
    pub after: Vec<NodeRef>,
    /// The references to run after and to be refreshed by. If there are any, the command runs only
    /// when one of them has changed.
    pub on: Vec<NodeRef>,
    /// The command that succeeds if there is nothing to do, in the same form. `None` without one.
    pub check: Option<Vec<String>>,
    /// The time between two checks of a running agent: more than 0, at most a day. `None` means the
    /// agent's interval, or no such checks if something refreshes the command.
    pub every: Option<Duration>,
    /// The time that the command or its check may run: more than 0, at most a day.
    pub timeout: Duration,
    /// The ids and counts of the semaphores that are held while the command runs. The count is the
    /// most commands with this id that run at a time: 1 to 1,000,000.
    pub semaphores: Vec<(String, u32)>,
    /// The names of the agent's variables that the command gets beside the usual ones.
    pub environment: Vec<String>,
    /// True if the command gets the agent's ambient capabilities.
    pub ambient: bool,
    /// True if the command runs in the file's network namespace. If false, it runs in the agent's.
    pub netns: bool,
}

impl Element for Exec {
    const WITH_ARTICLE: &'static str = "a command";
    const KEYS: &'static [&'static str] = &[
        "name",
        "command",
        AFTER,
        ON,
        CHECK,
        EVERY,
        "timeout",
        "semaphores",
        "environment",
        "ambient",
        "netns",
    ];
    type Key = String;

    fn read(fields: &Fields<'_>) -> Result<Exec> {
        let example = "command = [ \"/usr/bin/systemctl\", \"reload\", \"dns\" ]";
        let after = fields.read(AFTER, references)?.unwrap_or_default();
        let on = fields.read(ON, references)?.unwrap_or_default();
        let check = fields.read(CHECK, command)?;
        if on.is_empty() && check.is_none() {
            let message = "a command without `on` and `check` would always run: write one of them, \
                           such as on = [ \"file.resolv\" ]";
            return fault(fields.at, message);
        }
        let every = fields.read(EVERY, every)?;
        if every.is_some() && check.is_none() {
            let message = "`every` is the time between two checks: write `check` as well, such as \
                           check = [ \"/usr/bin/test\", \"-e\", \"/run/dns.ok\" ]";
            return fault(fields.at, message);
        }
        Ok(Exec {
            name: fields.required("name", "name = \"reload-dns\"", parse::element_name)?,
            command: fields.required("command", example, command)?,
            after,
            on,
            check,
            every,
            timeout: fields.read("timeout", timeout)?.unwrap_or(DEFAULT_TIMEOUT),
            semaphores: fields.read("semaphores", semaphores)?.unwrap_or_default(),
            environment: fields.read("environment", variables)?.unwrap_or_default(),
            ambient: fields.flag("ambient")?,
            netns: fields.flag("netns")?,
        })
    }

    fn key(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> String {
        format!("command `{}`", self.name)
    }
}

fn command(value: &Value<'_>) -> Result<Vec<String>> {
    let example = "[ \"/usr/bin/systemctl\", \"reload\", \"dns\" ]";
    let expected = format!("a program and its arguments, such as {example}");
    let words = parse::list(value, &expected, |value| match parse::text(value, "a string")? {
        text if text.contains('\0') => fault(value.at, "an argument has no NUL: remove it"),
        text => Ok(text.to_owned()),
    })?;
    match words.first() {
        None => fault(value.at, format!("it is empty: write {example}")),
        Some(program) if !program.starts_with('/') => {
            let shown = program.escape_debug();
            let message = "has no absolute path: write one, as in";
            fault(value.at, format!("the program `{shown}` {message} {example}"))
        }
        Some(_) => Ok(words),
    }
}

fn timeout(value: &Value<'_>) -> Result<Duration> {
    above_zero(value, "no command ends at once: write more than 0 seconds")
}

fn every(value: &Value<'_>) -> Result<Duration> {
    above_zero(value, "no check runs all the time: write more than 0 seconds")
}

fn above_zero(value: &Value<'_>, message: &'static str) -> Result<Duration> {
    match parse::seconds(value, DAY)? {
        Duration::ZERO => fault(value.at, message),
        time => Ok(time),
    }
}

/// Reads names of variables. A value after a name, as in `NAME=value`, is a common mistake.
fn variables(value: &Value<'_>) -> Result<Vec<String>> {
    let expected = "a list of names, such as [ \"http_proxy\" ]";
    parse::list(value, expected, |value| {
        let name = parse::text(value, "the name of a variable, such as \"http_proxy\"")?;
        if !name.is_empty() && !name.contains(['=', '\0']) {
            return Ok(name.to_owned());
        }
        let message = "is no name of a variable: write the name alone, such as \"http_proxy\"";
        fault(value.at, format!("`{}` {message}", name.escape_debug()))
    })
}

/// Reads semaphores, each once.
fn semaphores(value: &Value<'_>) -> Result<Vec<(String, u32)>> {
    let expected = "a list such as [ \"reload:1\" ]";
    let mut semaphores = parse::list(value, expected, semaphore)?;
    semaphores.sort();
    semaphores.dedup();
    Ok(semaphores)
}

fn semaphore(value: &Value<'_>) -> Result<(String, u32)> {
    let text = parse::text(value, "a semaphore as \"ID:COUNT\", such as \"reload:1\"")?;
    let parts =
        text.split_once(':').filter(|(_, count)| count.bytes().all(|digit| digit.is_ascii_digit()));
    match parts.map(|(id, count)| (id, count.parse())) {
        Some((id, Ok(count @ 1..=MAX_COUNT)))
            if (1..=255).contains(&id.len())
                && id.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it)) =>
        {
            Ok((id.to_owned(), count))
        }
        _ => fault(
            value.at,
            format!(
                "`{}` is no semaphore: write letters, digits, `-`, `_` and `.`, a colon, and a \
                 number from 1 to {MAX_COUNT}, such as \"reload:1\"",
                text.escape_debug()
            ),
        ),
    }
}

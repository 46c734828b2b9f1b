//! Other writers' lines: run by iproute2, or sent as a raw message.

use std::fs;
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use super::errno;
use super::object::Names;
use super::raw::RawRequest;

/// A failure outside the scenario's subject, or a line that did not end as stated; with the line
/// number.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) line: Option<usize>,
    pub(super) message: String,
}

/// One line of another writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriterLine {
    pub(super) line: usize,
    /// The text as written, without the expected error.
    pub(super) text: String,
    pub(super) tool: Tool,
    /// The errno with which it must fail; `None` if it must succeed.
    pub(super) errno: Option<i32>,
}

/// The program that runs a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// `ip -batch -`, together with the neighbouring lines.
    Batch,
    /// `ip`, one process for the line: `ip -batch` takes no options.
    Ip,
    /// `bridge`, of iproute2.
    Bridge,
    /// A write to a file below `/proc/sys`.
    Sysctl,
    /// A router advertisement, sent by us.
    Router,
    /// Our own socket: see [`RawRequest`].
    Socket,
}

impl Tool {
    /// Returns the tool of a line; `None` if it is no tool's, so a raw message or an error.
    pub(super) fn of(text: &str) -> Option<Tool> {
        let mut words = text.trim_start_matches("ip ").split_whitespace();
        Some(match words.next()? {
            "-4" | "-6" => Tool::Ip,
            "bridge" => Tool::Bridge,
            "router" => Tool::Router,
            "sysctl" if words.next()?.contains('=') => Tool::Sysctl,
            "link" | "addr" | "address" | "neigh" | "neighbour" | "nexthop" | "route" | "rule" => {
                Tool::Batch
            }
            _ => return None,
        })
    }
}

impl WriterLine {
    /// Replaces each `@NAME` with the index that an interface with this name has or had. Fails if a
    /// name never existed.
    pub(super) fn resolved(&self, names: &Names) -> Result<WriterLine, Trouble> {
        let word = |word: &str| match word.strip_prefix('@') {
            None => Ok(word.to_owned()),
            Some(name) => match index_of(names, name) {
                Some(index) => Ok(index.to_string()),
                None => Err(self.trouble(format!("there never was a {name}"))),
            },
        };
        let words = self.text.split(' ').map(word);
        Ok(WriterLine { text: words.collect::<Result<Vec<_>, _>>()?.join(" "), ..self.clone() })
    }

    /// Parses the line as a raw message.
    pub(super) fn request(&self, names: &Names) -> Result<RawRequest, Trouble> {
        RawRequest::parse(&self.text, |name| index_of(names, name))
            .map_err(|(_, message)| self.trouble(message))
    }

    /// Runs the line in the calling thread's namespace. Fails unless it ends as stated.
    pub(super) fn carry_out(&self, names: &Names) -> Result<(), Trouble> {
        let ended = match self.tool {
            Tool::Batch | Tool::Ip => self.run("ip"),
            Tool::Bridge => self.run("bridge"),
            Tool::Sysctl => {
                let (name, value) = self.setting();
                fs::write(sysctl_path(name), value).map_err(|error| Ended::errno(&error))
            }
            Tool::Router => {
                let words: Vec<&str> = self.text.split_whitespace().collect();
                let said = match words[..] {
                    ["router", dev, "lifetime", seconds] => {
                        index_of(names, dev).zip(seconds.parse().ok())
                    }
                    _ => None,
                };
                let (index, lifetime) =
                    said.ok_or_else(|| self.trouble("router DEV lifetime SECONDS".to_owned()))?;
                trueup_testkit::advertise(index, lifetime).map_err(|error| Ended::errno(&error))
            }
            Tool::Socket => {
                let RawRequest { message, flags } = self.request(names)?;
                let sent = trueup_testkit::Writer::open().send(&message, flags);
                sent.map_err(|error| Ended::errno(&error))
            }
        };
        let expected = self.errno.map_or("success".to_owned(), errno::name);
        let as_expected = match (&ended, self.errno) {
            (Ok(()), expected) => expected.is_none(),
            (Err(Ended::Errno(code)), expected) => expected == Some(*code),
            // `ip` prints the error as text.
            (Err(Ended::Text(text)), Some(code)) => {
                let error = io::Error::from_raw_os_error(code).to_string();
                let error = error.split(" (os error").next().unwrap_or_default();
                text.contains(&format!("RTNETLINK answers: {error}"))
            }
            (Err(Ended::Text(_)), None) => false,
        };
        if as_expected {
            return Ok(());
        }
        let got = match ended {
            Ok(()) => "success".to_owned(),
            Err(Ended::Errno(code)) => errno::name(code),
            Err(Ended::Text(text)) => text,
        };
        Err(self.trouble(format!("`{}` ended in {got}, {expected} was expected", self.text)))
    }

    /// Returns the name and the value in a `sysctl` line.
    pub(super) fn setting(&self) -> (&str, &str) {
        let setting = self.text.trim_start_matches("sysctl").trim();
        setting.split_once('=').unwrap_or((setting, ""))
    }

    fn run(&self, tool: &str) -> Result<(), Ended> {
        let words = self.text.split_whitespace().skip_while(|word| *word == tool);
        run(tool, &words.collect::<Vec<_>>(), "").map_err(Ended::Text)
    }

    fn trouble(&self, message: String) -> Trouble {
        Trouble { line: Some(self.line), message }
    }
}

/// The error of a failed line.
enum Ended {
    Errno(i32),
    /// The error text printed by the tool.
    Text(String),
}

impl Ended {
    fn errno(error: &io::Error) -> Ended {
        match error.raw_os_error() {
            Some(code) => Ended::Errno(code),
            None => Ended::Text(error.to_string()),
        }
    }
}

fn index_of(names: &Names, name: &str) -> Option<u32> {
    let named = names.iter().find(|(_, known)| *known == name);
    named.map(|(index, _)| *index)
}

/// Runs lines of [`Tool::Batch`] in one process.
pub(super) fn ip_batch(acts: &[WriterLine]) -> Result<(), Trouble> {
    let lines =
        acts.iter().map(|act| act.text.trim_start_matches("ip ")).collect::<Vec<_>>().join("\n");
    run("ip", &["-batch", "-"], &lines).map_err(|message| {
        // `Command failed -:3`
        let at = message.rsplit_once("-:").and_then(|(_, n)| n.trim().parse::<usize>().ok());
        let act = at.and_then(|n| acts.get(n - 1)).or(acts.first());
        Trouble { line: act.map(|act| act.line), message }
    })
}

fn run(tool: &str, args: &[&str], input: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{tool}, of Debian's package iproute2: {error}");
    let mut child = Command::new(tool)
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Far less than a pipe's capacity, so this does not block.
        let _early_end = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Returns a setting's path below `/proc/sys`.
pub(super) fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

//! iproute2, which runs the lines of other writers on the running kernel.

use std::io::Write as _;
use std::process::{Command as Process, Stdio};

use super::super::WriterLine;
use super::super::command::{Command, Words};
use super::{Result, Trouble};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// `ip -batch -`.
    Batch,
    /// `ip`, a process for the line: `ip -batch` knows no options.
    Ip,
    /// `bridge`.
    Bridge,
}

pub(super) fn tool(act: &WriterLine) -> Option<Tool> {
    if matches!(act.command, Command::Sysctl { .. }) {
        return None;
    }
    let text = act.text.trim_start_matches("ip ");
    Some(match text.split(' ').next() {
        Some("bridge") => Tool::Bridge,
        Some("-4" | "-6") => Tool::Ip,
        _ => Tool::Batch,
    })
}

/// Returns true if there is iproute2: in a small machine there may be another `ip`, or none, and
/// lines are sent as messages. So they are with `TRUEUP_SCENARIOS_IP=0`, to see on the running
/// kernel that they are read as `ip` reads them.
pub(super) fn has_ip() -> bool {
    use std::sync::OnceLock;
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        if std::env::var("TRUEUP_SCENARIOS_IP").is_ok_and(|asked| asked == "0") {
            return false;
        }
        let message = Process::new("ip").arg("-V").output();
        message.is_ok_and(|message| String::from_utf8_lossy(&message.stdout).contains("iproute2"))
    })
}

pub(super) fn ip_batch(acts: &[WriterLine]) -> Result<()> {
    let lines: Vec<_> = acts
        .iter()
        .map(|act| act.text.trim_start_matches("ip "))
        .collect();
    run("ip", &["-batch", "-"], &lines.join("\n")).map_err(|message| {
        // `Command failed -:3`
        let at = message
            .rsplit_once("-:")
            .and_then(|(_, n)| n.trim().parse::<usize>().ok());
        let act = at.and_then(|n| acts.get(n - 1)).or(acts.first());
        Trouble {
            line: act.map(|act| act.line),
            message,
        }
    })
}

/// One line by the tool that it is of.
pub(super) fn spoken(act: &WriterLine) -> Result<(), String> {
    let words = Words::new(&act.text).map_err(|fault| fault.message)?;
    let mut words = words.rest();
    let tool = match words.first() {
        Some(&"bridge") => words.remove(0),
        Some(&"ip") => words.remove(0),
        _ => "ip",
    };
    run(tool, &words, "")
}

fn run(tool: &str, args: &[&str], input: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{tool}, of Debian's package iproute2: {error}");
    let mut child = Process::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Far below what a pipe holds.
        let _early_end = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

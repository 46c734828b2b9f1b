//! The steps, by their keywords.

use std::time::Duration;

use super::super::text;
use super::super::{Error, Selection, StepKind, numbers};
use super::Line;
use super::fault::fault_line;
use super::{act, expected, kind, not_a_kind, status};
use trueup_testkit::faults::At;

pub(super) fn step(head: Line<'_>, block: &[Line<'_>]) -> Result<StepKind, Error> {
    let said = || block.iter().copied().filter(|line| !line.is_blank() && !line.is_comment());
    let mut words = head.text.split_whitespace();
    let keyword = words.next().unwrap_or_default();
    let rest: Vec<_> = words.collect();
    let bare = |step: StepKind| match (rest.first(), said().next()) {
        (None, None) => Ok(step),
        (Some(_), _) => Err(head.wrong(format!("{keyword} stands alone on its line"))),
        (None, Some(line)) => Err(line.wrong(format!("{keyword} takes no lines"))),
    };
    let expectations = || said().map(expected).collect::<Result<Vec<_>, _>>();
    let pass = || {
        let is_fault = |line: &Line<'_>| line.text.trim_start().starts_with("fault ");
        let faults = said().filter(is_fault).map(fault_line).collect::<Result<Vec<_>, _>>()?;
        let expected: Vec<_> =
            said().filter(|line| !is_fault(line)).map(expected).collect::<Result<_, _>>()?;
        Ok((faults, (!expected.is_empty()).then_some(expected)))
    };
    match keyword {
        "setup" | "writer" | "send" => {
            let raw = keyword == "send";
            let acts: Vec<_> = said().map(|line| act(line, line.start(), raw)).collect::<Result<_, _>>()?;
            if acts.is_empty() {
                return Err(head.wrong(format!("{keyword} needs indented lines below it, such as `link set v0 up`")));
            }
            Ok(StepKind::Write(acts))
        }
        "desired" => {
            let last = block.iter().rposition(|line| !line.is_blank()).map_or(0, |at| at + 1);
            let Some(written) = block.get(..last).filter(|block| !block.is_empty()) else {
                return Err(head.wrong("desired needs indented lines below it: a desired-state file in TOML"));
            };
            // Count the lines above, so that errors have the line number in this file.
            let mut text = "\n".repeat(head.number);
            for line in written {
                text.push_str(line.text);
                text.push('\n');
            }
            Ok(StepKind::Desired(text))
        }
        "plan" => Ok(StepKind::Plan(expectations()?)),
        "apply" => {
            let (faults, expected) = pass()?;
            if faults.iter().any(|fault| fault.at == At::Announcements) {
                return Err(head.wrong("faults of announcements belong in `drain` or `converge`"));
            }
            Ok(StepKind::Apply { faults, expected })
        }
        "converge" => match pass()? {
            (faults, None) => Ok(StepKind::Converge(faults)),
            (_, Some(_)) => Err(head.wrong("converge takes faults alone: its last pass has to converge")),
        },
        "listen" => bare(StepKind::Listen),
        "idle" => bare(StepKind::Idle),
        "drain" => {
            let (faults, expected) = pass()?;
            Ok(StepKind::Drain { faults, expected })
        }
        "again" => Ok(StepKind::Again(expectations()?)),
        "restart" => bare(StepKind::Restart),
        "forget" => bare(StepKind::Forget),
        "reboot" => bare(StepKind::Reboot),
        "recreate" => match (&rest[..], said().next()) {
            ([], None) => Ok(StepKind::Recreate { noticed: true }),
            (["unnoticed"], None) => Ok(StepKind::Recreate { noticed: false }),
            _ => Err(head.wrong("write `recreate`, or `recreate unnoticed` for agents that run on")),
        },
        "later" => {
            let seconds = rest.first().and_then(|time| time.strip_suffix('s')?.parse().ok());
            match (seconds, &rest[..], said().next()) {
                (Some(seconds), [_], None) => Ok(StepKind::Later(Duration::from_secs(seconds))),
                _ => Err(head.wrong("write `later 11s`: so many seconds pass for the agents")),
            }
        }
        "agent" => match (&rest[..], said().next()) {
            ([name], None) => Ok(StepKind::Agent((*name).to_owned())),
            _ => Err(head.wrong("write `agent NAME`: the following steps are another agent's, until the next such line")),
        },
        "journal" => match (&rest[..], said().next()) {
            (["fails"], None) => Ok(StepKind::JournalFails),
            _ => Err(head.wrong("write `journal fails`")),
        },
        "mask" => {
            let kinds: Option<Vec<_>> = rest.iter().map(|word| Some(kind(word)?.0)).collect();
            match (kinds.filter(|kinds| !kinds.is_empty()), said().next()) {
                (Some(kinds), None) => Ok(StepKind::Mask(kinds)),
                _ => Err(head.wrong("write `mask address neighbour`, by the kinds of objects whose markers are not kept")),
            }
        }
        "status" => match rest.first() {
            None => Ok(StepKind::Status(said().map(status).collect::<Result<_, _>>()?)),
            Some(_) => Err(head.wrong("status stands alone on its line")),
        },
        "settle" => bare(StepKind::Settle),
        "silent" => bare(StepKind::Events(Vec::new(), Vec::new())),
        "unchanged" => match rest[..] {
            [] => Ok(StepKind::Unchanged(Vec::new())),
            ["except", ref devices @ ..] if !devices.is_empty() => {
                Ok(StepKind::Unchanged(devices.iter().map(|name| (*name).to_owned()).collect()))
            }
            _ => Err(head.wrong("write `unchanged`, or `unchanged except DEV...`")),
        },
        "events" => {
            let mut kinds = Vec::new();
            for word in &rest {
                let (kind, _) = kind(word).ok_or_else(|| head.wrong(not_a_kind(word)))?;
                kinds.push(kind);
            }
            let lines: Vec<_> = said().map(|line| text::squeeze(line.text)).collect();
            for (line, text) in said().zip(&lines) {
                let object = text.strip_prefix("deleted ").unwrap_or(text);
                let word = object.split(' ').next().unwrap_or_default();
                if kind(word).is_none() {
                    return Err(line.wrong("an event is written `route ...` or `deleted route ...`, by its kind"));
                }
            }
            Ok(StepKind::Events(kinds, lines))
        }
        "state" => {
            let selection = selection(head, &rest)?;
            Ok(StepKind::State(selection, said().map(|line| text::squeeze(line.text)).collect()))
        }
        _ => Err(head.wrong(format!(
            "{keyword:?} is no step: write setup, writer, send, desired, plan, apply, again, listen, drain, converge, idle, agent, later, restart, \
             forget, reboot, recreate, mask, journal, settle, state, status, unchanged, events or silent"
        ))),
    }
}

/// Parses `state [all] KIND [-4|-6] [details] [WORD VALUE]...`.
fn selection(head: Line<'_>, rest: &[&str]) -> Result<Selection, Error> {
    let (all, rest) = match rest {
        ["all", rest @ ..] => (true, rest),
        _ => (false, rest),
    };
    let Some((word, mut rest)) = rest.split_first() else {
        return Err(head.wrong("state of what? write `state routes`, or addresses, links, neighbours, rules, nexthops, fdb"));
    };
    let (kind, mut family) = kind(word).ok_or_else(|| head.wrong(not_a_kind(word)))?;
    let mut details = false;
    let mut with = Vec::new();
    loop {
        match rest {
            [] => break,
            ["-4", more @ ..] => (family, rest) = (numbers::INET, more),
            ["-6", more @ ..] => (family, rest) = (numbers::INET6, more),
            ["details", more @ ..] => (details, rest) = (true, more),
            [word, value, more @ ..] => {
                with.push(text::pair(word, value));
                rest = more;
            }
            [word] => {
                return Err(
                    head.wrong(format!("{word:?} needs a value: write `state routes dev v0`"))
                );
            }
        }
    }
    Ok(Selection { kind, family, all, details, with })
}

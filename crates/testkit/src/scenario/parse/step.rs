//! The steps, by their keywords.

use std::time::Duration;

use super::super::text;
use super::super::{Error, Selection, What, command};
use super::fault::fault_line;
use super::line::Line;
use super::{act, expected, kind, not_a_kind};
use crate::faults::At;

pub(super) fn step(head: Line<'_>, block: &[Line<'_>]) -> Result<What, Error> {
    let said = || {
        block
            .iter()
            .copied()
            .filter(|line| !line.is_blank() && !line.is_comment())
    };
    let mut words = head.text.split_whitespace();
    let keyword = words.next().unwrap_or_default();
    let rest: Vec<_> = words.collect();
    let bare = |what: What| match (rest.first(), said().next()) {
        (None, None) => Ok(what),
        (Some(_), _) => Err(head.wrong(format!("{keyword} stands alone on its line"))),
        (None, Some(line)) => Err(line.wrong(format!("{keyword} takes no lines"))),
    };
    let expectations = || said().map(expected).collect::<Result<Vec<_>, _>>();
    let pass = || {
        let is_fault = |line: &Line<'_>| line.text.trim_start().starts_with("fault ");
        let faults = said()
            .filter(is_fault)
            .map(fault_line)
            .collect::<Result<Vec<_>, _>>()?;
        let expected: Vec<_> = said()
            .filter(|line| !is_fault(line))
            .map(expected)
            .collect::<Result<_, _>>()?;
        Ok((faults, (!expected.is_empty()).then_some(expected)))
    };
    match keyword {
        "setup" | "stranger" | "send" => {
            let raw = keyword == "send";
            let acts: Vec<_> = said().map(|line| act(line, line.start(), raw)).collect::<Result<_, _>>()?;
            if acts.is_empty() {
                return Err(head.wrong(format!("{keyword} needs indented lines below it, such as `link set v0 up`")));
            }
            Ok(What::Act(acts))
        }
        "desired" => {
            let last = block.iter().rposition(|line| !line.is_blank()).map_or(0, |at| at + 1);
            let Some(written) = block.get(..last).filter(|block| !block.is_empty()) else {
                return Err(head.wrong("desired needs indented lines below it: a desired-state file in TOML"));
            };
            // With the lines above, so that errors are told with the line in this file.
            let mut text = "\n".repeat(head.number);
            for line in written {
                text.push_str(line.text);
                text.push('\n');
            }
            Ok(What::Desired(text))
        }
        "plan" => Ok(What::Plan(expectations()?)),
        "apply" => {
            let (faults, expected) = pass()?;
            match faults.iter().any(|fault| fault.at == At::Announcements) {
                true => Err(head.wrong("announcements go astray in `heard`")),
                false => Ok(What::Apply { faults, expected }),
            }
        }
        "mended" => match pass()? {
            (faults, None) => Ok(What::Mended(faults)),
            (_, Some(_)) => Err(head.wrong("mended takes faults alone: its last pass has to converge")),
        },
        "listen" => bare(What::Listen),
        "calm" => bare(What::Calm),
        "heard" => {
            let (faults, expected) = pass()?;
            Ok(What::Heard { faults, expected })
        }
        "again" => Ok(What::Again(expectations()?)),
        "restart" => bare(What::Restart),
        "forget" => bare(What::Forget),
        "reboot" => bare(What::Reboot),
        "recreate" => match (&rest[..], said().next()) {
            ([], None) => Ok(What::Recreate { told: true }),
            (["untold"], None) => Ok(What::Recreate { told: false }),
            _ => Err(head.wrong("write `recreate`, or `recreate untold` for agents that are to find out by themselves")),
        },
        "later" => {
            let seconds = rest.first().and_then(|time| time.strip_suffix('s')).and_then(|n| n.parse().ok());
            match (seconds, &rest[..], said().next()) {
                (Some(seconds), [_], None) => Ok(What::Later(Duration::from_secs(seconds))),
                _ => Err(head.wrong("write `later 11s`: so many seconds pass for the agents")),
            }
        }
        "agent" => match (&rest[..], said().next()) {
            ([name], None) => Ok(What::Agent((*name).to_owned())),
            _ => Err(head.wrong("write `agent NAME`: what follows is another agent's, until the next such line")),
        },
        "journal" => match (&rest[..], said().next()) {
            (["fails"], None) => Ok(What::JournalFails),
            _ => Err(head.wrong("write `journal fails`")),
        },
        "mask" => {
            let of = |word: &&str| kind(word).map(|(kind, _)| kind);
            let kinds: Option<Vec<_>> = rest.iter().map(of).collect();
            match (kinds.filter(|kinds| !kinds.is_empty()), said().next()) {
                (Some(kinds), None) => Ok(What::Mask(kinds)),
                _ => Err(head.wrong("write `mask address neighbour`, by the kinds of objects whose markers are not kept")),
            }
        }
        "settle" => bare(What::Settle),
        "silent" => bare(What::Events(Vec::new(), Vec::new())),
        "unchanged" => match rest[..] {
            [] => Ok(What::Unchanged(Vec::new())),
            ["except", ref devices @ ..] if !devices.is_empty() => {
                Ok(What::Unchanged(devices.iter().map(|name| (*name).to_owned()).collect()))
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
            Ok(What::Events(kinds, lines))
        }
        "state" => {
            let selection = selection(head, &rest)?;
            Ok(What::State(selection, said().map(|line| text::squeeze(line.text)).collect()))
        }
        _ => Err(head.wrong(format!(
            "{keyword:?} is no step: write setup, stranger, send, desired, plan, apply, again, listen, heard, mended, calm, agent, later, restart, \
             forget, reboot, recreate, mask, journal, settle, state, unchanged, events or silent"
        ))),
    }
}

/// `state [all] KIND [-4|-6] [details] [WORD VALUE]...`.
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
            ["-4", more @ ..] => (family, rest) = (command::INET, more),
            ["-6", more @ ..] => (family, rest) = (command::INET6, more),
            ["details", more @ ..] => (details, rest) = (true, more),
            [word, value, more @ ..] => {
                with.push(text::pair(word, value));
                rest = more;
            }
            [word] => {
                return Err(head.wrong(format!(
                    "{word:?} needs a value: write `state routes dev v0`"
                )));
            }
        }
    }
    Ok(Selection {
        kind,
        family,
        all,
        details,
        with,
    })
}

//! The `fault` lines of `apply`, `drain` and `converge`.

use super::super::{Error, FaultKind, FaultLine, errno};
use super::Line;
use super::{act, kind};
use trueup_testkit::faults::At;

/// Parses `fault WHEN: WHAT`.
pub(super) fn fault_line(line: Line<'_>) -> Result<FaultLine, Error> {
    let Some((when, what)) = line.text.split_once(": ") else {
        return Err(line.wrong("write `fault WHEN: WHAT`, such as `fault change 2: lose answer`"));
    };
    let start = when.len() + 2;
    let when: Vec<_> = when.split_whitespace().skip(1).collect();
    let nth = |number: &str| number.parse().ok().filter(|n| *n > 0);
    let at = match when[..] {
        ["every", "change"] => Some(At::EveryChange),
        ["change", n] => nth(n).map(At::Change),
        ["announcements"] => Some(At::Announcements),
        ["every", "dump", "of", of] => kind(of).map(|(kind, _)| At::EveryDump(kind)),
        ["dump", n, "of", of] => kind(of).and_then(|(kind, _)| Some(At::Dump(kind, nth(n)?))),
        _ => None,
    };
    let at = at.ok_or_else(|| {
        line.wrong("a fault happens at `change N`, `every change`, `dump N of KIND`, `every dump of KIND` or `announcements`")
    })?;
    let words: Vec<_> = what.split_whitespace().collect();
    let row = |n: &str| n.parse::<usize>().ok().filter(|n| *n > 0);
    let behind = |word: &str, raw: bool| {
        let from = start + what.find(word).unwrap_or(0) + word.len();
        let rest = line.text.get(from..).unwrap_or_default();
        let at = from + (rest.len() - rest.trim_start().len());
        act(line, at, raw)
    };
    if at == At::Announcements {
        let fault = match words[..] {
            ["overrun"] => Some(FaultKind::Overrun),
            ["lose"] => Some(FaultKind::Lose),
            ["repeat"] => Some(FaultKind::Repeat),
            ["reverse"] => Some(FaultKind::Reverse),
            ["invent", ..] => Some(FaultKind::Invent(behind("invent", true)?)),
            _ => None,
        };
        let kind = fault.ok_or_else(|| {
            line.error(
                start,
                "what goes wrong with announcements is one of: overrun, lose, repeat, reverse, invent MESSAGE",
            )
        })?;
        return Ok(FaultLine { at, kind });
    }
    let fault = match words[..] {
        ["writer", ..] => Some(FaultKind::Writer(behind("writer", false)?)),
        ["refuse", name] => errno::number(name).map(FaultKind::Refuse),
        ["break", "off", name] => errno::number(name).map(FaultKind::BreakOff),
        ["lose", "answer"] => Some(FaultKind::LoseAnswer),
        ["die", "before"] => Some(FaultKind::DieBefore),
        ["die", "after"] => Some(FaultKind::DieAfter),
        ["interrupt"] => Some(FaultKind::Interrupt),
        ["lose", "row", n] => row(n).map(FaultKind::LoseRow),
        ["repeat", "row", n] => row(n).map(FaultKind::RepeatRow),
        ["spoil", "row", n] => row(n).map(FaultKind::SpoilRow),
        ["unknown", "attribute"] => Some(FaultKind::UnknownAttribute),
        ["truncate"] => Some(FaultKind::Truncate),
        ["corrupt"] => Some(FaultKind::Corrupt),
        ["overrun"] => Some(FaultKind::Overrun),
        _ => None,
    };
    let kind = fault.ok_or_else(|| {
        line.error(
            start,
            "what goes wrong is one of: refuse ERRNO, lose answer, die before, die after, writer LINE, interrupt, \
             lose row N, repeat row N, spoil row N, unknown attribute, truncate, corrupt, overrun, break off ERRNO",
        )
    })?;
    Ok(FaultLine { at, kind })
}

//! The head of a scenario: its facts, faults and invariants, and its needs.

use super::super::{Error, INVARIANTS, Need, Scenario, Version};
use super::Line;

/// Parses a line of the head; returns false if it is not one.
pub(super) fn header(line: Line<'_>, scenario: &mut Scenario) -> Result<bool, Error> {
    let mut words = line.text.split_whitespace();
    let keyword = words.next().unwrap_or_default();
    let numbers = |most: usize, what: &str| -> Result<Vec<usize>, Error> {
        let all: Option<Vec<_>> = line
            .text
            .split_whitespace()
            .skip(1)
            .map(|word| word.parse().ok().filter(|n| (1..=most).contains(n)))
            .collect();
        all.filter(|all| !all.is_empty()).ok_or_else(|| {
            line.wrong(format!("{keyword} is followed by numbers of {what}, 1 to {most}"))
        })
    };
    match keyword {
        "fact" | "facts" => {
            let facts = numbers(999, "the kernel's facts")?;
            scenario.facts.extend(facts.into_iter().map(|n| n as u32));
        }
        "invariant" | "invariants" => {
            let invariants = numbers(INVARIANTS.len(), "invariants")?;
            scenario.invariants.extend(invariants.into_iter().map(|n| n as u8));
        }
        "faults" => {
            let known = |word: &str| {
                word.split_once('-').is_some_and(|(room, number)| {
                    matches!(room, "diff" | "source") && number.parse::<u8>().is_ok_and(|n| n > 0)
                })
            };
            for word in words {
                if !known(word) {
                    return Err(
                        line.wrong(format!("{word:?} is no fault: write diff-N or source-N"))
                    );
                }
                scenario.faults.push(word.to_owned());
            }
        }
        "needs" => {
            let rest = line.text.get("needs".len()..).unwrap_or_default().trim();
            if let Some(version) = version(rest) {
                scenario.needs.push(Need::Kernel(version));
                return Ok(true);
            }
            if let Some(name) = rest.strip_prefix("sysctl ") {
                scenario.needs.push(Need::Sysctl(name.trim().to_owned()));
                return Ok(true);
            }
            for word in words {
                let plain = word.chars().all(|c| c.is_ascii_alphanumeric());
                if !plain || word == "kernel" {
                    return Err(line.wrong(
                        "write `needs KIND`, a kind of link, `needs markers`, `needs sysctl NAME` or `needs kernel >= 6.12`",
                    ));
                }
                scenario.needs.push(match word {
                    "markers" => Need::Markers,
                    kind => Need::Link(kind.to_owned()),
                });
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Parses `kernel >= 6.12` or `kernel < 6.12`.
pub(super) fn version(text: &str) -> Option<Version> {
    let words: Vec<_> = text.split_whitespace().collect();
    let ["kernel", sign @ (">=" | "<"), number] = words[..] else {
        return None;
    };
    let (major, minor) = number.split_once('.')?;
    Some(Version { below: sign == "<", version: (major.parse().ok()?, minor.parse().ok()?) })
}

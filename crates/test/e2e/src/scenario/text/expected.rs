//! A scenario's expectations of a plan or a pass, line by line.

use std::fmt;

use super::{Phrase, squeeze};
use trueup_testkit::Kind;

/// Parses an op's command and adds the defaults: our marker, table main, a permanent neighbour.
pub(super) fn op(text: &str) -> Phrase {
    let phrase = Phrase::new(text);
    match text.trim_start_matches("-6 ").split(' ').next() {
        Some("route") => phrase.or("proto", "116").or("table", "main"),
        Some("neigh") => phrase.or("proto", "116").or("nud", "permanent"),
        Some("rule") => phrase.or("proto", "116"),
        _ => phrase,
    }
}

/// A line of `plan`, `apply`, `again` or `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Expected {
    /// One of [`VERDICTS`]; empty for an op of a plan.
    verdict: String,
    phrase: Phrase,
    /// The text after the colon, or in brackets.
    why: Option<String>,
    /// True if it ended in `...`, so the report's line may have more.
    open: bool,
}

/// The first words of lines other than ops.
const VERDICTS: [&str; 14] = [
    "applied",
    "failed",
    "pending",
    "conflict",
    "adopted",
    "overwritten",
    "notice",
    "incomplete",
    "trouble",
    "converged",
    "not",
    "error",
    "nothing",
    "lost",
];

/// The first words of status lines; `stored`: the kernel stores something else.
const CONDITIONS: [&str; 5] = ["failed", "pending", "conflict", "contended", "stored"];

impl Expected {
    /// Parses a line of `status`: a condition, the object, and after a colon its detail. The object
    /// may be given in part.
    pub(in crate::scenario) fn status(text: &str) -> Result<Expected, String> {
        let text = squeeze(text);
        let (condition, rest) = text.split_once(' ').unwrap_or((&text, ""));
        if !CONDITIONS.contains(&condition) {
            return Err(format!(
                "{condition:?} begins no status: write one of {}, and the object",
                CONDITIONS.join(", ")
            ));
        }
        Ok(Expected::of_object(condition, rest))
    }

    /// Parses `rest`: the object, and a detail after a colon.
    fn of_object(verdict: &str, rest: &str) -> Expected {
        let (said, why) = match rest.split_once(": ") {
            Some((said, why)) => (said, Some(why)),
            None => (rest, None),
        };
        let said = said.trim_end().trim_end_matches("...").trim_end();
        // Use the long words for kinds, although ops have short ones.
        let said = match said.split_once(' ') {
            Some(("addr", object)) => format!("address {object}"),
            Some(("neigh", object)) => format!("neighbour {object}"),
            _ => said.to_owned(),
        };
        Expected {
            verdict: verdict.to_owned(),
            phrase: Phrase::new(&said),
            why: why.map(str::to_owned),
            open: true,
        }
    }

    pub(in crate::scenario) fn parse(text: &str) -> Result<Expected, String> {
        let text = squeeze(text);
        let first = text.split(' ').next().unwrap_or_default();
        let verdict = if VERDICTS.contains(&first) {
            first
        } else if matches!(first, "route" | "addr" | "link" | "neigh" | "rule" | "-6") {
            ""
        } else {
            return Err(format!(
                "{first:?} begins no expectation: write an op such as `route add ...`, or one of {}",
                VERDICTS.join(", ")
            ));
        };
        let rest = text.get(verdict.len()..).unwrap_or_default().trim_start();
        Ok(match verdict {
            "notice" | "incomplete" | "trouble" | "converged" | "not" | "error" | "nothing"
            | "lost" => Expected {
                verdict: verdict.to_owned(),
                phrase: Phrase::default(),
                why: (!rest.is_empty()).then(|| rest.to_owned()),
                open: matches!(verdict, "notice" | "incomplete" | "trouble" | "error"),
            },
            "conflict" | "adopted" | "overwritten" => Expected::of_object(verdict, rest),
            _ => {
                let in_brackets = || rest.strip_suffix(')')?.split_once(" (");
                let split = match verdict {
                    "" => in_brackets(),
                    _ => rest.split_once(": "),
                };
                let (said, why) = split.map_or((rest, None), |(said, why)| (said, Some(why)));
                let said = said.trim_end();
                let open = said.ends_with("...");
                let said = said.trim_end_matches("...").trim_end();
                Expected {
                    verdict: verdict.to_owned(),
                    phrase: if open { Phrase::new(said) } else { op(said) },
                    why: why.map(str::to_owned),
                    open,
                }
            }
        })
    }

    /// Returns true for the outcome of an op.
    pub(in crate::scenario) fn is_outcome(&self) -> bool {
        matches!(self.verdict.as_str(), "applied" | "failed" | "pending")
    }

    pub(in crate::scenario) fn is_converged(&self) -> bool {
        self.verdict == "converged"
    }

    /// Removes the marker of an object of these kinds.
    #[must_use]
    pub(in crate::scenario) fn unmarked(mut self, kinds: &[Kind], marker: u8) -> Expected {
        if self.phrase.kind().is_some_and(|kind| kinds.contains(&kind)) {
            self.phrase = self.phrase.unmarked(marker);
        }
        self
    }

    /// Returns true if the report's line `got` satisfies this expectation.
    pub(in crate::scenario) fn admits(&self, got: &Expected) -> bool {
        let same =
            if self.open { got.phrase.says(&self.phrase) } else { got.phrase == self.phrase };
        let why = match (&self.why, &got.why) {
            (None, _) => true,
            (Some(why), Some(got)) if self.open => got.contains(why.as_str()),
            // Both are objects, with words in any order.
            (Some(why), Some(got)) => why == got || got.starts_with(why.as_str()),
            (Some(_), None) => false,
        };
        self.verdict == got.verdict && same && why
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verdict)?;
        if self.phrase != Phrase::default() {
            let space = if self.verdict.is_empty() { "" } else { " " };
            write!(f, "{space}{}", self.phrase)?;
        }
        match &self.why {
            Some(why) if self.phrase == Phrase::default() => write!(f, " {why}"),
            Some(why) if self.verdict.is_empty() => write!(f, " ({why})"),
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_admits_what_it_says() {
        let admits = |expected: &str, got: &str| {
            let [expected, got] = [expected, got].map(|text| Expected::parse(text).unwrap());
            expected.admits(&got)
        };
        assert!(admits(
            "applied route add default via 10.0.0.1",
            "applied route add default via 10.0.0.1 proto 116 table 254"
        ));
        assert!(!admits(
            "applied route add default via 10.0.0.1",
            "failed route add default via 10.0.0.1: EINVAL"
        ));
        assert!(!admits("applied route add default", "applied route add default via 10.0.0.1"));
        assert!(admits("applied route add default ...", "applied route add default via 10.0.0.1"));
        assert!(admits("failed route add default", "failed route add default: EINVAL"));
        assert!(!admits("failed route add default: ESRCH", "failed route add default: EINVAL"));
        assert!(admits(
            "conflict addr 10.0.0.1/24",
            "conflict address 10.0.0.1/24 dev v0: 10.0.0.1/24 dev v0 proto 4"
        ));
        assert!(!admits(
            "conflict addr 10.0.0.2/24",
            "conflict address 10.0.0.1/24 dev v0: 10.0.0.1/24 dev v0"
        ));
        assert!(admits(
            "overwritten route 10.2.0.0/16",
            "overwritten route 10.2.0.0/16 via 10.0.0.1 proto 12: to protocol 12"
        ));
        assert!(!admits("adopted route 10.2.0.0/16", "overwritten route 10.2.0.0/16"));
        let orphan = "applied route del default: orphan";
        assert!(admits(orphan, orphan) && !admits(orphan, "applied route del default"));
        assert!(admits(
            "route del default (orphan)",
            "route del default (orphan: ours, and not declared)"
        ));
        assert!(!admits("converged", "not converged"));
        assert!(admits("route add default (missing)", "route add default (missing)"));
    }

    #[test]
    fn a_status_names_a_part_of_its_object() {
        let admits = |expected: &str, got: &str| {
            let [expected, got] = [expected, got].map(|text| Expected::status(text).unwrap());
            expected.admits(&got)
        };
        let got = "failed route 10.2.0.0/16 via 10.1.0.9 proto 116 table 254: EBUSY";
        assert!(admits("failed route 10.2.0.0/16 via 10.1.0.9", got));
        assert!(admits("failed route 10.2.0.0/16 via 10.1.0.9: EBUSY", got));
        assert!(!admits("failed route 10.2.0.0/16: EINVAL", got));
        assert!(!admits("failed route 10.3.0.0/16", got));
        assert!(!admits("pending route 10.2.0.0/16", got));
        assert!(Expected::status("converged").is_err());
    }
}

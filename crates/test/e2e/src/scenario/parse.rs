//! Parses text into a [`Scenario`]. Pure: any text gives a scenario, or an error with its place and
//! a remedy.

mod fault;
mod head;
mod step;

use super::numbers;
use super::raw::RawRequest;
use super::text::Expected;
use super::writer::{Tool, WriterLine};
use super::{Error, Scenario, Step, errno};
use head::{header, version};
use step::step;
use trueup_testkit::Kind;

/// Parses a scenario.
///
/// # Errors
///
/// [`Error`] at the first place that is not understood.
pub(super) fn parse(text: &str) -> Result<Scenario, Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<_> =
        text.lines().enumerate().map(|(at, text)| Line { number: at + 1, text }).collect();
    let mut scenario = Scenario {
        title: String::new(),
        facts: Vec::new(),
        faults: Vec::new(),
        invariants: Vec::new(),
        needs: Vec::new(),
        steps: Vec::new(),
    };
    let first = Line { number: 1, text: "" };
    let comment = lines.iter().take_while(|line| line.is_comment());
    let words = comment.map(|line| line.text.trim_start_matches([' ', '\t', '#']).trim());
    scenario.title = words.collect::<Vec<_>>().join(" ").trim().to_owned();
    if scenario.title.is_empty() {
        return Err(first.wrong("begin with a comment, `# ...`, that says what the scenario shows"));
    }
    let mut only = None;
    let mut rest = lines.as_slice();
    while let Some((head, after)) = rest.split_first() {
        rest = after;
        if head.is_blank() || head.is_comment() {
            continue;
        }
        if head.is_indented() {
            return Err(head.wrong("an indented line belongs to a step: write the step's keyword above it, at the left"));
        }
        let end = rest
            .iter()
            .position(|line| !line.is_indented() && !line.is_blank() && !line.is_comment());
        let (block, after) = rest.split_at(end.unwrap_or(rest.len()));
        if header(*head, &mut scenario)? {
            continue;
        }
        if let Some(condition) = head.text.strip_prefix("if ") {
            only =
                Some(version(condition).ok_or_else(|| {
                    head.error(3, "write `if kernel >= 6.12` or `if kernel < 6.12`")
                })?);
            continue;
        }
        let kind = step(*head, block)?;
        scenario.steps.push(Step { line: head.number, only: only.take(), kind });
        rest = after;
    }
    if scenario.steps.is_empty() {
        return Err(first.wrong("a scenario needs steps, such as setup, desired, apply and state"));
    }
    Ok(scenario)
}

/// Parses `LINE`, or `LINE -> ERRNO`.
fn act(line: Line<'_>, start: usize, raw: bool) -> Result<WriterLine, Error> {
    let written = line.text.get(start..).unwrap_or_default().trim_end();
    let (text, errno) = match written.split_once(" -> ") {
        None => (written, None),
        Some((text, name)) => {
            let number = errno::number(name.trim()).ok_or_else(|| {
                line.error(
                    start + text.len() + 4,
                    "an error is written by its name, such as EEXIST",
                )
            })?;
            (text.trim_end(), Some(number))
        }
    };
    let tool = if raw {
        // A name's index is known only when the line runs.
        let read = RawRequest::parse(text, |_| Some(1));
        read.map_err(|(at, message)| line.error(start + at, message))?;
        Tool::Socket
    } else {
        Tool::of(text).ok_or_else(|| {
            line.error(
                start,
                "write a line of ip (link, addr, route, neigh, rule, nexthop), bridge, or sysctl NAME=VALUE",
            )
        })?
    };
    Ok(WriterLine { line: line.number, text: text.to_owned(), tool, errno })
}

fn expected(line: Line<'_>) -> Result<Expected, Error> {
    Expected::parse(line.text).map_err(|message| line.wrong(message))
}

fn status(line: Line<'_>) -> Result<Expected, Error> {
    Expected::status(line.text).map_err(|message| line.wrong(message))
}

fn kind(word: &str) -> Option<(Kind, u8)> {
    Some(match word {
        "routes" | "route" => (Kind::Route, 0),
        "addresses" | "address" => (Kind::Address, 0),
        "links" | "link" => (Kind::Link, 0),
        "neighbours" | "neighbour" => (Kind::Neighbour, 0),
        "rules" | "rule" => (Kind::Rule, 0),
        "nexthops" | "nexthop" => (Kind::Nexthop, 0),
        "fdb" => (Kind::Neighbour, numbers::BRIDGE),
        _ => return None,
    })
}

fn not_a_kind(word: &str) -> String {
    format!(
        "{word:?} is no kind: write routes, addresses, links, neighbours, rules, nexthops or fdb"
    )
}

/// A line with content, in a block or at its head.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// The line number, from 1.
    number: usize,
    /// The text as written, without trailing space.
    text: &'a str,
}

impl<'a> Line<'a> {
    fn is_indented(self) -> bool {
        self.text.starts_with([' ', '\t'])
    }

    fn is_blank(self) -> bool {
        self.text.trim().is_empty()
    }

    fn is_comment(self) -> bool {
        self.text.trim_start().starts_with('#')
    }

    /// Returns an error at a byte offset in the line.
    fn error(self, at: usize, message: impl Into<String>) -> Error {
        let before = self.text.get(..at).unwrap_or(self.text);
        Error { line: self.number, column: before.chars().count() + 1, message: message.into() }
    }

    /// Returns the byte offset of its first word.
    fn start(self) -> usize {
        self.text.len() - self.text.trim_start().len()
    }

    /// Returns an error at its first word.
    fn wrong(self, message: impl Into<String>) -> Error {
        self.error(self.start(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::StepKind;
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_head_and_steps_are_read() {
        let scenario = parse(
            "# One thing,\n# said in two lines.\nfacts 15 17\nfaults diff-2\ninvariant 1\nneeds vrf\nneeds markers\nneeds sysctl net.a.b\nneeds kernel >= 6.8\n\n\
             setup\n  link add v0 type veth peer name v1\n\n  # a comment\n  addr add 10.0.0.1/24 dev v0 -> EINVAL\n\
             if kernel < 6.12\nstate routes dev v0\napply\n  fault change 2: refuse EBUSY\n  converged\n",
        )
        .unwrap();
        assert_eq!(scenario.title, "One thing, said in two lines.");
        assert_eq!((&scenario.facts[..], &scenario.invariants[..]), (&[15, 17][..], &[1][..]));
        let needs: Vec<_> = scenario.needs.iter().map(ToString::to_string).collect();
        assert_eq!(needs, ["vrf", "markers", "sysctl net.a.b", "kernel >= 6.8"]);
        let [setup, state, apply] = &scenario.steps[..] else {
            panic!("{:?}", scenario.steps);
        };
        assert!(matches!(
            &setup.kind,
            StepKind::Write(acts) if acts[1].errno == Some(22) && acts[1].line == 15
        ));
        assert!(state.only.unwrap().admits((6, 1)) && !state.only.unwrap().admits((6, 12)));
        assert!(matches!(
            &apply.kind,
            StepKind::Apply { faults, expected: Some(_) } if faults.len() == 1
        ));
    }

    #[test]
    fn a_problem_is_reported_with_its_place_and_a_remedy() {
        for (text, place, remedy) in [
            ("", "1:1", "begin with a comment"),
            ("# t\n", "1:1", "needs steps"),
            ("# t\nfacts x\n", "2:1", "followed by numbers"),
            ("# t\ninvariant 10\n", "2:1", "1 to 9"),
            ("# t\nfaults diff2\n", "2:1", "write diff-N"),
            ("# t\n  link\n", "2:3", "keyword above it"),
            ("# t\nsetp\n", "2:1", "is no step"),
            ("# t\nsetup\n", "2:1", "indented lines below"),
            ("# t\nsetup\n  lnik add v0 type veth\n", "3:3", "write a line of ip"),
            ("# t\nsetup\n  route add 10.0.0.0/8 -> ENOPE\n", "3:27", "by its name"),
            ("# t\nsend\n  route add 10.0.0.0/8\n", "3:9", "is no verb"),
            ("# t\nstate doors\n", "2:1", "write routes"),
            ("# t\napply\n  done\n", "3:3", "begins no expectation"),
            ("# t\napply\n  fault sometimes: interrupt\n", "3:3", "change N"),
            ("# t\napply\n  fault every change: explode\n", "3:23", "lose answer"),
            ("# t\nif kernel 6.1\nsilent\n", "2:4", "kernel >= 6.12"),
            ("# t\nsilent\n  now\n", "3:3", "takes no lines"),
            ("# t\ndrain\n  fault announcements: explode\n", "3:24", "invent MESSAGE"),
            ("# t\napply\n  fault announcements: lose\n", "2:1", "in `drain`"),
            ("# t\nlisten now\n", "2:1", "stands alone"),
            ("# t\nrecreate now\n", "2:1", "recreate unnoticed"),
            ("# t\nreboot now\n", "2:1", "stands alone"),
            ("# t\nstatus of it\n", "2:1", "stands alone"),
            ("# t\nstatus\n  applied route\n", "3:3", "begins no status"),
            ("# t\nlater 11\n", "2:1", "later 11s"),
            ("# t\nagent\n", "2:1", "agent NAME"),
            ("# t\njournal\n", "2:1", "journal fails"),
            ("# t\nmask doors\n", "2:1", "mask address"),
        ] {
            let message = error(text);
            assert!(
                message.starts_with(&format!("{place}: ")) && message.contains(remedy),
                "{text:?}: {message}"
            );
        }
    }

    /// Parses a text, which must not panic. An error must have a location in the text, and a byte
    /// order mark must change nothing.
    fn try_parse(text: &str) {
        let parsed = parse(text);
        if let Err(error) = &parsed {
            let lines = text.lines().count().max(1);
            assert!((1..=lines).contains(&error.line), "{error}");
            let line = text.lines().nth(error.line - 1).unwrap_or_default();
            let columns = 1..=line.chars().count() + 1;
            assert!(columns.contains(&error.column), "{error}");
            assert!(!error.message.is_empty());
        }
        if !text.starts_with('\u{feff}') {
            assert_eq!(parse(&format!("\u{feff}{text}")), parsed);
        }
    }

    /// Tries every existing scenario, cut off, and with bytes, parts and lines exchanged.
    #[test]
    fn no_text_is_a_panic() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        let mut files = vec![std::path::PathBuf::from(directory)];
        let mut texts = Vec::new();
        while let Some(path) = files.pop() {
            if path.is_dir() {
                files.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|extension| extension == "scenario") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
        assert!(texts.len() > 20);
        texts.sort();
        let lines: Vec<_> = texts.iter().flat_map(|text| text.lines()).collect();
        for (at, text) in texts.iter().enumerate() {
            assert!(parse(text).is_ok(), "{text}");
            for cut in (0..text.len()).step_by(31).filter(|cut| text.is_char_boundary(*cut)) {
                try_parse(&text[..cut]);
                let odd =
                    ["\u{e9}", "\"", ":", "->", "-> ", "'", "=", "\t", "4294967296", "/", "\u{0}"]
                        [cut % 11];
                try_parse(&format!("{}{odd}{}", &text[..cut], &text[cut..]));
                let other = lines[(cut * 31 + at) % lines.len()];
                try_parse(&format!("{}\n{other}{}", &text[..cut], &text[cut..]));
                let part: String = text[cut..].chars().take(16).collect();
                let to = (0..=cut * 31 % text.len()).rev();
                let to = to.into_iter().find(|to| text.is_char_boundary(*to));
                let (before, after) = text.split_at(to.unwrap_or(0));
                try_parse(&format!("{before}{part}{after}"));
                let after = after.chars().skip(1).collect::<String>();
                try_parse(&format!("{before}{}{after}", char::from((cut % 128) as u8)));
            }
        }
    }
}

//! The results of the programs on a kernel, from the lines of the guest's init and the test
//! harness.

use serde::{Deserialize, Serialize};

use crate::programs::{Count, why};

/// Precedes the number of tests that a test program leaves out.
const NOT_APPLICABLE: &str = "not applicable here: ";
/// Precedes a test's finding on the kernel's features, as `support: QUESTION = ANSWER`.
const SUPPORT: &str = "support: ";

/// The results on one kernel.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Ran {
    /// The release, as `uname -r` printed it.
    pub(super) release: String,
    pub(super) programs: Vec<Outcome>,
    /// Questions to the kernel, and its answers.
    pub(super) support: Vec<(String, String)>,
    /// Failures outside a test.
    #[serde(skip)]
    broken: Vec<String>,
    #[serde(skip)]
    done: bool,
}

/// The results of one program.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Outcome {
    pub(super) name: String,
    #[serde(flatten)]
    pub(super) count: Count,
    pub(super) not_applicable: u64,
    /// The exit code; `None` until it ended.
    #[serde(skip)]
    code: Option<String>,
    /// True if its summary was seen.
    #[serde(skip)]
    summed: bool,
    #[serde(skip)]
    lines: Vec<String>,
}

impl Ran {
    /// Handles a line, and returns the text to show at once, if any.
    pub(super) fn take(&mut self, line: &str) -> Option<String> {
        if let Some(words) = line.strip_prefix("@vm ") {
            return self.event(words);
        }
        if let Some((question, answer)) =
            line.strip_prefix(SUPPORT).and_then(|rest| rest.split_once(" = "))
        {
            self.support.push((question.to_owned(), answer.to_owned()));
        }
        let program = self.programs.last_mut().filter(|program| program.code.is_none())?;
        program.lines.push(line.to_owned());
        if let Some(rest) = line.strip_prefix(NOT_APPLICABLE) {
            let number = rest.split(' ').next().and_then(|word| word.parse().ok());
            program.not_applicable += number.unwrap_or(0);
            return Some(format!("{}: {line}", program.name));
        }
        let is_summary = program.count.add(line);
        program.summed |= is_summary;
        is_summary.then(|| format!("{}: {line}", program.name))
    }

    /// Handles a line by the guest's init about itself.
    fn event(&mut self, words: &str) -> Option<String> {
        match words.split_once(' ').unwrap_or((words, "")) {
            ("kernel", release) => self.release = release.to_owned(),
            ("start", name) => {
                self.programs.push(Outcome { name: name.to_owned(), ..Outcome::default() })
            }
            ("end", rest) => {
                let code = rest.rsplit(' ').next().unwrap_or_default();
                let program = self.programs.last_mut()?;
                program.code = Some(code.to_owned());
                if code != "0" {
                    // The harness repeats failures at its end.
                    let failures = program.lines.iter().position(|line| line == "failures:");
                    return Some(program.lines[failures.unwrap_or(0)..].join("\n"));
                }
            }
            ("done", _) => self.done = true,
            _ => self.broken.push(words.to_owned()),
        }
        None
    }

    /// Records a failure outside a test.
    pub(super) fn broken(&mut self, what: &str) {
        self.broken.push(what.to_owned());
    }

    /// Returns true if the guest reached its end.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Describes the current place: the program, and its last line.
    pub(super) fn place(&self) -> String {
        match self.programs.last() {
            None => "before the first program".to_owned(),
            Some(program) => {
                let last = program.lines.last().map_or("nothing", String::as_str);
                format!("in {}, which last said: {last}", program.name)
            }
        }
    }

    /// Returns all failures: of tests, of programs and of the machine.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let programs = self.programs.iter().filter_map(|program| {
            let Outcome { name, count: Count { failed, skipped, .. }, .. } = program;
            match program.code.as_deref() {
                None => Some(format!("{name} did not end")),
                Some("0") if !program.summed => Some(format!("{name} printed no result")),
                Some("0") if *skipped == 0 => None,
                Some("0") => Some(format!("{name}: {skipped} tests ignored")),
                Some(code) => {
                    let why = why(&program.lines.join("\n"));
                    Some(format!("{name}: {failed} tests failed (exit code {code}){why}"))
                }
            }
        });
        let cut = (!self.done).then(|| "the machine did not come to its end".to_owned());
        programs.chain(self.broken.iter().cloned()).chain(cut)
    }

    /// Returns the counts, in the form of a run's last line.
    pub(super) fn summary(&self) -> String {
        let (mut passed, mut failed, mut skipped, mut not_applicable) = (0, 0, 0, 0);
        for program in &self.programs {
            passed += program.count.passed;
            failed += program.count.failed;
            skipped += program.count.skipped;
            not_applicable += program.not_applicable;
        }
        format!(
            "{passed} passed, {failed} failed, {skipped} skipped; {not_applicable} not applicable"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Ran {
        let mut ran = Ran::default();
        for line in text.lines() {
            ran.take(line);
        }
        ran
    }

    const GOOD: &str = "\
@vm kernel 6.1.0
@vm start rtnl/kernel
not applicable here: 2 tests, as this kernel lacks vrf
support: a marker on addresses = kept
test a ... ok
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
@vm end rtnl/kernel 0
@vm done";

    #[test]
    fn a_whole_run_has_no_failures() {
        let ran = ran(GOOD);
        assert_eq!(ran.failures().count(), 0);
        assert_eq!(ran.summary(), "3 passed, 0 failed, 0 skipped; 2 not applicable");
        let text = serde_json::to_string(&ran).unwrap();
        let again: Ran = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        assert_eq!(again.support, [("a marker on addresses".to_owned(), "kept".to_owned())]);
    }

    #[test]
    fn what_ends_early_fails_or_says_nothing_is_reported() {
        for (good, bad) in [
            ("@vm done", ""),
            ("kernel 0", "kernel 101"),
            ("@vm end rtnl/kernel 0", ""),
            ("test result: ok. 3 passed", "nothing"),
            ("0 ignored", "1 ignored"),
            ("@vm start", "@vm broken insmod x\n@vm start"),
        ] {
            assert!(GOOD.contains(good));
            assert_eq!(ran(&GOOD.replace(good, bad)).failures().count(), 1, "{bad}");
        }
    }

    #[test]
    fn the_place_names_the_program_and_its_last_words() {
        assert_eq!(ran("").place(), "before the first program");
        let place = ran("@vm start a/b\ntest slow ...").place();
        assert_eq!(place, "in a/b, which last said: test slow ...");
    }
}

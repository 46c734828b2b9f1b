//! The agent's output, as a host's journal would have it: both streams in one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::thread;

use trueup_testkit::wait_until;

/// One process's lines.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Stream, String)>>>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stream {
    Out,
    Err,
}

/// The operator's acts in a burst, which lines may answer.
#[derive(Default)]
pub(crate) struct Answered {
    /// Acts of any kind.
    pub(crate) acts: usize,
    /// Edits of the file, and signals to reload it.
    pub(crate) reads: usize,
    /// Removals of the state directory.
    pub(crate) removals: usize,
}

impl Log {
    /// Reads a stream's lines on a thread, until it ends.
    pub(crate) fn follow(&self, stream: Stream, from: impl Read + Send + 'static) {
        let log = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(from).split(b'\n') {
                let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
                log.0.lock().unwrap().push((stream, line));
            }
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns the last line of a stream that `is_wanted` accepts.
    pub(crate) fn last(&self, stream: Stream, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
        let lines = self.0.lock().unwrap();
        let mut found = lines.iter().rev();
        let found = found.find(|(from, line)| *from == stream && is_wanted(line));
        found.map(|(_, line)| line.clone())
    }

    /// Returns the last lines, for a failure message.
    pub(crate) fn tail(&self, count: usize) -> String {
        let lines = self.0.lock().unwrap();
        let from = lines.len().saturating_sub(count);
        let lines = lines[from..].iter().map(|(stream, line)| format!("  {stream:?} {line}\n"));
        lines.collect()
    }

    /// Returns a line, from `begin` on, that was repeated although no act explains it.
    pub(crate) fn repeated(&self, begin: usize, answered: &Answered) -> Option<String> {
        let lines = self.0.lock().unwrap();
        let lines = &lines[begin..];
        for run in lines.chunk_by(|one, next| one == next) {
            let most = 1 + answered.may_repeat(&run[0].1);
            if run.len() > most {
                return Some(format!("{} times in a row: {}", run.len(), run[0].1));
            }
        }
        let mut counts = BTreeMap::<&str, usize>::new();
        for (_, line) in lines {
            *counts.entry(line).or_default() += 1;
        }
        let most = 6 + 3 * answered.acts;
        let often = counts.into_iter().find(|(_, count)| *count > most);
        often.map(|(line, count)| format!("{count} times in one burst: {line}"))
    }
}

impl Answered {
    /// Returns how many more times a line may come now.
    fn may_repeat(&self, line: &str) -> usize {
        let is_change = ["+ ", "~ ", "- ", "* "].iter().any(|sign| line.starts_with(sign));
        if is_change {
            // Each line is a change that was made.
            self.acts
        } else if line.contains("in force") {
            self.reads
        } else if line.contains("was removed, and was made anew") {
            self.removals
        } else {
            0
        }
    }
}

pub(crate) fn a_line_that_is_repeated_is_found() {
    let answered = Answered { acts: 1, reads: 0, removals: 1 };
    let repeated = |text: &'static str| {
        let log = Log::default();
        log.follow(Stream::Err, text.as_bytes());
        wait_until("all is read", || log.len() == text.lines().count());
        log.repeated(0, &answered)
    };
    for text in [
        "a\nb\na\n",
        "~ file:/a\n~ file:/a\n",
        "it was removed, and was made anew\nit was removed, and was made anew\n",
    ] {
        assert_eq!(repeated(text), None, "{text}");
    }
    for text in [
        "no space\nno space\n",
        "~ file:/a\n~ file:/a\n~ file:/a\n",
        "the new file is in force\nthe new file is in force\n",
        "a\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\na\nb\n",
    ] {
        assert!(repeated(text).is_some(), "{text}");
    }
}

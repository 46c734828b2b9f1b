//! The reason that a step failed: the difference, line by line.

use std::fmt::Write as _;

use super::super::writer::Trouble;

/// Why a step ended.
pub(super) enum Stop {
    Trouble(Trouble),
    Differs(String),
}

impl Stop {
    pub(super) fn with(self, front: &str) -> Stop {
        match self {
            Stop::Differs(message) => Stop::Differs(format!("{front}{message}")),
            other => other,
        }
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Stop {
        Stop::Trouble(trouble)
    }
}

pub(super) fn same(what: &str, wanted: &[String], got: &[String]) -> Result<(), Stop> {
    if wanted == got {
        return Ok(());
    }
    Err(Stop::Differs(format!("{what} differ: - expected, + got\n{}", diff(wanted, got))))
}

/// A diff by the longest common part. Lists are short.
fn diff(old: &[String], new: &[String]) -> String {
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            common[i][j] = if a == b {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = String::new();
    while i < old.len() || j < new.len() {
        let (mark, line);
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (mark, line) = (' ', &old[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            (mark, line) = ('-', &old[i]);
            i += 1;
        } else {
            (mark, line) = ('+', &new[j]);
            j += 1;
        }
        let _infallible = writeln!(out, "  {mark} {line}");
    }
    out
}

//! The steps of a command: all run, so that one call shows all that is wrong, each with the time
//! that it took. Some run beside others.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::tools::Result;

/// What came of the steps so far.
#[derive(Default)]
pub(crate) struct Steps(Mutex<Vec<Step>>);

/// A step that has ended.
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) seconds: u64,
    /// What it has to say for itself, or what went wrong.
    pub(crate) result: Result<String>,
}

impl Steps {
    /// Runs a step, whatever became of those before it. Returns what it gives.
    pub(crate) fn run<T: Summary>(
        &self,
        name: &str,
        step: impl FnOnce() -> Result<T>,
    ) -> Option<T> {
        let begun = Instant::now();
        let result = step();
        let step = Step {
            name: name.to_owned(),
            seconds: begun.elapsed().as_secs(),
            result: result.as_ref().map(Summary::summary).map_err(String::clone),
        };
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push(step);
        result.ok()
    }

    /// Prints the times.
    ///
    /// # Errors
    ///
    /// Those of all steps.
    pub(crate) fn end(self) -> Result<()> {
        let steps = self.into_inner();
        let mut errors = Vec::new();
        for Step { name, seconds, result } in steps {
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("{seconds:>6} s  {name}: {verdict}");
            errors.extend(result.err().map(|error| format!("{name}: {error}")));
        }
        match errors.is_empty() {
            true => Ok(()),
            false => Err(errors.join("\nxtask: ")),
        }
    }

    fn into_inner(self) -> Vec<Step> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a step can give.
pub(crate) trait Summary {
    /// One line about it.
    fn summary(&self) -> String {
        String::new()
    }
}

impl Summary for () {}

impl Summary for String {
    fn summary(&self) -> String {
        self.clone()
    }
}

impl<T> Summary for Vec<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_stops_none_and_every_error_is_kept() {
        let mut ran = 0;
        let steps = Steps::default();
        for name in ["first", "second"] {
            let given = steps.run(name, || {
                ran += 1;
                Err::<(), _>("wrong".to_owned())
            });
            assert!(given.is_none());
        }
        assert_eq!(steps.end().unwrap_err(), "first: wrong\nxtask: second: wrong");
        assert_eq!(ran, 2);
        Steps::default().end().unwrap();
    }
}

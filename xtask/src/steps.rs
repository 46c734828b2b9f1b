//! The steps of a command. All of them run, so one call shows all failures, each with its time.
//! Some run beside others.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::tools::{Result, joined};

/// Name, seconds and error of each step so far.
#[derive(Default)]
pub(crate) struct Steps(Mutex<Vec<(String, u64, Option<String>)>>);

impl Steps {
    /// Runs a step, even if an earlier one failed. Returns its value, or `None` if it fails.
    pub(crate) fn run<T>(&self, name: &str, step: impl FnOnce() -> Result<T>) -> Option<T> {
        let begun = Instant::now();
        let result = step();
        self.add(name, begun.elapsed().as_secs(), result.as_ref().err().cloned());
        result.ok()
    }

    /// Adds a step that could not begin.
    pub(crate) fn fail(&self, name: &str, error: String) {
        self.add(name, 0, Some(error));
    }

    fn add(&self, name: &str, seconds: u64, error: Option<String>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((name.to_owned(), seconds, error));
    }

    /// Prints the times, and returns the errors of all steps.
    pub(crate) fn end(self) -> Result<()> {
        let mut errors = Vec::new();
        for (name, seconds, error) in self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            println!("{seconds:>6} s  {name}: {}", if error.is_none() { "ok" } else { "FAILED" });
            errors.extend(error.map(|error| format!("{name}: {error}")));
        }
        joined(&errors)
    }
}

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
        steps.fail("third", "left".to_owned());
        let errors = "first: wrong\nxtask: second: wrong\nxtask: third: left";
        assert_eq!(steps.end().unwrap_err(), errors);
        assert_eq!(ran, 2);
        Steps::default().end().unwrap();
    }
}

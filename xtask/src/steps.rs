//! The steps of a command: all run, so that one call shows all that is wrong, each with the time
//! that it took.

use std::time::Instant;

use crate::tools::Result;

/// What came of the steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    lines: Vec<String>,
    errors: Vec<String>,
}

impl Steps {
    /// Runs a step, whatever became of those before it.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) {
        let begun = Instant::now();
        let result = step();
        let verdict = if result.is_ok() { "ok" } else { "FAILED" };
        let seconds = begun.elapsed().as_secs();
        self.lines
            .push(format!("{seconds:>6} s  {name}: {verdict}"));
        self.errors
            .extend(result.err().map(|error| format!("{name}: {error}")));
    }

    /// Prints the times.
    ///
    /// # Errors
    ///
    /// Those of all steps.
    pub(crate) fn end(self) -> Result<()> {
        for line in self.lines {
            println!("{line}");
        }
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(self.errors.join("\nxtask: ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_stops_none_and_every_error_is_kept() {
        let mut ran = 0;
        let mut steps = Steps::default();
        for name in ["first", "second"] {
            steps.run(name, || {
                ran += 1;
                Err("wrong".to_owned())
            });
        }
        assert_eq!(
            steps.end().unwrap_err(),
            "first: wrong\nxtask: second: wrong"
        );
        assert_eq!(ran, 2);
        Steps::default().end().unwrap();
    }
}

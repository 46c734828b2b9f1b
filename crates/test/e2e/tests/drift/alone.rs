//! A separate process for a test that counts resources of the process: memory, descriptors,
//! threads.

use std::env;
use std::process::{Command, ExitCode};

/// Names the task of such a process.
const ALONE: &str = "TRUEUP_DRIFT_ALONE";

/// Runs the task if this is such a process; otherwise returns `None`.
pub(crate) fn main(works: &[(&str, fn())]) -> Option<ExitCode> {
    let asked = env::var(ALONE).ok()?;
    let work = works.iter().find(|(name, _)| *name == asked);
    work.expect("one of those that there are").1();
    Some(ExitCode::SUCCESS)
}

/// Runs a task in a separate process, in the calling thread's namespace. A panic there is a panic
/// here.
#[track_caller]
pub(crate) fn run(work: &str) {
    let output = Command::new(env::current_exe().unwrap()).env(ALONE, work).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{message}", output.status);
    eprint!("{message}");
}

//! A process of its own for a test that counts what belongs to the process: memory, descriptors,
//! threads.

use std::env;
use std::process::{Command, ExitCode};

/// Set for such a process: what it is to do.
const ALONE: &str = "TRUEUP_DRIFT_ALONE";

/// In such a process: does it.
pub(crate) fn main(works: &[(&str, fn())]) -> Option<ExitCode> {
    let asked = env::var(ALONE).ok()?;
    let work = works.iter().find(|(name, _)| *name == asked);
    work.expect("one of those that there are").1();
    Some(ExitCode::SUCCESS)
}

/// Does a piece of work in a process of its own, in the namespace of the calling thread. Its panic
/// is one here.
#[track_caller]
pub(crate) fn run(work: &str) {
    let output = Command::new(env::current_exe().unwrap()).env(ALONE, work).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{message}", output.status);
    eprint!("{message}");
}

//! The crash matrix. A process makes a namespace agree with a file, and is killed before or after
//! each message that it sends and each write to its journal: another process for each point. Then a
//! new process takes over, with the same file, another one, and an emptied one. It must always
//! complete the file's state, leave nothing behind, and touch nothing that was there before.
//!
//! Two processes that pass all points must list the same ones. Then one process dies at each, or at
//! a sample of each class of points (`trueup_testkit::crash::select`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod agent;
mod file;
mod host;
mod matrix;
mod program;
mod storage;
mod trace;

use std::env;
use std::process::ExitCode;

use agent::{Proof, Will};

fn a_kill_at_any_point_is_made_good_by_markers() {
    matrix::killed_at_every_point(Proof::Markers);
}

fn a_kill_at_any_point_is_made_good_by_the_ledger() {
    matrix::killed_at_every_point(Proof::Ledger);
}

fn a_kill_at_any_point_is_made_good_without_markers() {
    matrix::killed_at_every_point(Proof::Masked);
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().collect();
    if let Some(will) = Will::describe(&words) {
        return agent::live(&will);
    }
    trueup_testkit::main(&[
        (
            "a_kill_at_any_point_is_made_good_by_markers",
            a_kill_at_any_point_is_made_good_by_markers,
        ),
        (
            "a_kill_at_any_point_is_made_good_by_the_ledger",
            a_kill_at_any_point_is_made_good_by_the_ledger,
        ),
        (
            "a_kill_at_any_point_is_made_good_without_markers",
            a_kill_at_any_point_is_made_good_without_markers,
        ),
        (
            "an_agent_killed_in_its_first_pass_is_made_good",
            program::an_agent_killed_in_its_first_pass_is_made_good,
        ),
        (
            "an_agent_killed_at_a_changed_file_is_made_good",
            program::an_agent_killed_at_a_changed_file_is_made_good,
        ),
    ])
}

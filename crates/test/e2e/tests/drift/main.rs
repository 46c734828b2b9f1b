//! A loop over the source on the running kernel, while other writers act: its view, its repairs,
//! its reports.
//!
//! The tests check states, outcomes and counts, not only times; a time is the limit of a wait. With
//! `TRUEUP_LONG=1` each test runs at its full length; without it, all together take less than a
//! minute.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod agent;
mod alone;
mod fight;
mod hints;
mod layer;
mod lossy;
mod namespaces;
mod other_writer;
mod still;
mod storm;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(code) = alone::main(&[("burst", storm::burst), ("namespaces", namespaces::run)]) {
        return code;
    }
    trueup_testkit::main(&[
        (
            "storm::a_burst_is_one_overrun_and_is_mended",
            storm::a_burst_is_one_overrun_and_is_mended,
        ),
        (
            "storm::a_permanent_writer_neither_starves_nor_spins_us",
            storm::a_permanent_writer_neither_starves_nor_spins_us,
        ),
        (
            "fight::a_writer_that_deletes_without_end_is_reported_and_answered_with_delays",
            fight::a_writer_that_deletes_without_end_is_reported_and_answered_with_delays,
        ),
        (
            "hints::however_hints_come_the_end_is_the_same",
            hints::however_hints_come_the_end_is_the_same,
        ),
        (
            "lossy::dumps_that_lose_rows_cause_no_op_and_no_false_word",
            lossy::dumps_that_lose_rows_cause_no_op_and_no_false_word,
        ),
        (
            "namespaces::what_is_of_one_never_lands_in_its_successor",
            namespaces::what_is_of_one_never_lands_in_its_successor,
        ),
        ("still::a_busy_namespace_costs_no_message", still::a_busy_namespace_costs_no_message),
    ])
}

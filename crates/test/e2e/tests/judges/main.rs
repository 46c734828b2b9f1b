//! The property, with the kernel as the judge. Random desired states of every kind of object are
//! applied one after another, while another writer acts at random. After each pass an oracle
//! compares the kernel's raw rows with the desired ones. It shares no code with the codecs and the
//! model.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod case;
mod collateral;
mod generated;
mod moves;

use std::cell::Cell;

use trueup_e2e::cases::spec;
use trueup_e2e::property;

thread_local! {
    static WATCH: Cell<u32> = const { Cell::new(0) };
}

trueup_testkit::kernel_tests![
    valid_states_converge_in_one_pass,
    writers_are_left_alone,
    collateral::nothing_of_another_writer_goes_unnamed,
    generated::no_declaration_is_written_by_a_second_pass,
    moves::whatever_moves_it_is_as_declared_in_the_end,
];

/// Returns true if this case listens to announcements: that takes a tenth of a second, so only some
/// cases do.
fn watches() -> bool {
    WATCH.set(WATCH.get().wrapping_add(1));
    WATCH.get().is_multiple_of(16)
}

/// Valid states, with other writers that do not interfere, always converge in one pass.
fn valid_states_converge_in_one_pass() {
    judge(true);
}

/// Whatever is desired and whatever other writers do: a pass that reports converged is right, and
/// foreign objects stay.
fn writers_are_left_alone() {
    judge(false);
}

fn judge(clean: bool) {
    property::run("judge", 100, || spec::case(clean), case::run);
}

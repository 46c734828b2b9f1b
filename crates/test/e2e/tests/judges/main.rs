//! The property with the kernel as judge: random desired states of every kind of object, applied
//! one after another over what random other writers do. After each pass the raw rows of the kernel
//! are held against what was authored, by an oracle that shares nothing with the codecs and the
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

/// Returns true if this time the multicast stream is listened to: that takes a tenth of a second,
/// so it is not each time.
fn watches() -> bool {
    WATCH.set(WATCH.get().wrapping_add(1));
    WATCH.get().is_multiple_of(16)
}

/// Valid states among other writers who keep their distance converge in one pass, always.
fn valid_states_converge_in_one_pass() {
    judge(true);
}

/// Whatever is desired and whatever other writers do: converged is true, and what is not ours
/// stays.
fn writers_are_left_alone() {
    judge(false);
}

fn judge(clean: bool) {
    property::run("judge", 100, || spec::case(clean), case::run);
}

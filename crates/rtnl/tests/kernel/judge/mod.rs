//! The property with the kernel as judge: random desired states of every kind of object, applied
//! one after another over what random other writers do. After each pass the raw rows of the kernel
//! are held against what was authored, by an oracle that shares nothing with the codecs and the
//! model.

mod author;
mod case;
mod expect;
mod links;
mod objects;
mod other_writer;
mod route;
pub(crate) mod row;
mod spec;

use std::cell::Cell;

use crate::property;

thread_local! {
    static WATCH: Cell<u32> = const { Cell::new(0) };
}

/// Returns true if this time the multicast stream is listened to: that takes a tenth of a second,
/// so it is not each time.
pub(crate) fn watches() -> bool {
    WATCH.set(WATCH.get().wrapping_add(1));
    WATCH.get().is_multiple_of(16)
}

/// Valid states among other writers who keep their distance converge in one pass, always.
pub(crate) fn valid_states_converge_in_one_pass() {
    judge(true);
}

/// Whatever is desired and whatever other writers do: converged is true, and what is not ours
/// stays.
pub(crate) fn writers_are_left_alone() {
    judge(false);
}

fn judge(clean: bool) {
    property::run("judge", 100, spec::case(clean), case::run);
}

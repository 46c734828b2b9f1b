//! The loop on real threads, with sources whose every pass the test controls. No test sleeps to be
//! correct.

mod controls;
mod held;
mod passes;

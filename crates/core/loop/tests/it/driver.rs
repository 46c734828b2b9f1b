//! The loop on real threads, with sources whose every pass the test holds in its hand: no test
//! sleeps to be right.

mod controls;
mod held;
mod passes;

//! The tests of the control core.

#[cfg(feature = "signed")]
mod approval;
mod check;
mod crash;
mod driven;
mod engine;
mod file;
mod gate;
mod jobs;
mod known_faults;
mod plan;
mod steps;
mod world;

//! The parts of the `trueup` command that tests and other programs can reach: the file that says
//! what the network is to be. What the command does with it is in the binary.
#![forbid(unsafe_code)]

pub mod file;

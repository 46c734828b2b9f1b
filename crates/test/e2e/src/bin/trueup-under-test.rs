//! `trueup`, built with the tests that run it: cargo tells the path of a program only to tests of
//! its own package.

use std::process::ExitCode;

fn main() -> ExitCode {
    trueup_cli::main()
}

//! `trueup`, built with the tests that run it: cargo gives the path of a program only to tests in
//! the same package.

use std::process::ExitCode;

fn main() -> ExitCode {
    trueup_cli::main()
}

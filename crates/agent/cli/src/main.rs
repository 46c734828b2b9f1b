//! The program; the library of this package has its code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    trueup_cli::main()
}

//! Every scenario, on the fake kernel and on the running one. `TRUEUP_SCENARIOS` names another
//! directory of them.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    let directory = std::env::var_os("TRUEUP_SCENARIOS").map_or_else(|| own.into(), PathBuf::from);
    let results = concat!(env!("CARGO_TARGET_TMPDIR"), "/scenarios.jsonl");
    trueup_e2e::scenario::main(&directory, results.as_ref())
}

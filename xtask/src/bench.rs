//! `cargo xtask bench`: builds the benchmarks, and the programs that they are compared with, in
//! release mode, and runs the benchmarks (`benches/src/compare.rs`), which make the programs take
//! turns. It passes its options on. Some works are separate commands, which measure more than one
//! figure.

use std::fs;
use std::process::Command;

use crate::programs::{Program, executables, find};
use crate::tools::{Result, at, cargo, need_ip, root, show_and_run};

/// The packages of the benchmarks, and of the command that they measure.
const BENCHES: [&str; 4] = ["--package", "trueup-benches", "--package", "trueup-cli"];
const PROGRAMS: [&str; 8] =
    ["--bin", "bench", "--bin", "works", "--bin", "container", "--bin", "trueup"];
/// Works that are separate commands, each with the option for the path of the program it needs.
const COMMANDS: [(&str, Option<(&str, &str)>); 3] = [
    ("daemon", Some(("--trueup", "cli/trueup"))),
    ("containers", Some(("--agent", "benches/container"))),
    ("kinds", None),
];
/// A separate workspace: nothing else needs its dependencies.
const PEERS: [&str; 2] = ["--manifest-path", "benches/peers/Cargo.toml"];

/// Builds the programs, and runs the benchmark.
pub(crate) fn run(options: &[String]) -> Result<()> {
    need_ip()?;
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let built = build(&[&BENCHES[..], &PROGRAMS].concat())?;
    let mut bench = Command::new(find(&built, "benches/bench")?);
    if let Some(((command, needs), options)) = command_of_its_own(&options)? {
        bench.arg(command);
        match needs {
            Some((option, program)) => bench.arg(option).arg(find(&built, program)?),
            None => bench.arg("--docs").arg(root().join("docs")),
        };
        return show_and_run(bench.args(options));
    }
    bench.arg("compare");
    if !options.contains(&"--alone") {
        for peer in build(&PEERS)? {
            bench.arg("--command").arg(peer.path);
        }
    }
    // Earlier runs' figures, which `--write` writes as well.
    let target = root().join("target");
    at(&target, fs::create_dir_all(&target))?;
    bench.arg("--record").arg(target.join("bench.json"));
    show_and_run(bench.arg("--docs").arg(root().join("docs")).args(options))
}

/// A work that is a separate command, and the options for it.
type OfItsOwn<'a> = ((&'static str, Option<(&'static str, &'static str)>), Vec<&'a str>);

/// Returns the separate command named in the options; `None` if there is none.
fn command_of_its_own<'a>(options: &[&'a str]) -> Result<Option<OfItsOwn<'a>>> {
    for command in COMMANDS {
        let named = ["--work", command.0];
        if let Some(at) = options.windows(2).position(|pair| pair == named) {
            let options = [&options[..at], &options[at + 2..]].concat();
            if options.contains(&"--work") {
                return Err(format!("--work {} is measured alone", command.0));
            }
            return Ok(Some((command, options)));
        }
    }
    Ok(None)
}

/// Builds in release mode, and returns the programs.
fn build(what: &[&str]) -> Result<Vec<Program>> {
    executables(cargo(&["build", "--release"]).args(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_that_is_a_command_of_its_own_is_alone() {
        assert_eq!(command_of_its_own(&["--work", "route-noop", "--quick"]), Ok(None));
        assert_eq!(
            command_of_its_own(&["--quick", "--work", "daemon", "--seconds", "1"]),
            Ok(Some((COMMANDS[0], vec!["--quick", "--seconds", "1"])))
        );
        assert!(command_of_its_own(&["--work", "containers", "--work", "route-noop"]).is_err());
    }
}

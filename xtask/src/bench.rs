//! `cargo xtask bench`: builds the benchmarks' programs, and the peers that they are compared with,
//! in release mode, and has the benchmark itself (`benches/src/bin/bench.rs`) run them in turn. Its
//! options are passed on. Some works are programs of their own, which measure more than one figure.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::tools::{Result, cargo, line, need_ip, root, show_and_run};

const BENCHES: [&str; 6] = ["--package", "trueup-benches", "--bin", "bench", "--bin", "works"];
/// Works that are programs of their own.
const PROGRAMS: [Program; 2] = [
    Program {
        name: "daemon",
        built_with: &["--package", "trueup-cli", "--bin", "trueup"],
        option: ("--trueup", "trueup"),
    },
    Program {
        name: "containers",
        built_with: &["--bin", "container"],
        option: ("--agent", "container"),
    },
];
/// A workspace of its own: nothing else needs what is in it.
const PEERS: [&str; 2] = ["--manifest-path", "benches/peers/Cargo.toml"];
/// The figures of earlier runs, which `--write` writes as well.
const RECORD: &str = "target/bench.json";

/// A work that is a program of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Program {
    name: &'static str,
    /// What else it needs.
    built_with: &'static [&'static str],
    /// The option that tells it where a program is, and which one.
    option: (&'static str, &'static str),
}

/// Runs it.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    need_ip()?;
    if let Some((program, options)) = program_of_its_own(options)? {
        let bench = ["--package", "trueup-benches", "--bin", program.name];
        let built = build(&[&bench[..], program.built_with].concat())?;
        let (option, other) = program.option;
        let mut bench = std::process::Command::new(of_name(&built, program.name)?);
        bench.arg(option).arg(of_name(&built, other)?).args(options);
        return show_and_run(&mut bench);
    }
    let built = build(&BENCHES)?;
    let mut commands = vec![of_name(&built, "works")?.clone()];
    if !options.contains(&"--alone") {
        commands.extend(build(&PEERS)?);
    }
    let target = root().join("target");
    fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let mut bench = std::process::Command::new(of_name(&built, "bench")?);
    for command in commands {
        bench.arg("--command").arg(command);
    }
    bench.arg("--record").arg(root().join(RECORD));
    bench.arg("--docs").arg(root().join("docs")).args(options);
    show_and_run(&mut bench)
}

/// The work among the options that is a program of its own, if one is named, and the options for
/// it.
fn program_of_its_own<'a>(options: &[&'a str]) -> Result<Option<(Program, Vec<&'a str>)>> {
    let place = |program: &Program| {
        let named = ["--work", program.name];
        options.windows(2).position(|pair| pair == named)
    };
    let mut programs = PROGRAMS.into_iter();
    let Some((program, at)) = programs.find_map(|program| Some((program, place(&program)?))) else {
        return Ok(None);
    };
    let mut options = options.to_vec();
    options.drain(at..at + 2);
    match options.contains(&"--work") {
        true => Err(format!("--work {} is measured alone", program.name)),
        false => Ok(Some((program, options))),
    }
}

/// A program among those that were built.
fn of_name<'a>(built: &'a [PathBuf], name: &str) -> Result<&'a PathBuf> {
    let found = built.iter().find(|path| path.ends_with(name));
    found.ok_or_else(|| format!("{name} was not built"))
}

/// Builds for release, and gives the programs.
fn build(what: &[&str]) -> Result<Vec<PathBuf>> {
    let mut cargo = cargo(&["build", "--release", "--message-format", "json"]);
    cargo.args(what).stderr(Stdio::inherit());
    println!("$ {}", line(&cargo));
    let output = cargo.output().map_err(|error| format!("{}: {error}", line(&cargo)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", line(&cargo), output.status));
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// The programs among what cargo says that it made, a JSON object a line.
fn executables(stdout: &str) -> Vec<PathBuf> {
    let messages = stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_that_is_a_program_of_its_own_is_alone() {
        let found = |options: &[&'static str]| {
            let found = program_of_its_own(options);
            found.map(|found| found.map(|(program, options)| (program.name, options)))
        };
        assert_eq!(found(&["--work", "route-noop", "--quick"]), Ok(None));
        assert_eq!(
            found(&["--quick", "--work", "daemon", "--seconds", "1"]),
            Ok(Some(("daemon", vec!["--quick", "--seconds", "1"])))
        );
        assert!(found(&["--work", "containers", "--work", "route-noop"]).is_err());
    }

    #[test]
    fn programs_are_picked_out_of_what_cargo_says() {
        let stdout = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"works"},"executable":"/t/release/works"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(stdout), [PathBuf::from("/t/release/works")]);
    }
}

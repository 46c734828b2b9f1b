//! `cargo xtask bench`: builds the benchmarks' programs, and the peers that they are compared with,
//! in release mode, and has the benchmark itself (`benches/src/bin/bench.rs`) run them in turn. Its
//! options are passed on.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::tools::{Result, cargo, line, need_ip, root, show_and_run};

const BENCHES: [&str; 6] = [
    "--package",
    "trueup-benches",
    "--bin",
    "bench",
    "--bin",
    "works",
];
/// A workspace of its own: nothing else needs what is in it.
const PEERS: [&str; 2] = ["--manifest-path", "benches/peers/Cargo.toml"];
/// The figures of earlier runs, which `--write` writes as well.
const RECORD: &str = "target/bench.json";

/// Runs it.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    need_ip()?;
    let built = build(&BENCHES)?;
    let of_name = |name: &str| {
        let found = built.iter().find(|path| path.ends_with(name));
        found.ok_or_else(|| format!("{name} was not built"))
    };
    let mut commands = vec![of_name("works")?.clone()];
    if !options.contains(&"--alone") {
        commands.extend(build(&PEERS)?);
    }
    let target = root().join("target");
    fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let mut bench = std::process::Command::new(of_name("bench")?);
    for command in commands {
        bench.arg("--command").arg(command);
    }
    bench.arg("--record").arg(root().join(RECORD));
    bench.arg("--docs").arg(root().join("docs")).args(options);
    show_and_run(&mut bench)
}

/// Builds for release, and gives the programs.
fn build(what: &[&str]) -> Result<Vec<PathBuf>> {
    let mut cargo = cargo(&["build", "--release", "--message-format", "json"]);
    cargo.args(what).stderr(Stdio::inherit());
    println!("$ {}", line(&cargo));
    let output = cargo
        .output()
        .map_err(|error| format!("{}: {error}", line(&cargo)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", line(&cargo), output.status));
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// The programs among what cargo says that it made, a JSON object a line.
fn executables(told: &str) -> Vec<PathBuf> {
    let messages = told
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_picked_out_of_what_cargo_says() {
        let told = r#"{"reason":"compiler-artifact","target":{"name":"a"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"works"},"executable":"/t/release/works"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(told), [PathBuf::from("/t/release/works")]);
    }
}

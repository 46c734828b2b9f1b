//! The test programs that need a kernel, linked statically, so that they run where nothing else is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::tools::{Result, cargo, line, root};

/// What a guest runs, and what that needs beside it.
pub(super) struct Programs {
    pub(super) tests: Vec<Program>,
    /// Other programs, which the tests start by their absolute path.
    pub(super) others: Vec<PathBuf>,
    /// Which of their tests, by a part of the name; all if empty.
    pub(super) filter: String,
}

/// A test program.
pub(super) struct Program {
    /// Package and target, such as `rtnl/kernel`.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// The package's folder, in which `cargo test` would run it.
    pub(super) dir: PathBuf,
}

/// Without debug information: it would be nine tenths of what the guest has to hold. With a little
/// optimization: an emulated machine is slow enough.
const PROFILE: [&str; 6] = [
    "--config",
    "profile.dev.debug=false",
    "--config",
    "profile.dev.strip='debuginfo'",
    "--config",
    "profile.dev.opt-level=1",
];

impl Programs {
    /// Builds them all, or `only` the one of a name, in a target directory of its own, as the flags
    /// are not those of other builds.
    pub(super) fn build(target: &Path, only: Option<&str>) -> Result<Programs> {
        let targets = targets(only)?;
        let mut programs = Programs {
            tests: Vec::new(),
            others: Vec::new(),
            filter: String::new(),
        };
        let mut packages: Vec<&str> = Vec::new();
        let mut tests: Vec<&str> = Vec::new();
        for (package, target) in &targets {
            packages.extend(["--package", package]);
            tests.extend(["--test", target]);
        }
        let mut build = cargo(&["test", "--no-run", "--all-features"]);
        build
            .args(&packages)
            .args(&tests)
            .args(["--target", "x86_64-unknown-linux-gnu"])
            .arg("--message-format=json-render-diagnostics")
            .args(PROFILE)
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env("CARGO_TARGET_DIR", target)
            .stderr(Stdio::inherit());
        let line = line(&build);
        println!("$ {line}");
        let built = build.output().map_err(|error| format!("{line}: {error}"))?;
        if !built.status.success() {
            return Err(format!("{line}: {}", built.status));
        }
        for message in String::from_utf8_lossy(&built.stdout).lines() {
            programs.take(message, &targets);
        }
        programs.tests.sort_by(|a, b| a.name.cmp(&b.name));
        if programs.tests.len() != targets.len() {
            let built = programs.tests.len();
            return Err(format!("{built} programs for {} targets", targets.len()));
        }
        Ok(programs)
    }

    /// Takes in what cargo says about one artifact.
    fn take(&mut self, message: &str, targets: &[(String, String)]) {
        let Ok(message) = serde_json::from_str::<Value>(message) else {
            return;
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (Some(path), Some(manifest), Some(target)) = (
            text(&message["executable"]).map(PathBuf::from),
            text(&message["manifest_path"]).map(PathBuf::from),
            text(&message["target"]["name"]),
        ) else {
            return;
        };
        let dir = manifest.parent().map(PathBuf::from).unwrap_or_default();
        // A package's folder is named after its role.
        let role = dir.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{role}/{target}");
        if message["target"]["kind"][0] != "test" {
            self.others.push(path);
        } else if targets
            .iter()
            .any(|(package, target)| name_of(package, target) == name)
        {
            self.tests.push(Program { name, path, dir });
        }
    }
}

/// What starts thousands of processes, which takes an emulated machine hours: only where it is
/// asked for by name.
const LONG: [&str; 1] = ["crash"];

/// The test targets with a `main` of their own, which enter a namespace: each by package and name.
fn targets(only: Option<&str>) -> Result<Vec<(String, String)>> {
    let crates = root().join("crates");
    let entries =
        fs::read_dir(&crates).map_err(|error| format!("{}: {error}", crates.display()))?;
    let mut targets = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| error.to_string())?
            .path()
            .join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let manifest: toml::Table =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let package = manifest["package"]["name"].as_str().unwrap_or_default();
        let tests = manifest.get("test").and_then(toml::Value::as_array);
        for test in tests.into_iter().flatten() {
            let own_main = test.get("harness").and_then(toml::Value::as_bool) == Some(false);
            if let (true, Some(name)) = (own_main, test["name"].as_str()) {
                targets.push((package.to_owned(), name.to_owned()));
            }
        }
    }
    targets.retain(|(package, target)| match only {
        Some(only) => name_of(package, target) == only,
        None => !LONG.contains(&&**target),
    });
    targets.sort();
    match (&targets[..], only) {
        ([], Some(only)) => Err(format!("no test program {only}")),
        _ => Ok(targets),
    }
}

fn name_of(package: &str, target: &str) -> String {
    format!("{}/{target}", package.trim_start_matches("trueup-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_with_a_main_of_their_own_are_found() {
        let targets = targets(None).unwrap();
        let has =
            |package: &str, name: &str| targets.contains(&(package.to_owned(), name.to_owned()));
        assert!(
            has("trueup-rtnl", "kernel") && has("trueup-e2e", "scale"),
            "{targets:?}"
        );
        assert!(!has("trueup-file", "good"), "{targets:?}");
        assert!(!has("trueup-e2e", "crash"), "{targets:?}");
        let asked = super::targets(Some("e2e/crash")).unwrap();
        assert_eq!(asked, [("trueup-e2e".to_owned(), "crash".to_owned())]);
    }
}

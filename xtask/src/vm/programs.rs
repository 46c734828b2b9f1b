//! The test programs for a guest: those that need a kernel.

use std::fs;
use std::path::PathBuf;

use crate::etcd;
use crate::programs::{Program, build};
use crate::tools::{Result, crate_folders};

/// The programs that a guest runs, and the programs they need.
#[derive(Default)]
pub(super) struct Programs {
    pub(super) tests: Vec<Program>,
    /// Other programs, which the tests start by their absolute paths.
    pub(super) others: Vec<PathBuf>,
    /// Part of the names of the tests to run; all if empty.
    pub(super) filter: String,
    /// True if an emulated machine should do less.
    pub(super) is_short: bool,
}

impl Programs {
    /// Builds all programs, or `only` the named one.
    pub(super) fn build(only: Option<&str>) -> Result<Programs> {
        let mut names: Vec<_> = targets(only)?.into_iter().map(|(_, name)| name).collect();
        names.sort();
        names.dedup();
        let words: Vec<_> = names.iter().flat_map(|name| ["--test", name]).collect();
        Programs::of(&build(&words)?, only, false)
    }

    /// Selects the programs that need a kernel, or `only` the named one; fewer if it `is_short`.
    pub(super) fn of(built: &[Program], only: Option<&str>, is_short: bool) -> Result<Programs> {
        let names = targets(only)?.into_iter().map(|(package, target)| name_of(&package, &target));
        let wanted: Vec<_> =
            names.filter(|name| !is_short || !LEFT_OUT_IF_SHORT.contains(&&**name)).collect();
        let tests: Vec<_> = built
            .iter()
            .filter(|program| program.is_test && wanted.contains(&program.name))
            .cloned()
            .collect();
        // A test starts only programs of its own package, and a guest has no space for the others.
        let others = built
            .iter()
            .filter(|program| !program.is_test && tests.iter().any(|test| test.dir == program.dir))
            .map(|program| program.path.clone());
        let others = others.collect();
        let mut programs = Programs { tests, others, is_short, ..Programs::default() };
        programs.tests.sort_by(|a, b| a.name.cmp(&b.name));
        match wanted.iter().find(|name| programs.tests.iter().all(|test| test.name != **name)) {
            Some(name) => Err(format!("{name} was not built")),
            None => Ok(programs),
        }
    }
}

/// Programs that run only if they are named. Starting thousands of processes takes an emulated
/// machine hours, a model of the kernel gives the same results on each kernel, and no guest has
/// other network daemons.
const LEFT_OUT: [&str; 3] = ["crash", "simulate", "daemons"];

/// Programs that a short run leaves out as well: they test mostly files, commands, text, and long
/// series of changes, and take an emulated machine half of its time.
const LEFT_OUT_IF_SHORT: [&str; 4] = ["e2e/cli", "e2e/drift", "e2e/graph", "world/contract"];

/// Returns the test targets with their own `main`, which enter a namespace: package and name.
fn targets(only: Option<&str>) -> Result<Vec<(String, String)>> {
    let mut targets = Vec::new();
    for folder in crate_folders()? {
        let path = folder.join("Cargo.toml");
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let manifest: toml::Table =
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let package = manifest["package"]["name"].as_str().unwrap_or_default();
        // No guest has etcd.
        if package == etcd::PACKAGE {
            continue;
        }
        let tests = manifest.get("test").and_then(toml::Value::as_array);
        for test in tests.into_iter().flatten() {
            let own_main = test.get("harness").and_then(toml::Value::as_bool) == Some(false);
            let needs = test.get("required-features").and_then(toml::Value::as_array);
            let on_etcd = needs.is_some_and(|it| it.iter().any(|it| it.as_str() == Some("etcd")));
            if let (true, false, Some(name)) = (own_main, on_etcd, test["name"].as_str()) {
                targets.push((package.to_owned(), name.to_owned()));
            }
        }
    }
    targets.retain(|(package, target)| match only {
        Some(only) => name_of(package, target) == only,
        None => !LEFT_OUT.contains(&&**target),
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
        assert!(has("trueup-rtnl", "kernel") && has("trueup-e2e", "scale"), "{targets:?}");
        assert!(!has("trueup-file", "good"), "{targets:?}");
        let names: Vec<_> = targets.iter().map(|(package, name)| name_of(package, name)).collect();
        assert!(
            LEFT_OUT_IF_SHORT.iter().all(|it| names.iter().any(|name| name == it)),
            "{names:?}"
        );
        for left_out in ["crash", "simulate", "daemons"] {
            assert!(!has("trueup-e2e", left_out), "{targets:?}");
        }
        let asked = super::targets(Some("e2e/crash")).unwrap();
        assert_eq!(asked, [("trueup-e2e".to_owned(), "crash".to_owned())]);
    }
}

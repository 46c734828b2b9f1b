//! `cargo xtask plant`: breaks each invariant on purpose in a scratch copy, one line at a time, and
//! looks whether the scenarios notice and name it. A suite that passes with a fault planted proves
//! nothing.
//!
//! The faults are patches under `crates/e2e/plants/`, named after the invariant's number:
//! `3-*.patch` breaks the third.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tools::{Result, cargo, need_ip, root};

const PLANTS: &str = "crates/e2e/plants";
const INVARIANTS: u32 = 9;
/// The scenarios, on the fake kernel and on the running one.
const TEST: [&str; 7] = [
    "test",
    "--package",
    "trueup-e2e",
    "--test",
    "scenarios",
    "--color",
    "never",
];

/// Runs it; with numbers, for those invariants alone.
pub(crate) fn run(only: &[&str]) -> Result<()> {
    need_ip()?;
    let plants = plants()?;
    let tree = root().join("target/plant/tree");
    copy_tree(&tree)?;
    println!("without a fault:");
    let sound = scenarios(&tree)?;
    if !sound.passed {
        return Err(format!(
            "the scenarios fail without any fault:\n{}",
            sound.output
        ));
    }
    println!("  all scenarios pass");
    let mut missed = Vec::new();
    for (number, plant) in plants {
        if !only.is_empty() && !only.contains(&number.to_string().as_str()) {
            continue;
        }
        let name = plant
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        println!("{name}:");
        git_apply(&tree, &plant, &[])?;
        let seen = scenarios(&tree);
        git_apply(&tree, &plant, &["--reverse"])?;
        let seen = seen?;
        let named = seen.output.contains(&format!("invariant {number}"));
        for test in &seen.failed {
            println!("  {test}");
        }
        if seen.failed.is_empty() || !named {
            println!("  NOT NOTICED");
            missed.push(name);
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "no scenario names the fault: {}",
        missed.join(", ")
    ))
}

/// The patches in the order of their invariants, of which each has one at least.
fn plants() -> Result<Vec<(u32, PathBuf)>> {
    let folder = root().join(PLANTS);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut plants = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .split_once('-')
            .and_then(|(number, _)| number.parse().ok());
        let number =
            number.ok_or_else(|| format!("{}: want NUMBER-WORDS.patch", path.display()))?;
        plants.push((number, path));
    }
    plants.sort();
    match (1..=INVARIANTS).find(|n| plants.iter().all(|(number, _)| number != n)) {
        Some(n) => Err(format!("{PLANTS} has no fault for invariant {n}")),
        None => Ok(plants),
    }
}

/// Brings a copy of the tree up to date, as far as git would take its files. What is equal stays
/// untouched, so that little is built again; what is no longer there goes.
fn copy_tree(tree: &Path) -> Result<()> {
    let list = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let mut kept = BTreeSet::new();
    for file in list.stdout.split(|byte| *byte == 0) {
        let file = Path::new(OsStr::from_bytes(file));
        let (from, to) = (root().join(file), tree.join(file));
        // Deleted, and not committed yet.
        if !from.is_file() {
            continue;
        }
        let failed = |error: std::io::Error| format!("{}: {error}", file.display());
        let bytes = fs::read(&from).map_err(failed)?;
        if fs::read(&to).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(to.parent().unwrap_or(tree)).map_err(failed)?;
            fs::write(&to, bytes).map_err(failed)?;
        }
        kept.insert(to);
    }
    remove_others(tree, &kept).map_err(|error| format!("{}: {error}", tree.display()))
}

fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn git_apply(tree: &Path, patch: &Path, more: &[&str]) -> Result<()> {
    // The copy lies in the repository's own folder, and is none: git is reported where it ends.
    let ceiling = tree.parent().unwrap_or(tree);
    let output = Command::new("git")
        .arg("apply")
        .args(more)
        .arg(patch)
        .current_dir(tree)
        .env("GIT_CEILING_DIRECTORIES", ceiling)
        .output()
        .map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} does not apply any more: {said}",
        patch.display()
    ))
}

struct Seen {
    passed: bool,
    /// The tests that failed.
    failed: Vec<String>,
    output: String,
}

fn scenarios(tree: &Path) -> Result<Seen> {
    let output = cargo(&TEST)
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", root().join("target/plant/build"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    if !text.contains("test result: ") {
        return Err(format!("the scenarios did not run:\n{text}{said}"));
    }
    let failed = text
        .lines()
        .filter_map(|line| line.strip_prefix("test ")?.strip_suffix("FAILED"))
        .map(|name| name.trim_end_matches([' ', '.']).to_owned())
        .collect();
    Ok(Seen {
        passed: output.status.success(),
        failed,
        output: format!("{text}{said}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_still_be_planted() {
        for (_, plant) in plants().unwrap() {
            git_apply(&root(), &plant, &["--check"]).unwrap();
        }
    }

    /// All files below a folder, but for what is built.
    fn files(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                files(&path, all);
            } else {
                all.push(path);
            }
        }
    }

    #[test]
    fn the_page_on_safety_names_tests_and_scenarios_that_there_are() {
        let page = fs::read_to_string(root().join("docs/safety.md")).unwrap();
        let mut all = Vec::new();
        files(&root().join("crates"), &mut all);
        let scenarios: Vec<_> = all
            .iter()
            .filter_map(|path| {
                let name = path
                    .strip_prefix(root().join("crates/e2e/scenarios"))
                    .ok()?;
                Some(name.with_extension("").display().to_string())
            })
            .collect();
        let code: String = all
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let rows = page
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains('`'));
        let mut named = 0;
        for name in rows.flat_map(|row| row.split('`').skip(1).step_by(2)) {
            let found = if name.starts_with("crates/") || name.starts_with("docs/") {
                root().join(name).exists()
            } else if let Some((stem, "")) = name.split_once('*') {
                scenarios.iter().any(|scenario| scenario.starts_with(stem))
            } else if name.contains('/') {
                scenarios.iter().any(|scenario| scenario == name)
            } else if name.contains('_') {
                code.contains(&format!("fn {name}("))
            } else {
                continue;
            };
            assert!(found, "{name}");
            named += 1;
        }
        assert!(named > 30, "{named}");
    }
}

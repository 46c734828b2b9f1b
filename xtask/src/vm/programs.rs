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
    /// True if random tests should try fewer cases on an emulated machine.
    pub(super) is_short: bool,
}

impl Programs {
    /// Builds all programs, or `only` the named one.
    pub(super) fn build(only: Option<&str>) -> Result<Programs> {
        let mut names: Vec<_> = targets(only)?.into_iter().map(|(_, name)| name).collect();
        names.sort();
        names.dedup();
        let words: Vec<_> = names.iter().flat_map(|name| ["--test", name]).collect();
        Programs::of(&build(&words)?, only)
    }

    /// Selects the programs that need a kernel, or `only` the named one.
    pub(super) fn of(built: &[Program], only: Option<&str>) -> Result<Programs> {
        let wanted: Vec<_> =
            targets(only)?.iter().map(|(package, target)| name_of(package, target)).collect();
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
        let mut programs = Programs { others: others.collect(), tests, ..Programs::default() };
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

/// Tests of a program that hardly depend on the kernel: they are about arguments, about trueup's
/// own files, and about text. An emulated machine leaves them out where it is to be short.
const SKIPPED: (&str, [&str; 30]) = (
    "e2e/cli",
    [
        "a_damaged_journal_stops_a_pass_until_it_is_repaired",
        "a_directory_that_has_nothing_of_a_namespace_hides_nothing",
        "a_file_may_come_through_a_pipe_and_as_json",
        "a_file_that_others_can_write_is_refused_unless_it_is_trusted",
        "a_journal_that_is_held_can_be_read_and_not_repaired",
        "a_path_of_bytes_that_are_no_text_does_not_break_json",
        "a_reader_that_goes_away_is_no_failure",
        "a_repair_leaves_a_file_that_is_no_journal_as_it_is",
        "a_repair_that_loses_nothing_needs_no_flag",
        "a_report_that_cannot_be_written_is_exit_code_two",
        "a_state_directory_that_is_made_can_be_searched_by_all",
        "a_store_that_another_process_has_changes_nothing",
        "a_usual_directory_of_another_user_is_left_out_of_a_check",
        "an_empty_boot_id_is_no_boot",
        "errors_in_the_file_change_nothing",
        "nothing_is_made_that_could_not_be_remembered",
        "state_is_kept_under_run_else_in_the_users_runtime_directory",
        "the_blocks_of_output_are_what_is_printed",
        "the_commands_of_the_page_are_those_of_the_help",
        "the_file_of_the_page_is_one",
        "the_ledger_of_another_boot_is_none",
        "the_options_of_the_page_are_those_of_the_help",
        "the_page_of_the_world_names_each_task_and_option",
        "the_page_on_sources_shows_the_rules_of_a_section",
        "the_pictures_are_what_is_printed",
        "the_unit_of_the_example_says_what_the_page_says",
        "usage_errors_exit_with_one_and_help_with_zero",
        "what_is_no_whole_journal_is_told_and_left",
        "without_journals_there_is_nothing_to_do_and_nothing_is_made",
        "without_the_feature_endpoints_are_refused",
    ],
);

/// Returns the arguments that leave out such tests of a program.
pub(super) fn skips(program: &str) -> String {
    let skipped = (program == SKIPPED.0).then_some(SKIPPED.1);
    skipped.into_iter().flatten().map(|test| format!("--skip {test} ")).collect()
}

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
    fn each_skipped_test_is_one_of_its_program() {
        let program =
            crate::tools::root().join("crates/test").join(SKIPPED.0.replace('/', "/tests/"));
        let tests = fs::read_to_string(program.join("main.rs")).unwrap();
        for test in SKIPPED.1 {
            assert_eq!(tests.matches(&format!("\n    {test},\n")).count(), 1, "{test}");
            // A test is left out by a part of its name.
            assert_eq!(tests.matches(test).count(), 1, "{test}");
        }
        assert_eq!((skips("e2e/graph"), skips("e2e/cli").is_empty()), (String::new(), false));
    }

    #[test]
    fn the_targets_with_a_main_of_their_own_are_found() {
        let targets = targets(None).unwrap();
        let has =
            |package: &str, name: &str| targets.contains(&(package.to_owned(), name.to_owned()));
        assert!(has("trueup-rtnl", "kernel") && has("trueup-e2e", "scale"), "{targets:?}");
        assert!(!has("trueup-file", "good"), "{targets:?}");
        for left_out in ["crash", "simulate", "daemons"] {
            assert!(!has("trueup-e2e", left_out), "{targets:?}");
        }
        let asked = super::targets(Some("e2e/crash")).unwrap();
        assert_eq!(asked, [("trueup-e2e".to_owned(), "crash".to_owned())]);
    }
}

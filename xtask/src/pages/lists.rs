//! The lists on the pages have exactly the elements that the code has. Each failure names the page,
//! the line and the difference.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use trueup_e2e::page::{Page, names, report};

use super::pages;
use crate::tools::{read, root};
use crate::{Command, fuzz, mutants, packages, prove};

/// Returns the text of a file of the repository.
fn source(path: &str) -> String {
    read(&root().join(path)).unwrap()
}

/// Returns the text between two others; `begin` must occur once.
fn part<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("no {begin:?}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end:?}")).0
}

/// Returns the text in quotes after each occurrence of `word`.
fn quoted_after<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let rests = text.split(word).skip(1);
    let quoted = rests.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split_once('"'));
    quoted.map(|(name, _)| name).collect()
}

#[test]
fn the_targets_of_fuzzing_are_listed() {
    let listed = Page::read("docs/testing.md").column("| target | its input |", 0);
    listed.assert_is(fuzz::targets().unwrap(), "fuzz/fuzz_targets");
}

#[test]
fn the_steps_of_prove_are_listed() {
    let steps = prove::names();
    let page = Page::read("docs/testing.md");
    let listed = page.column("| step | what it does | how long |", 0);
    listed.assert_is(steps, "xtask/src/prove.rs");
    // The table of the last runs.
    let page = Page::read("docs/safety.md");
    let rows = page.table("| step | what it does | result |").into_iter();
    let unknown = rows.filter(|row| !steps.contains(&row.cells[0].as_str()));
    report(unknown.map(|row| format!("{}: no step {}", page.at(row.line), row.cells[0])));
}

#[test]
fn the_groups_of_mutants_are_listed() {
    let groups = mutants::GROUPS.map(|group| group.name);
    let page = Page::read("docs/testing.md");
    let listed = page.between("of them from the groups ", ", and other ones each day");
    listed.assert_is(groups, "xtask/src/mutants.rs");
}

#[test]
fn pages_name_no_command_that_does_not_exist() {
    let mut usage = Command::command();
    usage.build();
    let commands: Vec<&str> = usage.get_subcommands().map(clap::Command::get_name).collect();
    let commands = &commands[..];
    let pages = pages();
    let wrong = pages.iter().flat_map(|page| {
        (1..).zip(page.text.lines()).flat_map(move |(line, text)| {
            text.split("cargo xtask ")
                .skip(1)
                .filter_map(|rest| rest.split(|it: char| !it.is_ascii_alphanumeric()).next())
                .filter(move |name| !name.is_empty() && !commands.contains(name))
                .map(move |name| format!("{}: no command {name}", page.at(line)))
        })
    });
    report(wrong);
}

#[test]
fn the_topics_of_the_tests_are_listed() {
    let manifest: toml::Table = source("crates/test/e2e/Cargo.toml").parse().unwrap();
    let targets = manifest["test"].as_array().unwrap();
    let topics: Vec<&str> = targets.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let of = "crates/test/e2e/Cargo.toml";
    let page = Page::read("crates/test/e2e/README.md");
    page.column("| topic | what it shows |", 0).assert_is(&topics, of);
    let page = Page::read("docs/testing.md");
    page.between("--test TOPIC`: ", " |\n").assert_is(&topics, of);
}

#[test]
fn the_modules_and_features_of_the_facade_are_listed() {
    let page = Page::read("crates/agent/trueup/README.md");
    let code = source("crates/agent/trueup/src/lib.rs");
    let modules: Vec<(&str, &str)> = code
        .lines()
        .filter_map(|line| line.strip_prefix("pub use trueup_")?.strip_suffix(';'))
        .filter_map(|line| line.split_once(" as "))
        .collect();
    let listed = page.column("| module | use it to |", 0);
    listed.assert_is(modules.iter().map(|(_, module)| module), "crates/agent/trueup/src/lib.rs");

    // The front page names the libraries that it leaves out.
    let mut lacking = BTreeSet::new();
    let public = packages::public().unwrap();
    for package in &public {
        let role = package.name.trim_start_matches("trueup-");
        let is_module = modules.iter().any(|(module, _)| *module == role);
        let is_no_part = ["trueup", "cli", "testkit", "contracts"].contains(&role);
        if !is_module && !is_no_part {
            lacking.insert(package.name.clone());
        }
    }
    let page = Page::read("README.md");
    let listed = page.between("have the libraries under one name, but for ", " |\n");
    listed.assert_is(&lacking, "the workspace, and not in crates/agent/trueup/src/lib.rs");
    let listed = page
        .column("| crate | use it to |", 0)
        .map(|name| name.starts_with("trueup").then(|| name.to_owned()));
    listed.assert_is(public.iter().map(|it| &it.name), "the workspace");
}

#[test]
fn the_features_of_each_crate_are_listed_with_their_defaults() {
    let head = "| feature | default |";
    let mut tables = 0;
    for package in packages::public().unwrap() {
        let folder = package.folder.strip_prefix(root()).unwrap().to_owned();
        let page = Page::read(&format!("{}/README.md", folder.display()));
        if !page.text.contains(head) {
            continue;
        }
        tables += 1;
        let path = format!("{}/Cargo.toml", folder.display());
        let manifest: toml::Table = source(&path).parse().unwrap();
        let features = manifest["features"].as_table().unwrap();
        let own = features.keys().filter(|name| *name != "default");
        page.column(head, 0).assert_is(own, &path);
        let default = features.get("default").and_then(|it| it.as_array());
        let defaults: Vec<&str> =
            default.into_iter().flatten().filter_map(toml::Value::as_str).collect();
        let rows = page.table(head).into_iter();
        let wrong = rows
            .filter(|row| (row.cells[1] == "yes") != defaults.contains(&names(&row.cells[0])[0]));
        report(wrong.map(|row| format!("{}: the default is another", page.at(row.line))));
    }
    assert!(tables >= 2, "{tables}");
}

#[test]
fn the_keys_that_a_running_agent_cannot_take_are_listed() {
    let path = "crates/agent/agent/src/options.rs";
    let code = source(path);
    let keys = quoted_after(part(&code, "let differs = [", "];"), "(");
    let page = Page::read("crates/agent/cli/README.md");
    let listed = page
        .between("So is a change of ", ": restart to use it")
        .map(|name| Some(name.trim_matches(['[', ']']).to_owned()));
    listed.assert_is(keys, path);
}

/// A daemon known to the doctor.
struct Daemon<'a> {
    name: &'a str,
    processes: Vec<&'a str>,
    /// The setting that it advises.
    advice: String,
}

fn daemons(code: &str) -> Vec<Daemon<'_>> {
    let all = part(code, "const DAEMONS:", "\n];").split("    Daemon {\n").skip(1);
    let daemons = all.map(|text| Daemon {
        name: quoted_after(text, "name:")[0],
        processes: part(text, "processes: &[", "]")
            .split(',')
            .map(|name| name.trim().trim_matches('"'))
            .collect(),
        // The text has neither the backslash at the end of a line nor the space after it.
        advice: part(text, "advice:", "\n    }").split("\\\n").map(str::trim_start).collect(),
    });
    daemons.collect()
}

#[test]
fn the_daemons_of_the_doctor_are_listed_with_what_to_set() {
    let path = "crates/agent/agent/src/doctor/daemons.rs";
    let code = source(path);
    let daemons = daemons(&code);
    assert!(daemons.len() > 5, "{path}: no daemons found");
    let page = Page::read("docs/agents.md");
    let rows = page.table("| daemon | what it does to our objects |");
    let mut wrong = Vec::new();
    for row in &rows {
        let at = page.at(row.line);
        let Some(daemon) = daemons.iter().find(|it| {
            let mut names = row.cells[0].split(", ");
            names.any(|name| name == it.name || it.processes.contains(&name))
        }) else {
            let left_out = part(&page.text, "without a process of their own: ", ".\n");
            if !left_out.contains(&row.cells[0]) {
                wrong.push(format!("{at}: {path} has no {}", row.cells[0]));
            }
            continue;
        };
        for name in names(&row.cells[2]) {
            if !daemon.advice.contains(name) {
                wrong.push(format!("{at}: {path} does not advise `{name}` for {}", daemon.name));
            }
        }
        let numbers = row.cells[2].split(' ').filter(|it| it.parse::<u32>().is_ok());
        for number in numbers.filter(|it| !daemon.advice.contains(*it)) {
            wrong.push(format!("{at}: {path} does not advise {number} for {}", daemon.name));
        }
    }
    let begin = rows[0].line - 2;
    for daemon in &daemons {
        let mut cells = rows.iter().flat_map(|row| row.cells[0].split(", "));
        if !cells.any(|cell| cell == daemon.name || daemon.processes.contains(&cell)) {
            wrong.push(format!("{}: the table lacks {} of {path}", page.at(begin), daemon.name));
        }
    }
    let page = Page::read("crates/agent/cli/README.md");
    let line = 1 + page.text.lines().position(|it| it.starts_with("- the other daemons")).unwrap();
    let listed = part(&page.text, "- the other daemons that work in the namespace (", ")");
    for daemon in daemons.iter().filter(|it| !listed.contains(it.name)) {
        wrong.push(format!("{}: lacks {} of {path}", page.at(line), daemon.name));
    }
    report(wrong.into_iter());
}

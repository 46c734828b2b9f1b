//! `cargo xtask scenarios`: lists which scenario shows what, and on which kernels it passed. Every
//! number of a kernel fact, a known fault and an invariant must have one. If it cannot be a
//! scenario, a test has a label in a comment above it: `// fact 53`, `// fault source-2`, `//
//! invariant 9`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::programs::workspace;
use crate::tools::{Result, between_marks, cargo, files, joined, need_ip, read, root, succeeds};

/// The file in the target directory with the results of a run of all scenarios: a line of JSON for
/// each.
const RESULTS: &str = "tmp/scenarios.jsonl";
const FACTS_PAGE: &str = "docs/kernels.md";
/// Known faults of earlier systems, by area, with the number of them listed in docs/testing.md.
const FAULTS: [(&str, u32); 2] = [("diff", 6), ("source", 5)];
/// The number of facts that the page has at least.
const FACTS: u32 = 55;
const INVARIANTS: u32 = 9;
/// Kernels that ran in a virtual machine: `cargo xtask vm` keeps their output.
const MACHINES: [&str; 2] = ["6.1", "6.12"];
const BEGIN: &str = "<!-- scenarios: begin -->";
const END: &str = "<!-- scenarios: end -->";

/// The result of each test in a run, by name.
type Ran = BTreeMap<String, String>;

/// A scenario or test that shows something.
struct Shown {
    /// The name, as in the test's name.
    name: String,
    /// A test's file, relative to the root; `None` for a scenario.
    file: Option<String>,
}

/// Runs all scenarios, and lists what they show.
pub(crate) fn run(write: bool) -> Result<()> {
    need_ip()?;
    let mut scenarios = cargo(&["test", "--quiet", "--test", "scenarios"]);
    let passed = succeeds(scenarios.args(workspace()?));
    list(passed, write)
}

/// Lists what the last run shows.
pub(crate) fn list(passed: bool, write: bool) -> Result<()> {
    let scenarios = results()?;
    let local: Ran = scenarios.iter().flat_map(Scenario::ran).collect();
    let mut columns = vec![("local", local)];
    for machine in MACHINES {
        let log = root().join(format!("target/vm/{machine}.log"));
        columns.push((machine, fs::read_to_string(log).map(|text| ran(&text)).unwrap_or_default()));
    }
    let shown = shown(&scenarios)?;
    let table = table(&shown, &columns);
    print!("{table}");
    let mut wrong = missing(&shown);
    if !passed {
        wrong.push("the scenarios failed: `cargo test -p trueup-e2e --test scenarios`".to_owned());
    }
    for (column, ran) in &columns {
        let failed = ran.iter().filter(|(name, ended)| {
            is_scenario(name) && *ended != "ok" && !ended.starts_with("not applicable")
        });
        wrong.extend(failed.map(|(name, ended)| format!("{column}: {name}: {ended}")));
    }
    if write {
        let path = root().join(FACTS_PAGE);
        let text = between_marks(&read(&path)?, BEGIN, END, &format!("\n{table}"))?;
        crate::tools::write(&path, text)?;
    }
    println!("{} scenarios, {} runs", scenarios.len(), columns[0].1.len());
    for (machine, ran) in &columns {
        if ran.is_empty() {
            println!("{machine}: not run: `cargo xtask vm --kernel {machine}` runs it");
        }
    }
    joined(&wrong)
}

/// A scenario in the last run of all.
#[derive(Deserialize)]
struct Scenario {
    name: String,
    facts: Vec<u32>,
    faults: Vec<String>,
    invariants: Vec<u32>,
    /// The results, by the place where it ran: `kernel`, `ledger`.
    runs: BTreeMap<String, String>,
}

impl Scenario {
    fn labels(&self) -> impl Iterator<Item = (Sort, u32)> {
        let facts = self.facts.iter().map(|fact| (Sort::Fact, *fact));
        let faults = self.faults.iter().filter_map(|fault| Sort::fault(fault));
        let invariants = self.invariants.iter().map(|n| (Sort::Invariant, *n));
        facts.chain(faults).chain(invariants)
    }

    fn ran(&self) -> impl Iterator<Item = (String, String)> {
        let runs = self.runs.iter();
        runs.map(|(place, ended)| (format!("{place}::{}", self.name), ended.clone()))
    }
}

/// Reads the results of the last run of all scenarios.
fn results() -> Result<Vec<Scenario>> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let path = root().join(target).join(RESULTS);
    let read = read(&path)?.lines().map(serde_json::from_str).collect::<serde_json::Result<_>>();
    read.map_err(|error| format!("{}: not a result: {error}", path.display()))
}

/// Reads lines such as `test kernel::route/x ... ok`.
fn ran(text: &str) -> Ran {
    text.lines()
        .filter_map(|line| {
            let (name, ended) = line.strip_prefix("test ")?.split_once(" ... ")?;
            Some((name.trim().to_owned(), ended.trim().to_owned()))
        })
        .collect()
}

fn is_scenario(name: &str) -> bool {
    let places = ["kernel::", "ledger::", "read::"];
    places.iter().any(|place| name.starts_with(place))
}

/// Returns the scenarios and tests that show each fact, fault and invariant.
fn shown(scenarios: &[Scenario]) -> Result<BTreeMap<(Sort, u32), Vec<Shown>>> {
    let mut all = BTreeMap::<(Sort, u32), Vec<Shown>>::new();
    let mut add = |label: (Sort, u32), name: &str, file: Option<&Path>| {
        let from_root = file.map(|file| file.strip_prefix(root()).unwrap_or(file));
        all.entry(label).or_default().push(Shown {
            name: name.to_owned(),
            file: from_root.map(|file| file.display().to_string()),
        });
    };
    for scenario in scenarios {
        for label in scenario.labels() {
            add(label, &scenario.name, None);
        }
    }
    for file in files(&root().join("crates"))?
        .into_iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "rs"))
    {
        let text = read(&file)?;
        for (label, name) in annotated(&text) {
            add(label, &name, Some(&file));
        }
    }
    Ok(all)
}

/// The kinds of numbered statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Fact,
    Diff,
    Source,
    Invariant,
}

impl Sort {
    fn word(self) -> &'static str {
        match self {
            Sort::Fact => "fact",
            Sort::Diff => "diff",
            Sort::Source => "source",
            Sort::Invariant => "invariant",
        }
    }

    fn fault(label: &str) -> Option<(Sort, u32)> {
        let (room, number) = label.split_once('-')?;
        let sort = match room {
            "diff" => Sort::Diff,
            "source" => Sort::Source,
            _ => return None,
        };
        Some((sort, number.parse().ok()?))
    }
}

/// Returns the labels in comments directly above functions, with the functions' names.
fn annotated(text: &str) -> Vec<((Sort, u32), String)> {
    let mut labels = Vec::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("// ") {
            let mut words = comment.split_whitespace();
            let sort = words.next().unwrap_or_default();
            let read: Option<Vec<_>> = words
                .map(|word| match sort {
                    "fact" | "facts" => Some((Sort::Fact, word.parse().ok()?)),
                    "invariant" | "invariants" => Some((Sort::Invariant, word.parse().ok()?)),
                    "fault" | "faults" => Sort::fault(word),
                    _ => None,
                })
                .collect();
            labels.extend(read.unwrap_or_default());
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| !labels.is_empty()) {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            found.extend(labels.drain(..).map(|label| (label, name.to_owned())));
        } else if !line.starts_with("///") && !line.starts_with("#[") {
            labels.clear();
        }
    }
    found
}

/// Returns a table with one line for each number, and what shows it.
fn table(shown: &BTreeMap<(Sort, u32), Vec<Shown>>, columns: &[(&str, Ran)]) -> String {
    let names = columns.iter().map(|(column, _)| (*column).to_owned());
    let head = ["".to_owned(), "shown by".to_owned()].into_iter().chain(names);
    let all = shown.iter().flat_map(|(label, all)| all.iter().map(move |one| (label, one)));
    let rows = all.map(|((sort, number), one)| {
        let name = match &one.file {
            None => one.name.clone(),
            Some(file) => format!("{} in {file}", one.name),
        };
        let ended = columns.iter().map(|(column, ran)| ended(one, column, ran));
        [format!("{} {number}", sort.word()), name].into_iter().chain(ended).collect()
    });
    crate::tools::table(head.collect(), rows)
}

fn ended(one: &Shown, column: &str, ran: &Ran) -> String {
    if one.file.is_some() {
        let suffix = format!("::{}", one.name);
        let found = ran.iter().find(|(name, _)| **name == one.name || name.ends_with(&suffix));
        return match (column, found) {
            ("local", None) => "`cargo xtask test`".to_owned(),
            (_, Some((_, ended))) => ended.clone(),
            (_, None) => "-".to_owned(),
        };
    }
    match ["kernel", "ledger"].map(|place| ran.get(&format!("{place}::{}", one.name))) {
        [None, _] => "not run".to_owned(),
        [Some(_), Some(ledger)] if ledger == "FAILED" => "FAILED without markers".to_owned(),
        [Some(ended), _] => ended.clone(),
    }
}

/// Returns the numbers that no scenario or test shows.
fn missing(shown: &BTreeMap<(Sort, u32), Vec<Shown>>) -> Vec<String> {
    let page = fs::read_to_string(root().join(FACTS_PAGE)).unwrap_or_default();
    let on_page =
        page.lines().filter_map(|line| line.split_once(". ")?.0.parse::<u32>().ok()).max();
    let sorts = [
        (Sort::Fact, on_page.unwrap_or(0).max(FACTS)),
        (Sort::Diff, FAULTS[0].1),
        (Sort::Source, FAULTS[1].1),
        (Sort::Invariant, INVARIANTS),
    ];
    let mut wrong = Vec::new();
    for (sort, most) in sorts {
        let word = sort.word();
        let unshown = (1..=most).filter(|number| !shown.contains_key(&(sort, *number)));
        wrong.extend(unshown.map(|it| format!("{word} {it}: no scenario, nor a test, shows it")));
        let beyond = shown.keys().filter(|(of, number)| *of == sort && *number > most);
        wrong.extend(beyond.map(|(_, it)| format!("{word} {it}: there is no such number")));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_run_are_read() {
        let ran = ran("test kernel::route/x ... ok\n\
             test kernel::link/vrf ... not applicable (needs vrf)\n\
             test ledger::route/x   ... FAILED\nrunning 2 tests\n");
        assert_eq!(ran["kernel::route/x"], "ok");
        assert_eq!(ran["kernel::link/vrf"], "not applicable (needs vrf)");
        assert_eq!(ran["ledger::route/x"], "FAILED");
        assert_eq!(ran.len(), 3);
    }

    #[test]
    fn comments_above_functions_label_them() {
        let text = "// facts 53 54\n#[test]\nfn one() {}\n\n// fact of life\nfn two() {}\n\
            // fault source-2\n/// Told.\npub(crate) fn three() {}\n// fact 7\nlet x = 1;\nfn four()
            // {}\n";
        let found = annotated(text);
        let expected =
            [(Sort::Fact, 53, "one"), (Sort::Fact, 54, "one"), (Sort::Source, 2, "three")];
        assert_eq!(found, expected.map(|(sort, number, name)| ((sort, number), name.to_owned())));
    }
}

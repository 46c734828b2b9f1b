//! Compares the commands and options listed on the pages with the program's help.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use trueup_e2e::page::{Page, Row, names, report};

use crate::agent::TRUEUP;

/// An option in a command's help.
#[derive(Debug, Default)]
struct Described {
    /// The name of its value, or all possible values.
    value: String,
    default: Option<String>,
}

/// Returns the program's help on a command.
fn help(command: &[&str]) -> String {
    let mut program = Command::new(TRUEUP);
    let output = program.args(command).arg("--help").output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the lines of a section in a help text.
fn section<'a>(help: &'a str, title: &str) -> Vec<&'a str> {
    let (_, rest) = help.split_once(&format!("\n{title}:\n")).unwrap_or_default();
    let is_of_it = |line: &&str| line.is_empty() || line.starts_with(' ');
    rest.lines().take_while(is_of_it).collect()
}

/// Returns a command's subcommands.
fn commands(of: &[&str]) -> Vec<String> {
    let help = help(of);
    let lines = section(&help, "Commands");
    let own = lines.iter().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = own.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Returns a command's options by their names, except `--help` and `--version`.
fn options(of: &[&str]) -> BTreeMap<String, Described> {
    let help = help(of);
    let mut options = BTreeMap::<String, Described>::new();
    let mut name = String::new();
    let mut values = Vec::new();
    for line in section(&help, "Options") {
        let words = line.trim();
        if words.starts_with('-') && !words.starts_with("- ") {
            let long = words.split_once(", ").map_or(words, |(_, long)| long);
            let (found, value) = long.split_once(" <").unwrap_or((long, ""));
            name = found.to_owned();
            values.clear();
            let value = value.trim_end_matches('>').to_owned();
            let default = None;
            options.insert(name.clone(), Described { value, default });
        }
        let Some(option) = options.get_mut(&name) else {
            continue;
        };
        if let Some((value, _)) = words.strip_prefix("- ").and_then(|it| it.split_once(':')) {
            values.push(value);
            option.value = values.join("|");
        }
        if let Some(default) = words.strip_prefix("[default: ") {
            option.default = Some(default.trim_end_matches(']').to_owned());
        }
    }
    options.retain(|name, _| !["--help", "--version"].contains(&name.as_str()));
    options
}

pub(crate) fn the_commands_of_the_page_are_those_of_the_help() {
    let page = Page::read("crates/agent/cli/README.md");
    let head = "| command | does |";
    let listed = page.column(head, 0);
    let own = listed.map(|shown| Some(shown.split(' ').nth(1)?.to_owned()));
    own.assert_is(commands(&[]), "trueup help");
    for row in page.table(head) {
        let words: Vec<&str> = names(&row.cells[0])[0].split(' ').collect();
        let known = BTreeSet::from_iter(commands(&[words[1]]));
        if !known.is_empty() {
            let tasks = words[2].split('|').map(str::to_owned);
            assert_eq!(BTreeSet::from_iter(tasks), known, "{}", page.at(row.line));
        }
    }
}

pub(crate) fn the_options_of_the_page_are_those_of_the_help() {
    let page = Page::read("crates/agent/cli/README.md");
    let rows = page.table("| option | means |");
    // Each option with its commands.
    let mut all = BTreeMap::<String, (Described, BTreeSet<String>)>::new();
    let paths = commands(&[]).into_iter().filter(|name| name != "world");
    let paths = paths.flat_map(|name| {
        let below = commands(&[&name]).into_iter();
        let below = below.map(|task| format!("{name} {task}")).collect::<Vec<_>>();
        if below.is_empty() { vec![name] } else { below }
    });
    let paths: Vec<String> = paths.collect();
    for path in &paths {
        let words: Vec<&str> = path.split(' ').collect();
        for (name, described) in options(&words) {
            let entry = all.entry(name).or_insert_with(|| (described, BTreeSet::new()));
            entry.1.insert(path.clone());
        }
    }
    let is_of = |row: &Row, name: &str| names(&row.cells[0])[0].split(' ').next() == Some(name);
    let begin = rows[0].line - 2;
    let wrong = all.iter().flat_map(|(name, (described, of))| {
        let Some(row) = rows.iter().find(|row| is_of(row, name)) else {
            return vec![format!("{}: the table lacks {name}", page.at(begin))];
        };
        let is_of_all = of.len() == paths.len();
        let expected = [
            ("name", names(&row.cells[0])[0] == format!("{name} {}", described.value).trim_end()),
            (
                "default",
                described.default.as_ref().is_none_or(|default| {
                    row.cells[2].trim_matches('`') == default || default.contains(' ')
                }),
            ),
            (
                "command",
                match row.cells[1].strip_prefix('`').and_then(|it| it.split_once("`:")) {
                    Some((command, _)) => of.len() == 1 && of.contains(command),
                    None => is_of_all,
                },
            ),
        ];
        let wrong = expected.iter().filter(|(_, fits)| !fits);
        wrong
            .map(|(what, _)| {
                format!("{}: {what} of {name}: {described:?}, of {of:?}", page.at(row.line))
            })
            .collect()
    });
    let unknown = rows.iter().filter(|row| !all.keys().any(|name| is_of(row, name)));
    let unknown =
        unknown.map(|row| format!("{}: no command has {}", page.at(row.line), row.cells[0]));
    report(wrong.chain(unknown));
}

pub(crate) fn the_page_of_the_world_names_each_task_and_option() {
    let page = Page::read("docs/world.md");
    let common = options(&["world"]);
    let is_heading = |line: &str| line == "## The command `world`";
    let heading = 1 + page.text.lines().position(is_heading).unwrap();
    let mut wrong = Vec::new();
    for task in commands(&["world"]) {
        let below = commands(&["world", &task]);
        let below: Vec<Vec<&str>> = match below.is_empty() {
            true => vec![vec!["world", &task]],
            false => below.iter().map(|it| vec!["world", &task, it]).collect(),
        };
        for path in below {
            let words = path.last().unwrap();
            let head = format!("trueup world {task}");
            let section = page.text.lines().filter(|line| line.contains(&head));
            if !section.into_iter().any(|line| line.contains(words)) {
                wrong.push(format!("{}: nothing of trueup {}", page.at(heading), path.join(" ")));
            }
            for name in options(&path).keys().filter(|name| !common.contains_key(*name)) {
                let is_named = page.text.split(name.as_str()).skip(1);
                let mut is_named = is_named
                    .map(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '-'));
                if !is_named.any(|whole| whole) {
                    wrong.push(format!(
                        "{}: no {name} of trueup {}",
                        page.at(heading),
                        path.join(" ")
                    ));
                }
            }
        }
    }
    report(wrong.into_iter());
}

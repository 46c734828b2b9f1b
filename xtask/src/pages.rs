//! Tests of the pages: their paths and links have targets, and their lists agree with the code.

mod blocks;
mod examples;
mod figures;
mod lists;

use std::fs;

use trueup_e2e::page::{Page, report};

use crate::tools::{files, read, root};

const REPOSITORY: &str = "https://github.com/trueup/trueup/blob/main/";

/// The beginnings of paths in backticks.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "xtask/", "benches/", "fuzz/", "examples/"];

#[test]
fn every_path_that_the_pages_name_exists() {
    for (name, least) in
        [("ownership", 0), ("safety", 0), ("order", 0), ("agents", 0), ("architecture", 61)]
    {
        let page = Page::read(&format!("docs/{name}.md")).text;
        let named = page.split('`').skip(1).step_by(2);
        let links = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let linked = links.filter(|_| least > 0).map(|(link, _)| format!("docs/{link}"));
        let paths: Vec<_> = named
            .filter(|name| match least {
                0 => name.starts_with("crates/"),
                _ => FOLDERS.iter().any(|folder| name.starts_with(folder)),
            })
            .map(str::to_owned)
            .chain(linked)
            .collect();
        assert!(paths.len() >= least, "{name}: {}", paths.len());
        let gone: Vec<_> = paths.iter().filter(|path| !root().join(path).exists()).collect();
        assert!(gone.is_empty(), "{name}: {gone:?}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let all = pages();
    let ours = all.iter().filter(|page| {
        let folder = page.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_of_crate = folder.starts_with("crates/") && page.name.ends_with("/README.md");
        is_of_crate && folder.split('/').count() == 3
            || ["", "docs"].contains(&folder)
            || folder.starts_with("examples/") && page.name.ends_with("/README.md")
    });
    assert!(ours.clone().count() > 20, "{all:?}");
    for page in ours {
        let (text, page) = (&page.text, root().join(&page.name));
        let links = text.split("](").skip(1);
        for (link, _) in links.filter_map(|rest| rest.split_once(')')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            // Pages that a registry also shows link to others of the repository with full
            // addresses.
            let target = match path.strip_prefix(REPOSITORY) {
                Some(path) => root().join(path),
                None if path.contains("://") || path.contains(['\n', ' ']) => continue,
                None if path.is_empty() => page.clone(),
                None => page.parent().unwrap().join(path),
            };
            let shown = format!("{}: {link}", page.display());
            assert!(target.exists(), "{shown}");
            if !anchor.is_empty() {
                let text = fs::read_to_string(target).unwrap();
                assert!(text.lines().any(|line| leads(line) == anchor), "{shown}");
            }
        }
    }
}

#[test]
fn every_page_is_linked_from_the_front_page_or_from_one_that_is() {
    let pages = pages();
    let mut reached = vec!["README.md".to_owned()];
    let mut at = 0;
    while let Some(name) = reached.get(at).cloned() {
        at += 1;
        let Some(page) = pages.iter().find(|page| page.name == name) else {
            continue;
        };
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let links = page.text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (link, _) in links {
            let path = link.split('#').next().unwrap_or_default();
            let target = match path.strip_prefix(REPOSITORY) {
                Some(path) => normal(path),
                None => normal(&format!("{folder}/{path}")),
            };
            if target.ends_with(".md") && !reached.contains(&target) {
                reached.push(target);
            }
        }
    }
    let missed = pages.iter().filter(|page| !reached.contains(&page.name));
    report(missed.map(|page| format!("{}: no page on the way from README.md links it", page.name)));
}

/// Returns a path without `..` and empty parts.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn the_page_on_safety_names_tests_and_scenarios_that_there_are() {
    let page = Page::read("docs/safety.md").text;
    let scenarios = root().join("crates/test/e2e/scenarios");
    let scenarios: Vec<_> = files(&scenarios)
        .unwrap()
        .iter()
        .map(|path| path.strip_prefix(&scenarios).unwrap().with_extension("").display().to_string())
        .collect();
    let code = code(&["crates"]);
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
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

/// Returns all pages, by their paths from the root.
fn pages() -> Vec<Page> {
    let all = files(&root()).unwrap();
    let from_root = all
        .iter()
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .map(|path| path.strip_prefix(root()).unwrap());
    let pages: Vec<Page> = from_root.map(|path| Page::read(path.to_str().unwrap())).collect();
    assert!(pages.len() > 30, "{pages:?}");
    pages
}

/// Returns the text of all sources below some directories.
fn code(folders: &[&str]) -> String {
    let all = folders.iter().flat_map(|folder| files(&root().join(folder)).unwrap());
    all.filter(|path| path.extension().is_some_and(|it| it == "rs"))
        .map(|path| read(&path).unwrap())
        .collect()
}

/// Returns a heading's anchor, as websites form it.
fn leads(line: &str) -> String {
    let Some(heading) = line.strip_prefix('#') else {
        return String::new();
    };
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter))
        .collect::<String>()
        .replace(' ', "-")
}

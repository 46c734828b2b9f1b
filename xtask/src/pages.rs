//! Tests of the pages: the paths and links that they have lead somewhere, and their lists are those
//! of the code.

mod blocks;
mod lists;

use std::fs;
use std::path::PathBuf;

use crate::tools::{crate_folders, root};

const REPOSITORY: &str = "https://github.com/trueup/trueup/blob/main/";

/// The folders with which a path in backticks begins.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "xtask/", "benches/", "fuzz/", "examples/"];

#[test]
fn every_path_that_other_pages_name_exists() {
    for page in ["ownership", "safety", "order", "agents"] {
        let page = fs::read_to_string(root().join(format!("docs/{page}.md"))).unwrap();
        let named = page.split('`').skip(1).step_by(2);
        for path in named.filter(|name| name.starts_with("crates/")) {
            assert!(root().join(path).exists(), "{path}");
        }
    }
}

#[test]
fn every_path_that_the_architecture_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let named = page.split('`').skip(1).step_by(2);
    let links = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let linked = links.map(|(link, _)| format!("docs/{link}"));
    let paths: Vec<_> = named
        .filter(|name| FOLDERS.iter().any(|folder| name.starts_with(folder)))
        .map(str::to_owned)
        .chain(linked)
        .collect();
    assert!(paths.len() > 60, "{}", paths.len());
    for path in paths {
        assert!(root().join(&path).exists(), "{path}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut pages: Vec<_> =
        crate_folders().unwrap().iter().map(|folder| folder.join("README.md")).collect();
    for (folder, name) in [("docs", ""), ("examples", "README.md"), ("", "")] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let page = entry.unwrap().path().join(name);
            let page = page.components().collect::<PathBuf>();
            if page.extension().is_some_and(|ending| ending == "md") && page.is_file() {
                pages.push(page);
            }
        }
    }
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let links = text.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split_once(')')) {
            let link = link.0;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            // Pages that a registry shows as well name others of the repository in full.
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

/// The anchor of a heading, as the pages' readers make it.
fn leads(line: &str) -> String {
    let Some(heading) = line.strip_prefix('#') else {
        return String::new();
    };
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
    heading.chars().filter(kept).collect::<String>().replace(' ', "-")
}

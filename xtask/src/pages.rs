//! Tests of the pages under `docs/`: the paths that they name exist.

use std::fs;

use crate::tools::root;

/// The folders with which a path in backticks begins.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "xtask/", "benches/", "fuzz/"];

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
    let links = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
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

//! `cargo xtask api`: builds the documentation, which must have no warning, and compares each
//! crate's public API with the committed text `crates/*/*/api.txt`. A change of the API shows as a
//! change of that file.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::{Builder, PublicApi};

use crate::etcd;
use crate::packages::{Package, public};
use crate::programs::workspace;
use crate::tools::{Result, at, cargo, joined, output, read, root, run_and_show};

/// Foreign crates whose types may be part of the public API.
const ALLOWED: [&str; 7] = [
    "alloc",
    "core",
    "std",
    "serde",
    "serde_core",
    "ipnetwork",
    // std has no `Stream` yet.
    "futures_core",
];

/// Crates whose types may be part of one public module, which a feature adds to convert them.
const ALLOWED_IN: (&str, [&str; 2]) =
    ("trueup_netlink::packet", ["netlink_packet_core", "netlink_packet_route"]);

/// Compares the files, or writes them with `--write`.
///
/// # Errors
///
/// Warnings of rustdoc for any crate in the workspace, and each API that differs.
pub(crate) fn run(write: bool) -> Result<()> {
    if let Some(other) = other_toolchain()? {
        document("", Path::new("rustdoc"))?;
        println!(
            "public API: not compared, as this is {other}, and not that of rust-toolchain.toml"
        );
        return Ok(());
    }
    document("-Zunstable-options --output-format=json", &rustdoc()?)?;
    let libraries: Vec<Package> = public()?
        .into_iter()
        .filter(|package| package.library.is_some())
        .filter(etcd::can_build_all_of)
        .collect();
    let folder = root().join("target/doc");
    let mut lines = Vec::new();
    for package in &libraries {
        let name = package.library.as_deref().unwrap_or_default();
        lines.push(items(&folder.join(format!("{name}.json")))?);
    }
    let modules: BTreeSet<String> =
        lines.iter().flatten().filter_map(|line| module(line)).collect();
    let mut errors = Vec::new();
    for (package, lines) in libraries.iter().zip(&lines) {
        let text = text(lines, &modules);
        let foreign = foreign(&text);
        if !foreign.is_empty() {
            let name = &package.name;
            errors.push(format!("{name}: types of other crates: {foreign:?}"));
        }
        let file = package.folder.join("api.txt");
        if write {
            crate::tools::write(&file, text)?;
            continue;
        }
        let known = fs::read_to_string(&file).unwrap_or_default();
        if known != text {
            print!("{}", difference(&file, &known, &text));
            errors.push(format!("{}: the public API changed", package.name));
        }
    }
    if !errors.is_empty() && !write {
        let remedy = "if that is meant, run `cargo xtask api --write`, and commit what it writes";
        errors.push(remedy.to_owned());
    }
    joined(&errors)
}

/// Returns the version of rustc if it differs from the one in `rust-toolchain.toml`: rustdoc's
/// format changes with each version.
fn other_toolchain() -> Result<Option<String>> {
    let text = read(&root().join("rust-toolchain.toml"))?;
    let version = output(Command::new("rustc").arg("--version").current_dir(root()))?;
    let quoted = text.split('"').nth(1).unwrap_or_default();
    let is_same = version.split_whitespace().nth(1) == Some(quoted);
    Ok((!is_same).then(|| version.trim().to_owned()))
}

/// Documents the whole workspace.
fn document(flags: &str, rustdoc: &Path) -> Result<()> {
    let mut doc = cargo(&["doc", "--quiet", "--no-deps", "--target-dir", "target"]);
    doc.env("RUSTDOC", rustdoc).env("RUSTDOCFLAGS", format!("-Dwarnings {flags}"));
    run_and_show(doc.args(workspace()?)).1
}

/// Returns the path of a rustdoc that writes its data on a crate as JSON.
fn rustdoc() -> Result<PathBuf> {
    let rustdoc = root().join("target/rustdoc-json");
    // The format is not stable: the variable lets the stable toolchain write it. It must not reach
    // cargo, which would then rebuild all dependencies.
    let script = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n";
    at(&rustdoc, fs::create_dir_all(root().join("target")))?;
    crate::tools::write(&rustdoc, script)?;
    at(&rustdoc, fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755)))?;
    Ok(rustdoc)
}

/// Returns the public items in a JSON file, one a line.
fn items(json: &Path) -> Result<Vec<String>> {
    let api: PublicApi = Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .map_err(|error| format!("{}: {error}", json.display()))?;
    Ok(api.items().map(ToString::to_string).collect())
}

/// Returns the path in the line of a public module.
fn module(line: &str) -> Option<String> {
    line.strip_prefix("pub mod ").map(str::to_owned)
}

/// Returns the lines as committed: methods of a trait are not repeated for each type that
/// implements it.
fn text(lines: &[String], modules: &BTreeSet<String>) -> String {
    let mut known = BTreeSet::new();
    let mut implementor = String::new();
    let mut text = String::new();
    for line in lines {
        if let Some((head, of)) = line.split_once(" for ")
            && head.starts_with("impl")
        {
            implementor = of.split(" where ").next().unwrap_or(of).to_owned();
            if head.ends_with("::StructuralPartialEq") {
                continue;
            }
        } else if line.starts_with("impl") {
            implementor.clear();
        } else if let Some((_, name)) = line.split_once("fn ")
            && !implementor.is_empty()
            && name.strip_prefix(&implementor).is_some_and(|rest| rest.starts_with("::"))
        {
            continue;
        }
        let line = public_paths(line, modules);
        // Implementations of a trait are listed with the type, and again with the trait.
        if known.insert(line.clone()) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// Removes private modules from the paths in trueup's crates: the place of a definition may change.
fn public_paths(line: &str, modules: &BTreeSet<String>) -> String {
    let mut rest = line;
    let mut public = String::new();
    while let Some(at) = rest.find("trueup") {
        let (before, path) = rest.split_at(at);
        let end = path
            .find(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':')
            .unwrap_or(path.len());
        let (path, after) = path.split_at(end);
        let segments: Vec<&str> = path.split("::").collect();
        let mut kept = segments[0].to_owned();
        for (number, segment) in segments.iter().enumerate().skip(1) {
            let longer = format!("{kept}::{segment}");
            let is_module = number + 1 < segments.len()
                && segment.starts_with(|letter: char| letter.is_lowercase());
            if !is_module || modules.contains(&longer) {
                kept = longer;
            }
        }
        public.push_str(before);
        public.push_str(&kept);
        rest = after;
    }
    public + rest
}

/// Returns the crates in an API's text that it must not contain.
fn foreign(text: &str) -> BTreeSet<&str> {
    let (module, converted) = ALLOWED_IN;
    let mut in_module = false;
    let mut all = BTreeSet::new();
    for line in text.lines() {
        // The items of an implementation follow it.
        if line.starts_with("impl") {
            in_module = line.contains(module);
        }
        let may_convert = in_module || line.contains(module);
        all.extend(crates(line).filter(|name| !may_convert || !converted.contains(name)));
    }
    all
}

/// Returns the crates other than ours that a line names and no API may contain.
fn crates(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && !['_', ':'].contains(&letter))
        .filter_map(|path| path.split_once("::"))
        .map(|(first, _)| first)
        .filter(|first| first.starts_with(|letter: char| letter.is_lowercase()))
        .filter(|first| !ALLOWED.contains(first) && !first.starts_with("trueup"))
}

/// Returns the lines that only one text has.
fn difference(file: &Path, old: &str, new: &str) -> String {
    let (before, after): (BTreeSet<_>, BTreeSet<_>) =
        (old.lines().collect(), new.lines().collect());
    let gone = old.lines().filter(|line| !after.contains(line));
    let come = new.lines().filter(|line| !before.contains(line));
    let lines =
        gone.map(|line| format!("- {line}\n")).chain(come.map(|line| format!("+ {line}\n")));
    format!("{}\n{}", file.display(), lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn what_a_trait_says_is_not_repeated() {
        let lines = [
            "pub struct trueup_x::A",
            "impl trueup_x::A",
            "pub fn trueup_x::A::new() -> Self",
            "impl core::clone::Clone for trueup_x::A",
            "pub fn trueup_x::A::clone(&self) -> trueup_x::A",
            "impl core::marker::StructuralPartialEq for trueup_x::A",
            "impl trueup_y::kinds::Trait for trueup_x::A",
            "pub type trueup_x::A::Key = u8",
            "pub fn trueup_x::A::key(&self)",
            "impl trueup_y::kinds::Trait for trueup_x::A",
            "pub fn trueup_x::A::key(&self)",
            "pub fn trueup_x::free() -> trueup_y::codec::B",
        ];
        let modules = BTreeSet::from(["trueup_y::codec".to_owned()]);
        let shown = "pub struct trueup_x::A\n\
                     impl trueup_x::A\n\
                     pub fn trueup_x::A::new() -> Self\n\
                     impl core::clone::Clone for trueup_x::A\n\
                     impl trueup_y::Trait for trueup_x::A\n\
                     pub type trueup_x::A::Key = u8\n\
                     pub fn trueup_x::free() -> trueup_y::codec::B\n";
        assert_eq!(text(&strings(&lines), &modules), shown);
    }

    #[test]
    fn only_types_of_a_few_other_crates_may_show() {
        let text = "pub fn trueup_x::f<T>(core::time::Duration, &mut T::A) -> libc::c_int\n\
                    pub fn trueup_x::g(ipnetwork::IpNetwork) -> <T as redb::Key>::Self";
        assert_eq!(foreign(text), BTreeSet::from(["libc", "redb"]));
    }

    #[test]
    fn types_to_convert_may_show_in_their_module_alone() {
        let text = "impl trueup_netlink::packet::M for netlink_packet_route::rule::RuleMessage\n\
                    pub type netlink_packet_route::rule::RuleMessage::Object = trueup_net::Rule\n\
                    pub fn trueup_netlink::packet::f() -> netlink_packet_core::NetlinkHeader";
        assert!(foreign(text).is_empty());
        let elsewhere = "impl trueup_netlink::Error\n\
                         pub fn trueup_netlink::f() -> netlink_packet_core::DecodeError";
        assert_eq!(foreign(elsewhere), BTreeSet::from(["netlink_packet_core"]));
        let other = "pub fn trueup_netlink::packet::f() -> rtnetlink::Handle";
        assert_eq!(foreign(other), BTreeSet::from(["rtnetlink"]));
    }

    #[test]
    fn a_difference_names_the_lines() {
        let shown = difference(Path::new("api.txt"), "a\nb\n", "b\nc\n");
        assert_eq!(shown, "api.txt\n- a\n+ c\n");
    }
}

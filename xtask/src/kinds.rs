//! `cargo xtask kinds`: lists the places that match over four and more kinds of objects by hand.
//! Each of them needs a change for a new kind; the registry
//! (`crates/kernel/net/src/kinds/registry.rs`) avoids that.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

use crate::tools::{Result, files, read, root};

/// The number of such places that are permitted.
#[cfg(test)]
const ALLOWED: usize = 4;
/// The number of kinds from which a match counts.
const MANY: usize = 4;
const KINDS: [&str; 6] = ["Link", "Address", "Neighbour", "Route", "Rule", "Nexthop"];
const ENUMS: [&str; 3] = ["Kind", "Object", "ObjectKey"];

/// Prints the places, and their number.
pub(crate) fn run(sources: Option<PathBuf>) -> Result<()> {
    let places = places(&sources.unwrap_or_else(root))?;
    for (file, line, kinds) in &places {
        println!("{}:{line}: {kinds} kinds", file.display());
    }
    let files: BTreeSet<_> = places.iter().map(|(file, ..)| file).collect();
    println!("{} matches over {MANY} and more kinds, in {} files", places.len(), files.len());
    Ok(())
}

/// Returns file, line and number of kinds of each such match in the crates' sources.
fn places(root: &Path) -> Result<Vec<(PathBuf, usize, usize)>> {
    let mut places = Vec::new();
    for path in files(&root.join("crates"))? {
        let name = path.strip_prefix(root).unwrap_or(&path);
        if !is_production(name) {
            continue;
        }
        let file = syn::parse_file(&read(&path)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let mut matches = Matches::default();
        matches.visit_file(&file);
        let found = matches.found.into_iter();
        places.extend(found.map(|(line, kinds)| (name.to_path_buf(), line, kinds)));
    }
    Ok(places)
}

fn is_production(path: &Path) -> bool {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    path.extension().is_some_and(|it| it == "rs")
        && !parts.any(|part| matches!(part, "tests" | "tests.rs" | "test" | "examples"))
}

/// The matches in a file, with their lines and the number of kinds in their arms.
#[derive(Default)]
struct Matches {
    found: Vec<(usize, usize)>,
}

impl Visit<'_> for Matches {
    fn visit_expr_match(&mut self, expr: &syn::ExprMatch) {
        let mut named = Named::default();
        expr.arms.iter().for_each(|arm| named.visit_pat(&arm.pat));
        if named.kinds.len() >= MANY {
            let line = expr.match_token.span.start().line;
            self.found.push((line, named.kinds.len()));
        }
        syn::visit::visit_expr_match(self, expr);
    }

    fn visit_item_mod(&mut self, module: &syn::ItemMod) {
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

/// The kinds named in a pattern: `Object::Route(_)`, `Kind::Route`, `ObjectKey::Route(_)` and the
/// like.
#[derive(Default)]
struct Named {
    kinds: BTreeSet<String>,
}

impl Visit<'_> for Named {
    fn visit_path(&mut self, path: &syn::Path) {
        let mut names = path.segments.iter().rev().map(|segment| segment.ident.to_string());
        if let (Some(kind), Some(of)) = (names.next(), names.next())
            && KINDS.contains(&kind.as_str())
            && (ENUMS.contains(&of.as_str()) || of.ends_with("Key") || of == "Query")
        {
            self.kinds.insert(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_places_match_over_all_kinds_by_hand() {
        let places = places(&root()).unwrap();
        assert!(places.len() <= ALLOWED, "use the registry of kinds: {places:#?}");
    }

    #[test]
    fn a_match_counts_by_the_kinds_that_its_arms_name() {
        let text = "fn f() { match it { Kind::Link | Kind::Route => 1, Kind::Rule => 2, _ => 3 };
            match it { Object::Link(_) => 1, Object::Route(_) => 2, Object::Rule(_) => 3,
                Object::Nexthop(_) => 4, Object::Address(_) | Object::Neighbour(_) => 5 } }";
        let mut matches = Matches::default();
        matches.visit_file(&syn::parse_file(text).unwrap());
        assert_eq!(matches.found, [(2, 6)]);
    }
}

//! Checks the relations between the elements of a file: references, cycles, semaphores, paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::{Diagnostic, MAX_PROBLEMS};
use crate::file::File;
use crate::file_keys::SYSCTL;
use crate::graph::{EXEC, Exec, FILE, ManagedFile, NodeRef};
use crate::suggest::unknown;

/// Finds impossible relations. The names of files, and those of commands, are already unique.
pub(crate) fn check(file: &File) -> Vec<Diagnostic> {
    let execs = file.execs.as_deref().unwrap_or_default();
    let files = file.files.as_deref().unwrap_or_default();
    let mut wrong = Wrong { file, diagnostics: Vec::new() };
    wrong.paths(files);
    wrong.semaphores(execs);
    wrong.references(files, execs);
    if wrong.diagnostics.is_empty() {
        wrong.cycle(files, execs);
    }
    wrong.diagnostics
}

struct Wrong<'a> {
    file: &'a File,
    diagnostics: Vec<Diagnostic>,
}

impl Wrong<'_> {
    fn add(&mut self, section: &str, at: usize, message: String) {
        let location = self.file.locations.element(section, at);
        self.diagnostics.push(Diagnostic { location, message });
    }

    fn paths(&mut self, files: &[ManagedFile]) {
        let mut first = HashMap::new();
        for (at, file) in files.iter().enumerate() {
            if let Some(other) = first.insert(&file.path, file) {
                let (path, other) = (file.path.display(), &other.name);
                let message =
                    format!("the file `{other}` has the path {path} as well: remove one of them");
                self.add(FILE, at, message);
            }
        }
    }

    fn semaphores(&mut self, execs: &[Exec]) {
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for (at, exec) in execs.iter().enumerate() {
            for (id, count) in &exec.semaphores {
                let before = *counts.entry(id).or_insert(*count);
                if before != *count {
                    let message = format!(
                        "the semaphore `{id}` has the counts {before} and {count}: write one of \
                         them in every command"
                    );
                    self.add(EXEC, at, message);
                }
            }
        }
    }

    fn references(&mut self, files: &[ManagedFile], execs: &[Exec]) {
        let sections = sections(self.file);
        let files: BTreeSet<&str> = files.iter().map(|it| &*it.name).collect();
        let names: BTreeSet<&str> = execs.iter().map(|it| &*it.name).collect();
        for (section, at, references) in nodes(self.file) {
            for reference in references {
                let (sort, name, known) = match reference {
                    NodeRef::Section(name) => ("section", name, &sections),
                    NodeRef::File(name) => (FILE, name, &files),
                    NodeRef::Exec(name) => (EXEC, name, &names),
                };
                if known.contains(&**name) {
                    continue;
                }
                // Only the first diagnostics are reported.
                if self.diagnostics.len() > MAX_PROBLEMS {
                    return;
                }
                let message = if known.is_empty() {
                    format!("`{reference}` is not in this file: write a [[{sort}]] of it")
                } else {
                    unknown(sort, name, "this file", &Vec::from_iter(known.iter().copied()))
                };
                self.add(section, at, message);
            }
        }
    }

    /// Finds one cycle of files and commands. The nodes are numbered: all files, then all commands.
    /// Two more nodes stand for the two sections. Each comes after its section's elements.
    fn cycle(&mut self, files: &[ManagedFile], execs: &[Exec]) {
        let all_files = files.len() + execs.len();
        let all_execs = all_files + 1;
        let files_at = (0..files.len()).map(|at| ((FILE, &*files[at].name), at));
        let execs_at = (0..execs.len()).map(|at| ((EXEC, &*execs[at].name), files.len() + at));
        let positions: BTreeMap<(&str, &str), usize> = files_at.chain(execs_at).collect();
        let edges = nodes(self.file).map(|(_, _, references)| {
            let after = references.filter_map(|reference| match reference {
                NodeRef::File(name) => positions.get(&(FILE, &**name)).copied(),
                NodeRef::Exec(name) => positions.get(&(EXEC, &**name)).copied(),
                NodeRef::Section(name) if name == FILE => Some(all_files),
                NodeRef::Section(name) if name == EXEC => Some(all_execs),
                NodeRef::Section(_) => None,
            });
            after.collect()
        });
        let mut edges: Vec<Vec<usize>> = edges.collect();
        edges.push((0..files.len()).collect());
        edges.push((files.len()..all_files).collect());
        let Some(cycle) = find_cycle(&edges) else {
            return;
        };
        // No message names the sections' nodes.
        let places: Vec<(&str, usize)> = cycle
            .into_iter()
            .filter(|at| *at < all_files)
            .map(|at| at.checked_sub(files.len()).map_or((FILE, at), |exec| (EXEC, exec)))
            .collect();
        let Some(&(section, at)) = places.first() else {
            return;
        };
        let names: Vec<String> = places
            .iter()
            .chain([&(section, at)])
            .map(|(section, at)| match *section {
                FILE => format!("{FILE}.{}", files[*at].name),
                _ => format!("{EXEC}.{}", execs[*at].name),
            })
            .collect();
        let message = format!(
            "a cycle: {}; remove one of these from `after` or `on`",
            names.join(" runs after ")
        );
        self.add(section, at, message);
    }
}

/// Iterates over all files, then over all commands, each with its section, its position and its
/// predecessors.
fn nodes(
    file: &File,
) -> impl Iterator<Item = (&'static str, usize, impl Iterator<Item = &NodeRef>)> {
    let files = file.files.iter().flatten().map(|it| (&it.after, &it.on));
    let execs = file.execs.iter().flatten().map(|it| (&it.after, &it.on));
    files
        .enumerate()
        .map(|(at, order)| (FILE, at, order))
        .chain(execs.enumerate().map(|(at, order)| (EXEC, at, order)))
        .map(|(section, at, (after, on))| (section, at, after.iter().chain(on)))
}

/// Returns the names of the sections in the file.
fn sections(file: &File) -> BTreeSet<&'static str> {
    let sections = file.locations.elements.keys().chain(file.own_sections.keys()).copied();
    sections.chain(file.sysctl.is_some().then_some(SYSCTL)).collect()
}

/// Returns the nodes of a cycle. Each has an edge to the next one, and the last to the first.
/// `None` if there is no cycle. This does not recurse, as a file may have any number of nodes.
fn find_cycle(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut is_done = vec![false; edges.len()];
    let mut depth: Vec<Option<usize>> = vec![None; edges.len()];
    for start in 0..edges.len() {
        // The path to the current node. Each node has the number of its edges that were taken.
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((node, taken)) = path.last_mut() {
            if is_done[*node] {
                path.pop();
                continue;
            }
            let node = *node;
            match edges[node].get(*taken) {
                Some(&next) => {
                    *taken += 1;
                    depth[node] = Some(path.len() - 1);
                    if let Some(from) = depth[next].filter(|_| !is_done[next]) {
                        return Some(path[from..].iter().map(|(node, _)| *node).collect());
                    }
                    path.push((next, 0));
                }
                None => {
                    is_done[node] = true;
                    path.pop();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;

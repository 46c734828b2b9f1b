//! The order between files and commands by their paths. A command runs after the files that it
//! uses, and a file is written after a command that may make its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trueup_file::{Exec, File};

use super::{Has, exec_name, execs, file_name, files, names};

/// An order between two vertices that follows from their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Derived {
    /// The vertex that runs later.
    pub(crate) vertex: String,
    /// The vertex that runs first.
    pub(crate) after: String,
    /// True if `vertex` also waits until `after` is in place.
    pub(crate) is_needed: bool,
}

/// Returns the order from paths beside the declared one. It closes no cycle: the declared order
/// takes precedence, then files that commands use, then folders.
pub(crate) fn derived(declared: &File, has: &Has) -> Vec<Derived> {
    let mut order = Declared::of(declared, has);
    let mut found = Vec::new();
    let mut add = |vertex: String, after: String, is_needed| {
        if order.add(&vertex, &after) {
            found.push(Derived { vertex, after, is_needed });
        }
    };
    let by_path: BTreeMap<&Path, _> =
        files(declared).iter().map(|file| (&*file.path, file)).collect();
    let mut by_folder: BTreeMap<&Path, Vec<&Exec>> = BTreeMap::new();
    for exec in execs(declared) {
        for word in words(exec) {
            by_folder.entry(word).or_default().push(exec);
            if let Some(file) = by_path.get(word) {
                add(exec_name(exec), file_name(file), true);
            }
        }
    }
    for file in files(declared) {
        let above = file.path.ancestors().skip(1);
        let folders = above.filter(|folder| folder.parent().is_some());
        for exec in folders.filter_map(|folder| by_folder.get(folder)).flatten() {
            add(file_name(file), exec_name(exec), false);
        }
    }
    found
}

/// The predecessors of each vertex, by name.
struct Declared(BTreeMap<String, BTreeSet<String>>);

impl Declared {
    fn of(declared: &File, has: &Has) -> Declared {
        let files = files(declared).iter().map(|it| (file_name(it), (&it.after, &it.on)));
        let execs = execs(declared).iter().map(|it| (exec_name(it), (&it.after, &it.on)));
        let after = files.chain(execs).map(|(name, (after, on))| {
            let parents = after.iter().chain(on).flat_map(|it| names(it, declared, has));
            (name, parents.collect())
        });
        Declared(after.collect())
    }

    /// Adds that `vertex` runs after `after`, unless this is already known or contradicts the known
    /// order. Returns true if it was added.
    fn add(&mut self, vertex: &str, after: &str) -> bool {
        if self.leads(after, vertex) {
            return false;
        }
        self.0.entry(vertex.to_owned()).or_default().insert(after.to_owned())
    }

    /// True if `from` is `to`, or runs after it directly or indirectly.
    fn leads(&self, from: &str, to: &str) -> bool {
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(vertex) = open.pop() {
            let next = self.0.get(vertex).into_iter().flatten();
            open.extend(next.map(|it| &**it).filter(|it| seen.insert(it)));
        }
        seen.contains(to)
    }
}

/// Returns the absolute paths among the words of a command and of its check.
fn words(exec: &Exec) -> impl Iterator<Item = &Path> {
    let check = exec.check.iter().flatten();
    let words = exec.command.iter().chain(check).map(Path::new);
    words.filter(|word| word.is_absolute())
}

#[cfg(test)]
mod tests {
    use trueup_file::TableNames;

    use super::*;

    /// Returns the predecessors of each vertex, by the section's name. A `!` marks those it needs
    /// in place.
    fn found(text: &str) -> Vec<String> {
        let file = File::parse("f.toml", text.as_bytes(), &TableNames::default()).unwrap();
        let has = Has { of_settings: Vec::new(), own: Vec::new(), world: false };
        let derived = derived(&file, &has).into_iter();
        derived
            .map(|it| {
                let mark = if it.is_needed { "!" } else { "" };
                format!("{} {}{mark}", it.vertex, it.after).replace("file:/srv/", "")
            })
            .collect()
    }

    #[test]
    fn a_command_comes_after_what_it_uses_and_before_what_is_in_its_folder() {
        let found = found(
            "[[file]]\nname = \"script\"\npath = \"/srv/run\"\ncontent = \"x\"\n\
             [[file]]\nname = \"check\"\npath = \"/srv/check\"\ncontent = \"x\"\n\
             [[file]]\nname = \"conf\"\npath = \"/srv/app/a/conf\"\ncontent = \"x\"\n\
             [[exec]]\nname = \"make\"\ncommand = [\"/srv/run\", \"/srv/app\"]\n\
             check = [\"/srv/check\"]\n\
             [[exec]]\nname = \"use\"\ncommand = [\"/bin/cat\", \"/srv/app/a/conf\"]\n\
             on = [\"exec.make\"]\n",
        );
        let expected =
            ["exec.make run!", "exec.make check!", "exec.use app/a/conf!", "app/a/conf exec.make"];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_a_command_depends_on_does_not_wait_for_it() {
        let found = found(
            "[[file]]\nname = \"conf\"\npath = \"/srv/app/conf\"\ncontent = \"x\"\n\
             [[file]]\nname = \"other\"\npath = \"/srv/app/other\"\ncontent = \"x\"\n\
             [[file]]\nname = \"made\"\npath = \"/srv/made\"\nsource = \"/srv/source\"\n\
             after = [\"exec.label\"]\n\
             [[exec]]\nname = \"first\"\ncommand = [\"/bin/true\"]\non = [\"file.conf\"]\n\
             [[exec]]\nname = \"label\"\n\
             command = [\"/bin/ls\", \"/srv/app\", \"/srv/made\"]\non = [\"exec.first\"]\n",
        );
        assert_eq!(found, ["app/other exec.label"]);
    }
}

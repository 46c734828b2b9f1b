//! The order between files and commands that their paths say: a command runs after the files that it
//! uses, and a file is written after a command that may make its folder.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trueup_file::{Exec, File, ManagedFile, NodeRef};

use super::{execs, files};

/// A file or a command, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    File(usize),
    Exec(usize),
}

/// What files and commands run after, beside what is declared. There is no cycle in it.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// The files that a command uses: its program, that of its check, or an argument of one.
    used: BTreeMap<usize, BTreeSet<usize>>,
    /// The commands that have a folder of the file among their arguments.
    before: BTreeMap<usize, BTreeSet<usize>>,
}

impl Derived {
    pub(super) fn of(declared: &File) -> Derived {
        let (files, execs) = (files(declared), execs(declared));
        let mut derived = Derived::default();
        let by_path: BTreeMap<&Path, usize> = (files.iter().enumerate())
            .map(|(at, file)| (&*file.path, at))
            .collect();
        for (at, exec) in execs.iter().enumerate() {
            let used = words(exec).filter_map(|word| by_path.get(word).copied());
            derived.used.insert(at, used.collect());
        }
        let mut by_folder: BTreeMap<&Path, BTreeSet<usize>> = BTreeMap::new();
        for (at, exec) in execs.iter().enumerate() {
            words(exec).for_each(|word| _ = by_folder.entry(word).or_default().insert(at));
        }
        for (at, file) in files.iter().enumerate() {
            let folders = file.path.ancestors().skip(1);
            let folders = folders.filter(|folder| folder.parent().is_some());
            let makers = folders.filter_map(|folder| by_folder.get(folder)).flatten();
            for maker in makers {
                if !derived.leads(files, execs, Node::Exec(*maker), Node::File(at)) {
                    derived.before.entry(at).or_default().insert(*maker);
                }
            }
        }
        derived
    }

    /// Returns the positions of the files that a command uses.
    pub(super) fn used_by(&self, exec: usize) -> impl Iterator<Item = usize> {
        self.used.get(&exec).into_iter().flatten().copied()
    }

    /// Returns the positions of the commands that may make a folder of a file.
    pub(super) fn before_file(&self, file: usize) -> impl Iterator<Item = usize> {
        self.before.get(&file).into_iter().flatten().copied()
    }

    /// True if one runs after the other, over any number of others.
    fn leads(&self, files: &[ManagedFile], execs: &[Exec], from: Node, to: Node) -> bool {
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = open.pop() {
            let next = match node {
                Node::File(at) => self.before_file(at).map(Node::Exec).collect(),
                Node::Exec(at) => self.after_exec(files, execs, at),
            };
            open.extend(next.into_iter().filter(|node| seen.insert(*node)));
        }
        seen.contains(&to)
    }

    fn after_exec(&self, files: &[ManagedFile], execs: &[Exec], at: usize) -> Vec<Node> {
        let used = self.used_by(at).map(Node::File);
        let declared = execs[at].runs_after().flat_map(|reference| {
            let file = |it: &ManagedFile| match reference {
                NodeRef::File(name) => it.name == *name,
                NodeRef::Section(name) => name == "file",
                NodeRef::Exec(_) => false,
            };
            let exec = |it: &Exec| match reference {
                NodeRef::Exec(name) => it.name == *name,
                NodeRef::Section(name) => name == "exec",
                NodeRef::File(_) => false,
            };
            let of_files = (0..files.len()).filter(|at| file(&files[*at]));
            let of_execs = (0..execs.len()).filter(|at| exec(&execs[*at]));
            let nodes = of_files.map(Node::File).chain(of_execs.map(Node::Exec));
            nodes.collect::<Vec<Node>>()
        });
        used.chain(declared).collect()
    }
}

/// Returns the program and the arguments of a command and of its check, those that are paths.
fn words(exec: &Exec) -> impl Iterator<Item = &Path> {
    let check = exec.check.iter().flatten();
    let words = exec.command.iter().chain(check).map(Path::new);
    words.filter(|word| word.is_absolute())
}

#[cfg(test)]
mod tests {
    use trueup_file::TableNames;

    use super::*;

    fn declared(text: &str) -> File {
        File::parse("f.toml", text.as_bytes(), &TableNames::default()).unwrap()
    }

    #[test]
    fn a_command_comes_after_what_it_uses_and_before_what_is_in_its_folder() {
        let file = declared(
            "[[file]]\nname = \"script\"\npath = \"/srv/run\"\ncontent = \"x\"\n\
             [[file]]\nname = \"check\"\npath = \"/srv/check\"\ncontent = \"x\"\n\
             [[file]]\nname = \"conf\"\npath = \"/srv/app/a/conf\"\ncontent = \"x\"\n\
             [[exec]]\nname = \"make\"\ncommand = [\"/srv/run\", \"/srv/app\"]\n\
             check = [\"/srv/check\"]\n\
             [[exec]]\nname = \"use\"\ncommand = [\"/bin/cat\", \"/srv/app/a/conf\"]\n\
             on = [\"exec.make\"]\n",
        );
        let derived = Derived::of(&file);
        assert_eq!(derived.used_by(0).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(derived.used_by(1).collect::<Vec<_>>(), [2]);
        assert_eq!(derived.before_file(2).collect::<Vec<_>>(), [0]);
        assert_eq!(derived.before_file(0).count(), 0);
    }

    #[test]
    fn what_a_command_depends_on_does_not_wait_for_it() {
        let file = declared(
            "[[file]]\nname = \"conf\"\npath = \"/srv/app/conf\"\ncontent = \"x\"\n\
             [[file]]\nname = \"other\"\npath = \"/srv/app/other\"\ncontent = \"x\"\n\
             [[exec]]\nname = \"first\"\ncommand = [\"/bin/true\"]\non = [\"file.conf\"]\n\
             [[exec]]\nname = \"label\"\ncommand = [\"/bin/ls\", \"/srv/app\"]\n\
             on = [\"exec.first\"]\n",
        );
        let derived = Derived::of(&file);
        assert_eq!(derived.before_file(0).count(), 0, "it comes before it");
        assert_eq!(derived.before_file(1).collect::<Vec<_>>(), [1]);
    }
}

//! `deploy`: numbered file trees.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use trueup::path::{ErrorKind, TrustedUsers};
use trueup::world::Deploy;

use super::{Opened, Store, print};
use crate::{Common, output};
use trueup_agent::exchange::Use;

/// What to do.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Print the deploys, the first one first
    Ls(Store),
    /// Add the files of a directory as the newest deploy; an operator may
    ///
    /// Links and other special files are refused. In a folder of a user who is neither root nor the
    /// caller, so are files of others than that user.
    Add {
        #[command(flatten)]
        store: Store,
        /// The directory
        directory: PathBuf,
    },
    /// Print a file of a deploy, checked by its hash
    Cat {
        #[command(flatten)]
        store: Store,
        /// Its URI, as `ls` prints it, with the file's path
        uri: String,
    },
    /// Remove content that no deploy refers to, as an `add` leaves it that was killed, or lost
    /// against another one; an operator may
    ///
    /// It may run at any time. An `add` that runs meanwhile may add nothing, and says so.
    Prune(Store),
}

/// The largest tree, in bytes. All of it is in memory, and in the store.
const LARGEST: u64 = 256 << 20;

/// A deploy and its number, as printed.
#[derive(Serialize)]
struct Record {
    number: u64,
    uri: String,
    files: BTreeMap<String, u64>,
}

impl Record {
    fn new(deploy: &Deploy) -> Record {
        let files = deploy.files.iter();
        Record {
            number: deploy.number,
            uri: deploy.uri(""),
            files: files.map(|(path, file)| (path.clone(), file.size)).collect(),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.files.values().sum();
        let files = output::count(self.files.len(), "file", "files");
        write!(f, "{} {}: {files}, {bytes} bytes", self.number, self.uri)
    }
}

/// The number and size of the chunks that `prune` removed.
#[derive(Serialize)]
struct Pruned {
    chunks: usize,
    bytes: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = output::count(self.chunks, "chunk", "chunks");
        let bytes = self.bytes;
        write!(f, "removed {chunks} that no deploy refers to, {bytes} bytes")
    }
}

pub(super) fn deploy(common: &Common, task: &Task) -> Result<()> {
    match task {
        Task::Ls(store) => {
            let Opened { world, .. } = store.open(common, Use::Read)?;
            for deploy in world.deploys()? {
                print(common.format, &Record::new(&deploy))?;
            }
        }
        Task::Add { store, directory } => {
            let mut files = BTreeMap::new();
            let mut rest = LARGEST;
            let users = TrustedUsers::current()?;
            read_tree(&users, directory, directory, &mut files, &mut rest)?;
            let Opened { world, .. } = store.open(common, Use::Write)?;
            let newest = world.deploys()?.pop().map(|deploy| deploy.hash);
            let deploy = world.add_deploy(newest, &files)?;
            print(common.format, &Record::new(&deploy))?;
        }
        Task::Cat { store, uri } => {
            let Opened { world, .. } = store.open(common, Use::Read)?;
            let content = world.read_uri(uri)?;
            output::print(|out| out.write_all(&content))?;
        }
        Task::Prune(store) => {
            let Opened { world, .. } = store.open(common, Use::Write)?;
            let (chunks, bytes) = world.remove_unused_chunks(usize::MAX)?;
            print(common.format, &Pruned { chunks, bytes })?;
        }
    }
    Ok(())
}

/// Reads a tree. Each file is opened by way of `trueup_path`. So a user who can write in the tree
/// cannot make this read another user's files.
#[expect(
    clippy::disallowed_methods,
    reason = "names alone: each file is read by way of `trueup_path`"
)]
fn read_tree(
    users: &TrustedUsers,
    root: &Path,
    directory: &Path,
    files: &mut BTreeMap<String, Vec<u8>>,
    rest: &mut u64,
) -> Result<()> {
    let entries: Vec<fs::DirEntry> = fs::read_dir(directory)
        .and_then(Iterator::collect)
        .with_context(|| format!("cannot read {}", directory.display()))?;
    for entry in entries {
        let path = entry.path();
        let kind =
            entry.file_type().with_context(|| format!("cannot read {}", directory.display()))?;
        if kind.is_dir() {
            read_tree(users, root, &path, files, rest)?;
            continue;
        }
        let shown = path.display();
        let name = path.strip_prefix(root).ok().and_then(Path::to_str);
        let Some(name) = name.filter(|_| kind.is_file()) else {
            bail!("{shown} is no regular file with a name in UTF-8: a deploy has no others");
        };
        let content = match users.read_of_one_owner(&path, *rest) {
            Err(error) if error.kind() == ErrorKind::TooLarge => {
                bail!("{shown}: the tree has more than {LARGEST} bytes, the most of a deploy");
            }
            content => content?,
        };
        *rest -= content.len() as u64;
        files.insert(name.to_owned(), content);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use trueup_testkit::Scratch;

    use super::*;

    #[test]
    fn a_tree_has_the_files_of_its_owner_and_leads_nowhere_else() {
        let tree = Scratch::make("tree").unwrap();
        let read = || {
            let mut files = BTreeMap::new();
            let users = TrustedUsers::current().unwrap();
            read_tree(&users, &tree, &tree, &mut files, &mut 10).map(|()| files)
        };
        fs::create_dir(tree.join("sub")).unwrap();
        fs::write(tree.join("sub/a"), "a").unwrap();
        assert_eq!(read().unwrap(), [("sub/a".to_owned(), b"a".to_vec())].into());
        symlink("/etc/passwd", tree.join("b")).unwrap();
        assert!(read().unwrap_err().to_string().contains("no regular file"));
        fs::remove_file(tree.join("b")).unwrap();
        fs::write(tree.join("b"), [b'b'; 10]).unwrap();
        assert!(read().unwrap_err().to_string().contains("more than"));
        fs::remove_file(tree.join("b")).unwrap();
        // A user who can write in the tree could exchange the folder for another one at any time.
        if chown(&tree, Some(4_242), None).is_ok() {
            assert!(read().unwrap_err().to_string().contains("another folder"));
            chown(tree.join("sub"), Some(4_242), None).unwrap();
            assert!(read().unwrap_err().to_string().contains("another user"));
            chown(tree.join("sub/a"), Some(4_242), None).unwrap();
            assert_eq!(read().unwrap().len(), 1);
        }
    }
}

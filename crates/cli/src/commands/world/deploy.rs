//! `deploy`: numbered file trees.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use trueup::journal::open_regular;
use trueup::world::Deploy;

use super::{Opened, Store, print};
use crate::world::Use;
use crate::{Common, output};

/// What to do.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Print the deploys, the first one first
    Ls(Store),
    /// Add the files of a directory as the newest deploy; an operator may
    ///
    /// Links and other special files are refused.
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

/// The largest tree, in bytes: all of it is in memory, and in the store.
const LARGEST: u64 = 256 << 20;

/// A deploy.
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
            files: files
                .map(|(path, file)| (path.clone(), file.size))
                .collect(),
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

/// What `prune` removed.
#[derive(Serialize)]
struct Pruned {
    chunks: usize,
    bytes: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = output::count(self.chunks, "chunk", "chunks");
        let bytes = self.bytes;
        write!(
            f,
            "removed {chunks} that no deploy refers to, {bytes} bytes"
        )
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
            read_tree(directory, directory, &mut files, &mut rest)?;
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
            let removed = world.remove_unused_chunks(usize::MAX)?;
            let (chunks, bytes) = (removed.chunks, removed.bytes);
            print(common.format, &Pruned { chunks, bytes })?;
        }
    }
    Ok(())
}

fn read_tree(
    root: &Path,
    directory: &Path,
    files: &mut BTreeMap<String, Vec<u8>>,
    rest: &mut u64,
) -> Result<()> {
    let unreadable = || format!("cannot read {}", directory.display());
    for entry in fs::read_dir(directory).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let path = entry.path();
        let kind = entry.file_type().with_context(unreadable)?;
        if kind.is_dir() {
            read_tree(root, &path, files, rest)?;
            continue;
        }
        let shown = path.display();
        let name = path.strip_prefix(root).ok().and_then(Path::to_str);
        let Some(name) = name.filter(|_| kind.is_file()) else {
            bail!("{shown} is no regular file with a name in UTF-8: a deploy has no others");
        };
        let file = open_regular(&path, OpenOptions::new().read(true));
        let file = file.with_context(|| format!("cannot open {shown}"))?;
        let mut content = Vec::new();
        file.take(*rest + 1)
            .read_to_end(&mut content)
            .with_context(|| format!("cannot read {shown}"))?;
        let size = content.len() as u64;
        *rest = rest.checked_sub(size).with_context(|| {
            format!("{shown}: the tree has more than {LARGEST} bytes, the most of a deploy")
        })?;
        files.insert(name.to_owned(), content);
    }
    Ok(())
}

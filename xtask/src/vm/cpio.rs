//! The archive that the kernel unpacks at boot: cpio in its "newc" format (kernel documentation,
//! driver-api/early-userspace/buffer-format.rst). Root owns everything in it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use cpio::newc::{Builder, trailer};

use crate::tools::{Result, at};

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// A growing archive. It adds the parents of each path by itself.
pub(super) struct Archive<W> {
    out: W,
    paths: BTreeSet<String>,
}

impl Archive<BufWriter<File>> {
    pub(super) fn create(path: &Path) -> Result<Self> {
        Ok(Archive::new(BufWriter::new(at(path, File::create(path))?)))
    }
}

impl<W: Write> Archive<W> {
    fn new(out: W) -> Archive<W> {
        Archive { out, paths: BTreeSet::new() }
    }

    pub(super) fn directory(&mut self, path: &Path) -> Result<()> {
        let mut folders: Vec<_> = path.ancestors().collect();
        folders.reverse();
        folders.into_iter().try_for_each(|path| self.entry(path, DIRECTORY, &[]))
    }

    /// Adds an executable file.
    pub(super) fn file(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        self.with_parents(path, PROGRAM, content)
    }

    /// Adds a file with the permissions of `mode`.
    pub(super) fn file_with_mode(&mut self, path: &Path, mode: u32, content: &[u8]) -> Result<()> {
        self.with_parents(path, FILE | mode, content)
    }

    pub(super) fn link(&mut self, path: &Path, to: &str) -> Result<()> {
        self.with_parents(path, LINK, to.as_bytes())
    }

    pub(super) fn finish(self) -> Result<()> {
        at(Path::new("the archive"), trailer(self.out).and_then(|mut out| out.flush()))
    }

    fn with_parents(&mut self, path: &Path, mode: u32, content: &[u8]) -> Result<()> {
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.entry(path, mode, content)
    }

    /// Adds an entry, unless the archive has the path.
    fn entry(&mut self, path: &Path, mode: u32, content: &[u8]) -> Result<()> {
        let name = path.to_string_lossy().trim_start_matches('/').to_owned();
        if name.is_empty() || !self.paths.insert(name.clone()) {
            return Ok(());
        }
        // The kernel treats entries with the same inode number as hard links.
        let entry = Builder::new(&name).ino(self.paths.len() as u32).mode(mode);
        let size = u32::try_from(content.len()).map_err(|_| io::ErrorKind::FileTooLarge.into());
        let written = size.and_then(|size| {
            let mut record = entry.write(&mut self.out, size);
            record.write_all(content)?;
            record.finish().map(drop)
        });
        at(path, written)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use cpio::newc::Reader;

    use super::*;

    #[test]
    fn each_path_has_one_entry_and_parents_come_first() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file(Path::new("/a/b"), b"12345").unwrap();
        archive.file(Path::new("/a/b"), b"again").unwrap();
        archive.link(Path::new("/a/c"), "b").unwrap();
        archive.finish().unwrap();

        let mut names = Vec::new();
        let mut rest = &bytes[..];
        loop {
            let mut record = Reader::new(rest).unwrap();
            if record.entry().is_trailer() {
                break;
            }
            let (name, mode) = (record.entry().name().to_owned(), record.entry().mode());
            let mut content = String::new();
            record.read_to_string(&mut content).unwrap();
            names.push((name, format!("{mode:o}"), content));
            rest = record.finish().unwrap();
        }
        let expected = [("a", "40755", ""), ("a/b", "100755", "12345"), ("a/c", "120777", "b")]
            .map(|(name, mode, content)| (name.to_owned(), mode.to_owned(), content.to_owned()));
        assert_eq!(names, expected);
    }
}

//! What a file vertex has created, and its record.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The first byte of a record.
const VERSION: u8 = 1;

type Hash = [u8; 32];

/// The contents that the file may have by what was written into it, if it was created by the
/// vertex; none if another writer created it.
#[derive(Clone, Debug, Default)]
pub(super) struct Created {
    written: Vec<Hash>,
    /// What the next run would write.
    planned: Option<Hash>,
}

impl Created {
    /// Takes note that a file with this content would be created, or would replace the one that
    /// is there. True if the record says so already.
    pub(super) fn plan(&mut self, is_there: bool, content: &[u8]) -> bool {
        if !is_there {
            // What was created is gone.
            self.written.clear();
        }
        let is_ours = !is_there || !self.written.is_empty();
        let before = self.planned;
        self.planned = is_ours.then(|| hash(content));
        self.planned.is_none() || self.planned == before
    }

    /// Takes note that what was planned is about to be done: should it fail, it may be done.
    pub(super) fn begin(&mut self) {
        self.written.extend(self.planned.take());
    }

    /// Takes note that the file has its declared content.
    pub(super) fn finish(&mut self, content: &[u8]) {
        self.planned = None;
        if !self.written.is_empty() {
            self.written = vec![hash(content)];
        }
    }

    /// True if the file is as the vertex created it.
    pub(super) fn is_unchanged(&self, content: &[u8]) -> bool {
        let content = hash(content);
        self.planned.iter().chain(&self.written).any(|it| *it == content)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.planned.is_none() && self.written.is_empty()
    }

    /// Returns the record of a file that was created.
    pub(super) fn to_record(&self, path: &Path) -> Option<Vec<u8>> {
        let hashes: Vec<&Hash> = self.planned.iter().chain(&self.written).collect();
        let count = u8::try_from(hashes.len()).ok().filter(|it| *it > 0)?;
        let mut record = vec![VERSION, count];
        hashes.iter().for_each(|it| record.extend(*it));
        record.extend(path.as_os_str().as_bytes());
        Some(record)
    }

    /// Reads a record.
    pub(super) fn from_record(record: &[u8]) -> Option<(PathBuf, Created)> {
        let (&[VERSION, count], rest) = record.split_first_chunk()? else {
            return None;
        };
        let (hashes, path) = rest.split_at_checked(32 * usize::from(count))?;
        let (written, _) = hashes.as_chunks();
        let path = Path::new(OsStr::from_bytes(path)).to_owned();
        let created = Created { written: written.to_vec(), planned: None };
        Some((path, created))
    }
}

fn hash(content: &[u8]) -> Hash {
    Sha256::digest(content).into()
}

#[cfg(test)]
mod tests;

//! The record of the content that a file vertex created.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The format's version, the first byte of a record.
const VERSION: u8 = 1;

type Hash = [u8; 32];

/// The hashes of the contents that the vertex may have written, if it created the file; empty if
/// another writer created it.
#[derive(Clone, Debug, Default)]
pub(super) struct Created {
    written: Vec<Hash>,
    /// The hash of the content that the next run would write.
    planned: Option<Hash>,
}

impl Created {
    /// Notes that the next run would create a file with this content, or replace the existing one.
    /// True if the record already covers this.
    pub(super) fn plan(&mut self, is_there: bool, content: &[u8]) -> bool {
        if !is_there {
            // The created file is gone.
            self.written.clear();
        }
        let is_ours = !is_there || !self.written.is_empty();
        let before = self.planned;
        self.planned = is_ours.then(|| hash(content));
        self.planned.is_none() || self.planned == before
    }

    /// Notes that the planned write begins: if it fails, the file may still have changed.
    pub(super) fn begin(&mut self) {
        self.written.extend(self.planned.take());
    }

    /// Notes that the file has its declared content.
    pub(super) fn finish(&mut self, content: &[u8]) {
        self.planned = None;
        if !self.written.is_empty() {
            self.written = vec![hash(content)];
        }
    }

    /// True if the file still has a content that the vertex wrote.
    pub(super) fn is_unchanged(&self, content: &[u8]) -> bool {
        let content = hash(content);
        self.planned.iter().chain(&self.written).any(|it| *it == content)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.planned.is_none() && self.written.is_empty()
    }

    /// Returns the record of a created file; `None` if the vertex did not create it.
    pub(super) fn to_record(&self, path: &Path) -> Option<Vec<u8>> {
        let hashes: Vec<&Hash> = self.planned.iter().chain(&self.written).collect();
        let count = u8::try_from(hashes.len()).ok().filter(|it| *it > 0)?;
        let mut record = vec![VERSION, count];
        hashes.iter().for_each(|it| record.extend(*it));
        record.extend(path.as_os_str().as_bytes());
        Some(record)
    }

    /// Decodes a record; `None` if it has another form.
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

//! The content of deploys: chunks by their hashes, and the removal of chunks that no deploy names.

use std::collections::BTreeSet;

use super::{Deploy, DeployedFile};
use crate::world::{ATTEMPTS, fence, write};
use crate::{Compare, Entry, Error, ErrorKind, Hash, World};

/// The longest chunk, in bytes.
const CHUNK: usize = 256 << 10;

/// Returns the chunks that deploys name. These must stay.
pub(super) fn named_chunks(deploys: &[Deploy]) -> BTreeSet<Hash> {
    let files = deploys.iter().flat_map(|deploy| deploy.files.values());
    files.flat_map(|file| &file.chunks).copied().collect()
}

impl World {
    /// Writes a file's chunks. Compares a chunk first if it must stay. Writes every other chunk,
    /// even if it exists, because it may be about to be removed.
    pub(super) fn write_chunks(
        &self,
        content: &[u8],
        kept: &BTreeSet<Hash>,
    ) -> Result<DeployedFile, Error> {
        let longest = CHUNK.min(self.store.limits().bytes / 2).max(1);
        let mut chunks = Vec::new();
        for chunk in content.chunks(longest) {
            let hash = Hash::of(chunk);
            let key = self.chunk_key(hash);
            if kept.contains(&hash) {
                self.update(&key, None, |_| Ok(Some(chunk.to_vec())))?;
            } else {
                self.put(&key, chunk)?;
            }
            chunks.push(hash);
        }
        let size = content.len() as u64;
        Ok(DeployedFile { size, chunks })
    }

    /// Writes a value, whether or not the key exists. Repeats the write if its result is unknown.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let writes = [write(key, Some(value.to_vec()), None)];
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.store.commit(&[], &writes) {
                Err(error) if error.kind() == ErrorKind::Indeterminate && attempt < ATTEMPTS => {}
                result => return result.map(drop),
            }
        }
    }

    /// Reads a chunk. The inner error says why it is not valid.
    pub(super) fn read_chunk(&self, hash: Hash) -> Result<Result<Vec<u8>, String>, Error> {
        let entry = self.entry(&self.chunk_key(hash))?;
        Ok(match entry {
            Some(entry) if Hash::of(&entry.value) == hash => Ok(entry.value),
            Some(_) => Err(format!("chunk {hash} is another one")),
            None => Err(format!("chunk {hash} is missing")),
        })
    }

    /// Returns the comparison that nothing is removed from now on.
    pub(super) fn removal_fence(&self) -> Result<Compare, Error> {
        let key = self.keys.removal();
        let entry = self.entry(&key)?;
        Ok(fence(&key, entry.as_ref()))
    }

    /// Removes content that no deploy names, at most `limit` chunks. An unfinished deploy leaves
    /// such content, or one that lost against another. Returns the number of chunks and their
    /// bytes. A deploy that is being added meanwhile fails with [`Conflict`](ErrorKind::Conflict),
    /// and must be added again. Only an operator may.
    ///
    /// # Errors
    ///
    /// The errors of [`deploys`](Self::deploys). In that case nothing is removed.
    pub fn remove_unused_chunks(&self, limit: usize) -> Result<(usize, u64), Error> {
        // From here on, a deploy that was begun before cannot be added. One that begins later
        // writes its chunks again.
        let key = self.keys.removal();
        let id = format!("{:032x}", fastrand::u128(..)).into_bytes();
        self.put(&key, &id)?;
        let Some(begun) = self.entry(&key)?.map(|it| it.modified) else {
            return Ok((0, 0));
        };
        let named = named_chunks(&self.deploys()?);
        let (mut removed, mut bytes) = (0, 0);
        // One part at a time, because all content may not fit into memory.
        for part in 0..=u8::MAX {
            let prefix = [self.keys.cluster("chunks"), format!("{part:02x}").into()].concat();
            let (_, mut unused) = self.store.read(&prefix, None)?;
            unused.retain(|it| it.modified < begun && !self.is_named(it, &named));
            unused.truncate(limit - removed);
            for some in unused.chunks((self.store.limits().count / 2).max(1)) {
                let (more, their_bytes) = self.remove(some)?;
                removed += more;
                bytes += their_bytes;
            }
            if removed >= limit {
                break;
            }
        }
        Ok((removed, bytes))
    }

    fn is_named(&self, entry: &Entry, named: &BTreeSet<Hash>) -> bool {
        let chunks = self.keys.cluster("chunks");
        let text = entry.key.strip_prefix(&chunks[..]);
        let hash = text.and_then(|it| str::from_utf8(it).ok()?.parse().ok());
        hash.is_some_and(|hash| named.contains(&hash))
    }

    /// Removes entries as they were read. Entries that were written since then stay.
    fn remove(&self, entries: &[Entry]) -> Result<(usize, u64), Error> {
        let compares: Vec<_> = entries.iter().map(|it| fence(&it.key, Some(it))).collect();
        let writes: Vec<_> = entries.iter().map(|it| write(&it.key, None, None)).collect();
        if self.store.commit(&compares, &writes)?.is_some() {
            return Ok((entries.len(), entries.iter().map(|it| it.value.len() as u64).sum()));
        }
        if entries.len() <= 1 {
            return Ok((0, 0));
        }
        let (some, others) = entries.split_at(entries.len() / 2);
        let (one, other) = (self.remove(some)?, self.remove(others)?);
        Ok((one.0 + other.0, one.1 + other.1))
    }

    fn chunk_key(&self, hash: Hash) -> Vec<u8> {
        let chunks = self.keys.cluster("chunks");
        [chunks, hash.to_string().into_bytes()].concat()
    }
}

//! The image of a file: what was read of it stays as it was read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, PoisonError};

use crate::storage::Readable;

/// The length of the pieces that are read, as redb's pages are.
const PIECE: u64 = 4096;

/// The bytes that an image holds at most: no journal has so many in use.
const MAX_HELD: usize = 1 << 30;

/// A file of which each byte is read once, and held in memory. So another process may write to it,
/// and what is read twice is the same. What is not read, such as a hole, costs nothing.
#[derive(Debug)]
pub(crate) struct Image {
    file: File,
    len: u64,
    pieces: Mutex<BTreeMap<u64, Box<[u8]>>>,
}

impl Image {
    pub(crate) fn new(file: File) -> io::Result<Image> {
        let len = file.metadata()?.len();
        let pieces = Mutex::default();
        Ok(Image { file, len, pieces })
    }

    fn read_piece(&self, number: u64) -> io::Result<Box<[u8]>> {
        let at = number * PIECE;
        let len = PIECE.min(self.len.saturating_sub(at)) as usize;
        let mut bytes = vec![0; len].into_boxed_slice();
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

impl Readable for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(out.len() as u64) > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (number, within) = (at / PIECE, (at % PIECE) as usize);
            if !pieces.contains_key(&number) {
                if pieces.len() >= MAX_HELD / PIECE as usize {
                    let message =
                        "more than 1 GiB of it is in use, the most that is held in memory";
                    return Err(io::Error::new(io::ErrorKind::OutOfMemory, message));
                }
                pieces.insert(number, self.read_piece(number)?);
            }
            let piece = pieces
                .get(&number)
                .and_then(|piece| piece.get(within..))
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let count = piece.len().min(out.len() - done);
            out[done..done + count].copy_from_slice(&piece[..count]);
            done += count;
        }
        Ok(())
    }
}

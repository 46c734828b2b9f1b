//! Where a journal lies: a file, or whatever else keeps bytes. Not what the bytes mean.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that outlive the process: a file, or in tests a device that loses what was not synced.
///
/// The journal never calls a method that changes something from two threads at once.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// The length in bytes.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    fn len(&self) -> io::Result<u64>;

    /// Whether the length is 0.
    ///
    /// # Errors
    ///
    /// When the system does not tell.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    ///
    /// When it cannot be filled, also because the end comes before.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    ///
    /// When not all was written.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts, or extends with zeros.
    ///
    /// # Errors
    ///
    /// When it did not happen.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns once all that was written before, and the length, would be read back after a loss of power.
    ///
    /// # Errors
    ///
    /// When that is not sure. What was written before is then lost or not; a second call says nothing about it.
    fn sync(&self) -> io::Result<()>;
}

impl Storage for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Reads from another storage and keeps in memory what is written: it looks at a file, and can even repair what it sees,
/// without a write to it.
#[derive(Debug)]
pub(crate) struct Overlay {
    below: Arc<dyn Storage>,
    over: Mutex<Over>,
}

#[derive(Debug)]
struct Over {
    len: u64,
    /// What lies below counts up to here.
    below: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

const PAGE: u64 = 4096;

impl Overlay {
    pub(crate) fn new(below: Arc<dyn Storage>) -> io::Result<Self> {
        let len = below.len()?;
        let over = Over {
            len,
            below: len,
            pages: BTreeMap::new(),
        };
        Ok(Overlay {
            below,
            over: Mutex::new(over),
        })
    }

    /// Calls `each` with every page touched by the range, the offset in it and the range of the buffer.
    fn pages(
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let count = (PAGE as usize - within).min(len - done);
            each(at / PAGE, within, done..done + count)?;
            done += count;
        }
        Ok(())
    }

    fn read_below(&self, over: &Over, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let there = over.below.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_below, rest) = out.split_at_mut(there);
        rest.fill(0);
        if from_below.is_empty() {
            return Ok(());
        }
        self.below.read(offset, from_below)
    }
}

impl Storage for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.over.lock().unwrap_or_else(PoisonError::into_inner).len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if offset.saturating_add(out.len() as u64) > over.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Overlay::pages(offset, out.len(), |page, within, range| {
            let out = &mut out[range];
            match over.pages.get(&page) {
                Some(bytes) => {
                    out.copy_from_slice(&bytes[within..within + out.len()]);
                    Ok(())
                }
                None => self.read_below(&over, page * PAGE + within as u64, out),
            }
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        Overlay::pages(offset, data.len(), |page, within, range| {
            if !over.pages.contains_key(&page) {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                self.read_below(&over, page * PAGE, &mut bytes)?;
                over.pages.insert(page, bytes);
            }
            if let Some(bytes) = over.pages.get_mut(&page) {
                bytes[within..within + range.len()].copy_from_slice(&data[range]);
            }
            Ok(())
        })?;
        over.len = over.len.max(offset.saturating_add(data.len() as u64));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        if len < over.len {
            over.below = over.below.min(len);
            let _ = over.pages.split_off(&len.div_ceil(PAGE));
            if let Some(bytes) = over.pages.get_mut(&(len / PAGE)) {
                bytes[(len % PAGE) as usize..].fill(0);
            }
        }
        over.len = len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

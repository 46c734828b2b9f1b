//! A journal's storage: a file, an image in memory, or an overlay that keeps writes in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that outlive the process: a file, or in tests a device that loses unsynced writes.
///
/// The journal calls the methods that change something from one thread at a time.
pub trait Storage: fmt::Debug + Send + Sync + 'static {
    /// Returns the length in bytes.
    ///
    /// # Errors
    ///
    /// The length cannot be read.
    fn len(&self) -> io::Result<u64>;

    /// Returns true if the length is 0.
    ///
    /// # Errors
    ///
    /// The length cannot be read.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// `out` could not be filled, for example because the storage ends before.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes all of `data` at `offset`.
    ///
    /// # Errors
    ///
    /// Not all of it was written.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Cuts the storage, or extends it with zeros, to `len` bytes.
    ///
    /// # Errors
    ///
    /// The length was not changed.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes all earlier writes and the length durable, so that they survive a power failure.
    ///
    /// # Errors
    ///
    /// Earlier writes may be lost, and a second call gives no information about them.
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

/// Reads from another storage and keeps writes in memory. So redb can open a file, and even repair
/// it, without a write to it.
#[derive(Debug)]
pub(crate) struct Overlay {
    base: Arc<dyn Storage>,
    layer: Mutex<Layer>,
}

#[derive(Debug)]
struct Layer {
    len: u64,
    /// The length up to which the base is read; zeros follow.
    base_len: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

const PAGE: u64 = 4096;

impl Overlay {
    pub(crate) fn new(base: Arc<dyn Storage>) -> io::Result<Self> {
        let len = base.len()?;
        let layer = Layer { len, base_len: len, pages: BTreeMap::new() };
        Ok(Overlay { base, layer: Mutex::new(layer) })
    }

    /// Calls `each` for every page in the range: its number, the offset in it, and the range of the
    /// buffer.
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

    fn read_base(&self, layer: &Layer, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let len = layer.base_len.saturating_sub(offset).min(out.len() as u64) as usize;
        let (from_base, zeros) = out.split_at_mut(len);
        zeros.fill(0);
        if from_base.is_empty() {
            return Ok(());
        }
        self.base.read(offset, from_base)
    }

    fn lock(&self) -> MutexGuard<'_, Layer> {
        self.layer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let layer = self.lock();
        if offset.saturating_add(out.len() as u64) > layer.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Overlay::pages(offset, out.len(), |page, within, range| {
            let out = &mut out[range];
            match layer.pages.get(&page) {
                Some(bytes) => {
                    out.copy_from_slice(&bytes[within..within + out.len()]);
                    Ok(())
                }
                None => self.read_base(&layer, page * PAGE + within as u64, out),
            }
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut layer = self.lock();
        Overlay::pages(offset, data.len(), |page, within, range| {
            if !layer.pages.contains_key(&page) {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                self.read_base(&layer, page * PAGE, &mut bytes)?;
                layer.pages.insert(page, bytes);
            }
            if let Some(bytes) = layer.pages.get_mut(&page) {
                bytes[within..within + range.len()].copy_from_slice(&data[range]);
            }
            Ok(())
        })?;
        layer.len = layer.len.max(offset.saturating_add(data.len() as u64));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut layer = self.lock();
        if len < layer.len {
            layer.base_len = layer.base_len.min(len);
            let _ = layer.pages.split_off(&len.div_ceil(PAGE));
            if let Some(bytes) = layer.pages.get_mut(&(len / PAGE)) {
                bytes[(len % PAGE) as usize..].fill(0);
            }
        }
        layer.len = len;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A read-only source of bytes.
pub(crate) trait Readable: fmt::Debug + Send + Sync + 'static {
    /// Returns the length in bytes, like [`Storage::len`].
    fn len(&self) -> io::Result<u64>;

    /// Fills `out`, like [`Storage::read`].
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

/// The bytes of a file as they were read.
impl Readable for Vec<u8> {
    fn len(&self) -> io::Result<u64> {
        Ok(Vec::len(self) as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = self.get(from..from.saturating_add(out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A storage that refuses changes.
#[derive(Debug)]
pub(crate) struct ReadOnly<T>(pub(crate) T);

impl<T: Readable> Storage for ReadOnly<T> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

//! Reads and writes values, each in one system call, since the kernel takes two writes for two
//! values.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::inotify::{WatchFlags, add_watch};

use crate::Key;

/// The files that contain the values: the kernel's ([`ProcSys`]), or a substitute in a test.
///
/// Methods are called on a thread in the namespace.
pub trait Files: Send + Sync {
    /// Returns a key's whole value, with the white space that the kernel adds.
    ///
    /// # Errors
    ///
    /// The system call's own; `InvalidInput` for a write-only key.
    fn read(&self, key: &Key) -> io::Result<Vec<u8>>;

    /// Writes all of `bytes` to the kernel at once, and returns the number of bytes accepted.
    ///
    /// # Errors
    ///
    /// The system call's own; `InvalidInput` for a read-only key.
    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<usize>;

    /// Reports writes to a key to an inotify instance. A key that is already watched stays so.
    ///
    /// # Errors
    ///
    /// The system call's own. Then only the timer finds changes.
    fn watch(&self, _key: &Key, _inotify: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// The files below `/proc/sys`.
///
/// Their paths are opened without checks: only the kernel creates files below `/proc/sys`, it makes
/// no links there, and a [`Key`] has neither `..` nor a leading slash.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcSys;

/// The size of the first read buffer in bytes: larger than any value but a list of ports.
const BUFFER: usize = 4096;

/// The largest buffer in bytes: larger than 32768 ports with their commas.
const MAX_BUFFER: usize = 1 << 20;

#[expect(clippy::disallowed_methods, reason = "files of the kernel's below /proc/sys")]
impl Files for ProcSys {
    fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        let path = key.file();
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let order = "can only be written: it is an order and has no value to keep";
        let file = opened.map_err(|error| explain_mode(error, &path, 0o444, order))?;
        let mut bytes = vec![0; BUFFER];
        loop {
            // From the start each time: the kernel returns nothing at a later offset.
            let length = file.read_at(&mut bytes, 0)?;
            if length < bytes.len() {
                bytes.truncate(length);
                return Ok(bytes);
            }
            if bytes.len() >= MAX_BUFFER {
                let message = "is longer than 1 MiB, which no value is";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            bytes.resize(bytes.len() * 16, 0);
        }
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<usize> {
        let path = key.file();
        let opened = OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let read_only =
            "it is read-only in this namespace, whatever the privilege (its mode has no write bit)";
        let file = opened.map_err(|error| explain_mode(error, &path, 0o222, read_only))?;
        file.write_at(bytes, 0)
    }

    fn watch(&self, key: &Key, inotify: BorrowedFd<'_>) -> io::Result<()> {
        add_watch(inotify, key.file(), WatchFlags::MODIFY)?;
        Ok(())
    }
}

/// Replaces an error by `why` if the file's mode has none of these bits. No capability overrides
/// the mode of a file below `/proc/sys` (`proc_sys_permission` in `fs/proc/proc_sysctl.c`).
fn explain_mode(error: io::Error, path: &Path, bits: u32, why: &str) -> io::Error {
    let mode = fs::metadata(path).map(|metadata| metadata.mode());
    match (error.raw_os_error(), mode) {
        (Some(libc::EACCES), Ok(mode)) if mode & bits == 0 => {
            io::Error::new(io::ErrorKind::InvalidInput, why)
        }
        _ => error,
    }
}

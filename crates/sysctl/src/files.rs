//! Reading and writing a value: each in one system call, as the kernel takes what comes in two for two values.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};

use crate::Key;

/// What values are read from and written to: the kernel's files ([`ProcSys`]), or what stands for them in a test.
///
/// Called on a thread that is in the namespace.
pub trait Files: Send + Sync {
    /// The value of a key, whole, with whatever the kernel puts around it.
    ///
    /// # Errors
    ///
    /// The system call's own; `InvalidInput` for a key that can only be written.
    fn read(&self, key: &Key) -> io::Result<Vec<u8>>;

    /// Gives all of `bytes` to the kernel at once; how many it took.
    ///
    /// # Errors
    ///
    /// The system call's own.
    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<usize>;
}

/// The files below `/proc/sys`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcSys;

/// The first buffer of a reading: more than any value but a list of ports has.
const USUAL: usize = 4096;

/// The largest: more than 32768 ports, each with its comma.
const LARGEST: usize = 1 << 20;

impl Files for ProcSys {
    fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        let path = key.file();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let file = opened.map_err(|error| {
            let mode = fs::metadata(&path).map(|metadata| metadata.mode());
            match (error.raw_os_error(), mode) {
                (Some(libc::EACCES), Ok(mode)) if mode & 0o444 == 0 => io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "can only be written: it is an order and has no value to keep",
                ),
                _ => error,
            }
        })?;
        let mut bytes = vec![0; USUAL];
        loop {
            // From the start each time: a second reading further on finds nothing.
            let length = file.read_at(&mut bytes, 0)?;
            if length < bytes.len() {
                bytes.truncate(length);
                return Ok(bytes);
            }
            if bytes.len() >= LARGEST {
                let message = "is longer than 1 MiB, which no value is";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            bytes.resize(bytes.len() * 16, 0);
        }
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<usize> {
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(key.file())?;
        file.write_at(bytes, 0)
    }
}

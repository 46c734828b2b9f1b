//! Reading and writing a value: each in one system call, as the kernel takes what comes in two for two values.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

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
    /// The system call's own; `InvalidInput` for a key that can only be read.
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
        let order = "can only be written: it is an order and has no value to keep";
        let file = opened.map_err(|error| explain_mode(error, &path, 0o444, order))?;
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
        let path = key.file();
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path);
        let read_only =
            "it is read-only in this namespace, whatever the privilege (its mode has no write bit)";
        let file = opened.map_err(|error| explain_mode(error, &path, 0o222, read_only))?;
        file.write_at(bytes, 0)
    }
}

/// Returns what a refusal means: `why`, if the file's mode has none of these bits. No capability
/// passes over the mode of a file below `/proc/sys` (`proc_sys_permission` in
/// `fs/proc/proc_sysctl.c`).
fn explain_mode(error: io::Error, path: &Path, bits: u32, why: &str) -> io::Error {
    let mode = fs::metadata(path).map(|metadata| metadata.mode());
    match (error.raw_os_error(), mode) {
        (Some(libc::EACCES), Ok(mode)) if mode & bits == 0 => {
            io::Error::new(io::ErrorKind::InvalidInput, why)
        }
        _ => error,
    }
}

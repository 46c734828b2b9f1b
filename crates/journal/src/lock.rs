//! One process at a time: a lock file beside the journal that says who holds it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::Error;
use crate::regular::open_regular;

/// Who has a journal open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, as it sees it itself: in a pid namespace it is another one than from outside.
    pub pid: u32,
    /// Its command line, as `/proc/PID/cmdline` has it, with spaces between the words.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.command)
    }
}

/// Held until dropped, by the kernel's hand: it goes with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Never deleted: two processes that lock two files of one name exclude nobody.
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it is not enough: a child that another thread has forked has it open as well, until it executes something.
        let _closed_next = flock(&self.file, FlockOperation::Unlock);
    }
}

/// How often, and how far apart, a holder that has not yet left its name is asked for it.
const ASK: (u32, Duration) = (20, Duration::from_millis(5));

impl Lock {
    /// Takes the lock of the journal at `path`, without waiting for one who holds it.
    pub(crate) fn take(path: &Path) -> Result<Lock, Error> {
        let path = beside(path, "lock");
        let shown = path.display();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_regular(&path, options.mode(0o600))
            .map_err(|cause| Error::os(format!("cannot open the lock {shown}"), cause))?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::held(shown.to_string(), holder(&file)));
                }
                Err(errno) => {
                    return Err(Error::os(format!("cannot lock {shown}"), errno));
                }
            }
        }
        // The former holder's name goes first, so that nobody is named who is not there.
        file.set_len(0)
            .and_then(|()| file.write_all_at(name().as_bytes(), 0))
            .map_err(|cause| Error::os(format!("cannot write the lock {shown}"), cause))?;
        Ok(Lock { file })
    }
}

/// Asks whether nobody has the journal at `path` open, at this moment. Nothing is made, and nobody is kept from opening it
/// for longer than the asking takes.
///
/// # Errors
///
/// [`Held`](crate::ErrorKind::Held) if somebody has; [`Os`](crate::ErrorKind::Os) if that cannot be told.
pub fn unheld(path: impl AsRef<Path>) -> Result<(), Error> {
    let path = beside(path.as_ref(), "lock");
    let shown = path.display();
    let file = match open_regular(&path, OpenOptions::new().read(true)) {
        // Who opens a journal makes its lock.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => {
            opened.map_err(|cause| Error::os(format!("cannot open the lock {shown}"), cause))?
        }
    };
    loop {
        // Shared with others who ask; it goes with the file.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::held(shown.to_string(), holder(&file))),
            Err(errno) => return Err(Error::os(format!("cannot lock {shown}"), errno)),
        }
    }
}

/// A file that goes with the journal at `path`.
pub(crate) fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Ends in a newline, by which a reader knows that it is whole.
fn name() -> String {
    let pid = std::process::id();
    let command = fs::read("/proc/self/cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command)
        .trim_end_matches('\0')
        .replace(|c: char| c.is_control(), " ");
    format!("{pid} {command}\n")
}

/// Who left its name. Someone who died holding the lock does not hold it any more, so a name of a process that is gone is
/// that of a former holder, and the present one is about to write its own.
fn holder(file: &File) -> Option<Holder> {
    for _ in 0..ASK.0 {
        if let Some(holder) = read(file).ok().flatten()
            && Path::new("/proc").join(holder.pid.to_string()).exists()
        {
            return Some(holder);
        }
        thread::sleep(ASK.1);
    }
    read(file).ok().flatten()
}

fn read(mut file: &File) -> io::Result<Option<Holder>> {
    let mut text = String::new();
    io::Seek::rewind(&mut file)?;
    file.read_to_string(&mut text)?;
    Ok(text
        .strip_suffix('\n')
        .and_then(|line| line.split_once(' '))
        .and_then(|(pid, command)| {
            Some(Holder {
                pid: pid.parse().ok()?,
                command: command.to_owned(),
            })
        }))
}

//! One process at a time: a lock file beside the journal that says who holds it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
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

/// Held until dropped. It goes with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    /// The lock file, if it is new and not to stay.
    made: Option<PathBuf>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the lock goes: the next one to lock this file finds that it is not there any more.
        if let Some(path) = &self.made {
            let _may_stay = fs::remove_file(path);
        }
        // Closing it is not enough: a child that another thread has forked has it open as well, until it executes something.
        let _closed_next = flock(&self.file, FlockOperation::Unlock);
    }
}

/// How often, and how far apart, a holder that has not yet left its name is asked for it.
const ASK: (u32, Duration) = (20, Duration::from_millis(5));

/// How often the lock file is opened again that its holder deleted meanwhile.
const TRIES: u32 = 100;

impl Lock {
    /// Takes the lock of the journal at `path`, without waiting for one who holds it. A lock file
    /// that was not there goes again with the lock, unless it is to be [kept](Lock::keep).
    pub(crate) fn take(path: &Path) -> Result<Lock, Error> {
        let path = lock_file(path);
        let shown = path.display();
        let os = |cause| Error::os(format!("cannot open the lock {shown}"), cause);
        for _ in 0..TRIES {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = open_regular(&path, options.mode(0o600)).map_err(os)?;
            lock(&file, FlockOperation::NonBlockingLockExclusive, &path)?;
            // Two processes that lock two files of one name do not exclude each other.
            if !is_at(&file, &path).map_err(os)? {
                continue;
            }
            // One that nobody has held before bears no name, whoever made it.
            let is_new = file.metadata().map_err(os)?.len() == 0;
            // The former holder's name goes first, so that no process is named that is not there.
            file.set_len(0)
                .and_then(|()| file.write_all_at(name().as_bytes(), 0))
                .map_err(|cause| Error::os(format!("cannot write the lock {shown}"), cause))?;
            let made = is_new.then_some(path);
            return Ok(Lock { file, made });
        }
        Err(Error::held(shown.to_string(), None))
    }

    /// Leaves the lock file where it is when the lock goes.
    pub(crate) fn keep(mut self) -> Lock {
        self.made = None;
        self
    }
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((held.dev(), held.ino()) == (there.dev(), there.ino())),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}

fn lock(file: &File, operation: FlockOperation, path: &Path) -> Result<(), Error> {
    let shown = path.display();
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::held(shown.to_string(), holder(file))),
            Err(errno) => return Err(Error::os(format!("cannot lock {shown}"), errno)),
        }
    }
}

/// Asks whether nobody has the journal at `path` open, at this moment. Nothing is made, and nobody is kept from opening it
/// for longer than the asking takes.
///
/// # Errors
///
/// [`Held`](crate::ErrorKind::Held) if somebody has; [`Os`](crate::ErrorKind::Os) if that cannot be told.
pub fn unheld(path: impl AsRef<Path>) -> Result<(), Error> {
    let path = lock_file(path);
    let shown = path.display();
    let file = match open_regular(&path, OpenOptions::new().read(true)) {
        // Who opens a journal makes its lock.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => {
            opened.map_err(|cause| Error::os(format!("cannot open the lock {shown}"), cause))?
        }
    };
    // Shared with others who ask; it goes with the file.
    lock(&file, FlockOperation::NonBlockingLockShared, &path)
}

/// The lock file of the journal at `path`: whoever opens that makes it.
pub fn lock_file(path: impl AsRef<Path>) -> PathBuf {
    beside(path.as_ref(), "lock")
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

//! The lock: a file beside the journal, which is locked while the journal is open and names the
//! process that holds it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use trueup_path::Place;

use crate::Error;
use crate::files::{Files, LOCK};
use crate::lock_queue::lock_until;

/// The process that has a journal open, by its id and its command line: [`Error::holder`].
pub(crate) type Holder = (u32, String);

/// A journal's lock, held until dropped. The kernel releases it when the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    file: Arc<File>,
    /// The lock file, if this created it and must delete it when dropped.
    delete_on_drop: Option<Place>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before the lock is released, so that the next process to lock this file finds it deleted.
        if let Some(place) = &self.delete_on_drop {
            let _may_stay = place.unlink();
        }
        // Closing it is not enough: a child that another thread forked has it open until it
        // executes.
        let _closed_next = flock(&self.file, FlockOperation::Unlock);
    }
}

/// How often, and at which interval, to read the name of a holder that has not written it yet.
const NAME_READS: (u32, Duration) = (20, Duration::from_millis(5));

/// The number of characters of a holder's command line in the lock file.
const MAX_COMMAND: usize = 4096;
/// A limit beyond the length of a line with such a command and a pid, in bytes.
const MAX_LINE: u64 = 4 * (MAX_COMMAND as u64 + 16);

/// How often to reopen a lock file that its holder deleted meanwhile.
const TRIES: u32 = 100;

impl Lock {
    /// Locks the journal, and waits up to `wait` for another holder. If this created the lock file,
    /// the file is deleted with the lock, unless it is [kept](Lock::keep_file).
    pub(crate) fn acquire(files: &Files, wait: Duration) -> Result<Lock, Error> {
        let until = Instant::now().checked_add(wait);
        let place = files.sibling(LOCK);
        let shown = place.path().display();
        for _ in 0..TRIES {
            let opened = place.open_or_create(0o600).map_err(cannot_open)?;
            files.check_lock(&place, &opened).map_err(cannot_open)?;
            let opened = Arc::new(opened);
            let locked = lock_until(&opened, until)
                .map_err(|cause| Error::os(format!("cannot lock {shown}"), cause))?;
            let file = match locked {
                Some(file) => file,
                None => {
                    lock(&opened, FlockOperation::NonBlockingLockExclusive, &place)?;
                    opened
                }
            };
            // Two processes that lock different files of one name do not exclude each other.
            if !place.is_of(&file).map_err(cannot_open)? {
                continue;
            }
            // A lock file that no process has held is empty, whichever process created it.
            let is_new = file.metadata().map_err(cannot_open)?.len() == 0;
            // Remove the previous holder's name first, so that the file never names an ended
            // process.
            file.set_len(0)
                .and_then(|()| file.write_all_at(holder_line().as_bytes(), 0))
                .map_err(|cause| Error::os(format!("cannot write the lock {shown}"), cause))?;
            let delete_on_drop = is_new.then_some(place);
            return Ok(Lock { file, delete_on_drop });
        }
        Err(Error::held(shown.to_string(), None))
    }

    /// Returns the open lock file.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Keeps the lock file when the lock is dropped.
    pub(crate) fn keep_file(mut self) -> Lock {
        self.delete_on_drop = None;
        self
    }
}

/// Returns the error for a lock file that cannot be opened. The cause names the file.
fn cannot_open(cause: impl Into<io::Error>) -> Error {
    Error::os("cannot open the lock", cause)
}

/// Locks a file at once. If the holder's name belongs to no running process, the holder may be
/// about to write its name, or to release a lock that it only waited for. So the lock is tried
/// again a few times.
fn lock(file: &File, operation: FlockOperation, place: &Place) -> Result<(), Error> {
    let shown = place.path().display();
    let mut tries = 0..NAME_READS.0;
    loop {
        match retry_on_intr(|| flock(file, operation)) {
            Err(Errno::WOULDBLOCK) => {}
            locked => {
                return locked.map_err(|errno| Error::os(format!("cannot lock {shown}"), errno));
            }
        }
        // The kernel releases the lock of a process that ends, so this name belongs to a previous
        // holder.
        let holder = parse_holder(file).ok().flatten();
        if holder.as_ref().is_some_and(|(pid, _)| is_running(*pid)) || tries.next().is_none() {
            return Err(Error::held(shown.to_string(), holder));
        }
        thread::sleep(NAME_READS.1);
    }
}

fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Checks that no process has the journal at `path` open at this moment. Creates nothing, and
/// blocks an opener only as long as the check takes.
///
/// # Errors
///
/// [`Held`](crate::ErrorKind::Held) if a process has it open; [`Os`](crate::ErrorKind::Os) if the
/// lock file cannot be read, or another user could hold it.
pub fn check_not_held(path: impl AsRef<Path>) -> Result<(), Error> {
    let Some(files) = Files::existing_at(path.as_ref())? else {
        return Ok(());
    };
    let place = files.sibling(LOCK);
    // A process that opens a journal creates its lock file.
    let Some(file) = place.open().map_err(cannot_open)? else {
        return Ok(());
    };
    files.check_lock(&place, &file).map_err(cannot_open)?;
    // Shared with other checks; released when the file is closed.
    lock(&file, FlockOperation::NonBlockingLockShared, &place)
}

/// Returns this process's line for the lock file. Its newline proves that it is whole.
#[expect(clippy::disallowed_methods, reason = "a file of the kernel about this process")]
fn holder_line() -> String {
    let pid = std::process::id();
    let command = fs::read("/proc/self/cmdline").unwrap_or_default();
    let command: String = String::from_utf8_lossy(&command)
        .trim_end_matches('\0')
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_COMMAND)
        .collect();
    format!("{pid} {command}\n")
}

fn parse_holder(mut file: &File) -> io::Result<Option<Holder>> {
    let mut text = String::new();
    io::Seek::rewind(&mut file)?;
    file.take(MAX_LINE).read_to_string(&mut text)?;
    let words = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
    Ok(words.and_then(|(pid, command)| Some((pid.parse().ok()?, command.to_owned()))))
}

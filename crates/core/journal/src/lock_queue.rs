//! The wait for a lock file, in the order in which processes ask.
//!
//! Only a blocking call has a place in the kernel's queue, and no such call has a time limit. So a
//! thread makes the call, and the callers wait for the thread. If a caller's time is over, it
//! leaves, and the thread stays until the holder releases the lock. So there is at most one thread
//! for each lock file: later callers in this process share it, and its place in the kernel's queue.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// The device and the inode of a lock file, which may have several names, or none.
type FileId = (u64, u64);

/// A caller that waits for a lock.
struct Caller {
    file: Arc<File>,
    grant: Sender<Result<Arc<File>, Errno>>,
}

/// The waiting callers, in order, for each lock file that a thread waits for. All of them may have
/// left.
static QUEUES: Mutex<BTreeMap<FileId, VecDeque<Caller>>> = Mutex::new(BTreeMap::new());

/// The least time for which a caller waits for an existing thread: the thread may have just got the
/// lock, and passes it on.
const HANDOVER: Duration = Duration::from_millis(20);

/// Locks a file, and waits for another holder until `until`; without a limit if `None`. Returns the
/// locked file, which may be an earlier caller's; `None` if the time is over.
pub(crate) fn lock_until(
    file: &Arc<File>,
    until: Option<Instant>,
) -> io::Result<Option<Arc<File>>> {
    let id = file_id(file)?;
    let (grant, granted) = mpsc::channel();
    let caller = Caller { file: Arc::clone(file), grant };
    let least = {
        // The thread neither takes a caller nor ends meanwhile.
        let mut queues = queues();
        match retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
            Err(Errno::WOULDBLOCK) => {}
            locked => return Ok(Some(locked.map(|()| Arc::clone(file))?)),
        }
        match queues.entry(id) {
            Entry::Occupied(mut queue) => {
                queue.get_mut().push_back(caller);
                HANDOVER
            }
            Entry::Vacant(_) if until.is_some_and(|until| until <= Instant::now()) => {
                return Ok(None);
            }
            Entry::Vacant(entry) => {
                let file = Arc::clone(file);
                let thread = thread::Builder::new().name("journal-lock".to_owned());
                thread.spawn(move || wait(id, file))?;
                entry.insert(VecDeque::from([caller]));
                Duration::ZERO
            }
        }
    };
    let granted_in_time = match until {
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now());
            granted.recv_timeout(left.max(least)).ok()
        }
        None => granted.recv().ok(),
    };
    let answer = granted_in_time.or_else(|| {
        if let Some(queue) = queues().get_mut(&id) {
            queue.retain(|caller| !Arc::ptr_eq(&caller.file, file));
        }
        // The thread may have granted it just before.
        granted.try_recv().ok()
    });
    Ok(answer.transpose()?)
}

/// Waits for a file's lock for one caller after the other, until none is left.
fn wait(id: FileId, mut file: Arc<File>) {
    loop {
        let locked = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
        let mut queues = queues();
        let mut queue = queues.remove(&id).unwrap_or_default();
        let Some(caller) = queue.pop_front() else {
            // Closing it is not enough: a child that another thread forked has it open until it
            // executes. Callers that find no thread here find the lock free.
            let _closed_next = flock(&file, FlockOperation::Unlock);
            return;
        };
        let _waits_or_is_removed = caller.grant.send(locked.map(|()| file));
        match queue.front() {
            Some(next) => file = Arc::clone(&next.file),
            None => return,
        }
        queues.insert(id, queue);
    }
}

fn queues() -> MutexGuard<'static, BTreeMap<FileId, VecDeque<Caller>>> {
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file_id(file: &File) -> io::Result<FileId> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

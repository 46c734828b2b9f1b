//! Watches files by their folders, to notice renames too. One inotify instance serves the whole
//! process.
//!
//! Each run of a vertex walks to its files' folders and watches them. So the watch covers the
//! folders that the run used. A folder that appears later, or replaces another one, is watched from
//! the next run on.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use trueup_path::TrustedUsers;
use trueup_reconcile::Hints;

use crate::sync::{Poller, lock};

/// How long the thread sleeps if the kernel refuses to poll.
const LISTEN_RETRY: Duration = Duration::from_millis(100);
/// The inotify events to watch in a folder.
const EVENTS: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// The files that one vertex watches. Each run moves the watch; dropping it ends the watch. A clone
/// belongs to another vertex, and watches nothing yet.
#[derive(Debug, Default)]
pub(super) struct FileWatch {
    /// `None` before the watch begins.
    hints: Option<Hints>,
    /// The process's folders, and the numbers of this watch's folders.
    on: Option<(Arc<Folders>, BTreeSet<i32>)>,
    id: u64,
}

impl Clone for FileWatch {
    fn clone(&self) -> FileWatch {
        FileWatch::default()
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.end();
    }
}

impl FileWatch {
    /// Sends these hints for the files that the next runs use.
    pub(super) fn begin(&mut self, hints: Hints) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        self.end();
        self.hints = Some(hints);
        self.id = NEXT.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&mut self) {
        self.hints = None;
        if let Some((folders, numbers)) = self.on.take() {
            numbers.into_iter().for_each(|number| folders.remove(number, self.id));
        }
    }

    /// Watches these files and no others, if the watch has begun. Skips a file whose folder cannot
    /// be reached: the run fails there anyway.
    ///
    /// # Errors
    ///
    /// A folder exists and cannot be watched.
    pub(super) fn move_to(&mut self, users: &TrustedUsers, paths: &[&Path]) -> io::Result<()> {
        let Some(hints) = self.hints.clone() else {
            return Ok(());
        };
        let folders = match &self.on {
            Some((folders, _)) => Arc::clone(folders),
            None => Folders::of_process()?,
        };
        let before = self.on.take().map(|it| it.1).unwrap_or_default();
        let mut on = BTreeSet::new();
        let mut result = Ok(());
        for path in paths {
            let Ok(place) = users.place(path) else {
                continue;
            };
            let watched =
                Watched { id: self.id, name: place.name().to_owned(), hints: hints.clone() };
            match folders.add(&place.folder().path_by_descriptor(), watched) {
                Ok(number) => {
                    on.insert(number);
                }
                Err(error) => result = Err(error),
            }
        }
        let left = before.difference(&on);
        left.for_each(|number| folders.remove(*number, self.id));
        self.on = Some((folders, on));
        result
    }
}

/// The folders of a process's watched files. Its thread ends when the last reference is dropped.
#[derive(Debug)]
struct Folders(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    inotify: OwnedFd,
    /// The watched files, by the number of the folder's watch.
    watched: Mutex<BTreeMap<i32, Vec<Watched>>>,
    poller: Poller,
    is_ended: AtomicBool,
}

/// A file that one vertex watches.
#[derive(Debug)]
struct Watched {
    id: u64,
    name: OsString,
    hints: Hints,
}

impl Folders {
    fn of_process() -> io::Result<Arc<Folders>> {
        static FOLDERS: Mutex<Weak<Folders>> = Mutex::new(Weak::new());
        let mut of_process = lock(&FOLDERS);
        if let Some(folders) = of_process.upgrade() {
            return Ok(folders);
        }
        let inner = Arc::new(Inner {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            watched: Mutex::default(),
            poller: Poller::new()?,
            is_ended: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&inner);
        let thread = thread::Builder::new().name("graph-files".to_owned());
        thread.spawn(move || of_thread.run())?;
        let folders = Arc::new(Folders(inner));
        *of_process = Arc::downgrade(&folders);
        Ok(folders)
    }

    /// Watches a folder for a file in it. Returns the watch's number, which is the same for all
    /// files in the folder.
    fn add(&self, folder: &Path, watched: Watched) -> io::Result<i32> {
        // Under the lock, so that no watch of that number is removed meanwhile.
        let mut all = lock(&self.0.watched);
        let number = inotify::add_watch(&self.0.inotify, folder, EVENTS)?;
        let of_folder = all.entry(number).or_default();
        if of_folder.iter().all(|it| (it.id, &it.name) != (watched.id, &watched.name)) {
            of_folder.push(watched);
        }
        Ok(number)
    }

    fn remove(&self, number: i32, id: u64) {
        let mut all = lock(&self.0.watched);
        if let Some(of_folder) = all.get_mut(&number) {
            of_folder.retain(|it| it.id != id);
            if of_folder.is_empty() {
                all.remove(&number);
                // The folder may be gone, and its watch with it.
                let _ = inotify::remove_watch(&self.0.inotify, number);
            }
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        self.0.is_ended.store(true, Ordering::SeqCst);
        self.0.poller.wake();
    }
}

impl Inner {
    fn run(&self) {
        while !self.is_ended.load(Ordering::SeqCst) {
            let hints = self.drain();
            hints.iter().for_each(Hints::request_pass);
            if hints.is_empty() {
                match self.poller.listen(self.inotify.as_fd(), 0) {
                    Ok(()) => self.poller.wait(None).for_each(drop),
                    // The kernel is short of memory, which may pass.
                    Err(_) => thread::sleep(LISTEN_RETRY),
                }
            }
        }
    }

    /// Reads the pending events, and returns the hints of the affected vertices.
    fn drain(&self) -> Vec<Hints> {
        let of_folder = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut hinted = BTreeMap::new();
        loop {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                // All is read. Any other error appears again at the next read.
                Err(_) => return hinted.into_values().collect(),
            };
            let mut all = lock(&self.watched);
            let is_lost = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let is_of_folder = is_lost || event.events().intersects(of_folder);
            let name = event.file_name().map(|it| it.to_bytes());
            for (_, of_folder) in all.iter().filter(|it| is_lost || *it.0 == event.wd()) {
                let about =
                    of_folder.iter().filter(|it| is_of_folder || name == Some(it.name.as_bytes()));
                hinted.extend(about.map(|it| (it.id, it.hints.clone())));
            }
            if event.events().contains(ReadFlags::IGNORED) {
                all.remove(&event.wd());
            }
        }
    }
}

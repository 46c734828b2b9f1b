//! Reports by inotify as soon as a file may have changed. The caller reads the file to see the
//! change. inotify does not report another host's writes to a shared file system: the file's stamp
//! shows them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::desired_file::{self, Writers};

/// The most symbolic links on a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// A watch for changes of one file. The file may be written in place, replaced by a rename, or
/// reached by a symbolic link that changes its target.
pub(crate) struct FileWatch {
    path: PathBuf,
    inotify: OwnedFd,
    /// The relevant paths in the directory of each inotify watch. Empty for the file itself.
    watches: BTreeMap<i32, Vec<PathBuf>>,
    /// The time of the last write, while the writer has the file open.
    writing: Option<Instant>,
}

impl FileWatch {
    /// Starts to watch. Fails if the kernel allows no further instance or watch
    /// (`fs.inotify.max_user_instances`, `max_user_watches`).
    pub(crate) fn new(path: &Path) -> io::Result<FileWatch> {
        let mut changes = FileWatch {
            path: path.to_owned(),
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            watches: BTreeMap::new(),
            writing: None,
        };
        changes.update_watches()?;
        Ok(changes)
    }

    /// Returns the time of the last write, if the writer still has the file open.
    pub(crate) fn last_write(&self) -> Option<Instant> {
        self.writing
    }

    /// Reads the events without waiting. If the file may have changed, watches the path again and
    /// returns true. A file that is still being written has not changed yet.
    ///
    /// # Errors
    ///
    /// Fails like [`new`](Self::new).
    pub(crate) fn drain(&mut self) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut relevant = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    let paths = self.watches.get(&event.wd());
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    let path = paths.zip(name).and_then(|(paths, name)| {
                        paths.iter().find(|path| path.file_name() == Some(name))
                    });
                    let events = event.events();
                    let is_ours = events.contains(ReadFlags::QUEUE_OVERFLOW)
                        || path.is_some()
                        // An event of the file or the directory itself.
                        || paths.is_some() && name.is_none();
                    if is_ours {
                        let goes_on = match path {
                            Some(path) if events == ReadFlags::CREATE => is_open(path),
                            _ => events == ReadFlags::MODIFY,
                        };
                        self.writing = goes_on.then(Instant::now);
                        relevant |= !goes_on;
                    }
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if relevant {
            self.update_watches()?;
        }
        Ok(relevant)
    }

    /// Watches the existing directories on the path, and the file.
    fn update_watches(&mut self) -> io::Result<()> {
        let of_any = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
        let of_file = of_any | WatchFlags::MODIFY;
        // Without writes, because writes to other files do not matter.
        let of_directory = of_any
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let mut watches: BTreeMap<i32, Vec<PathBuf>> = BTreeMap::new();
        for (directory, name) in links_on_path(&self.path) {
            match inotify::add_watch(&self.inotify, &directory, of_directory) {
                Ok(watch) => watches.entry(watch).or_default().push(directory.join(name)),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The file may be a mount of its own, such as one shared with a container, whose other
        // directory is out of sight.
        match inotify::add_watch(&self.inotify, &self.path, of_file) {
            Ok(watch) => drop(watches.entry(watch).or_default()),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
        for (former, _) in std::mem::replace(&mut self.watches, watches) {
            if !self.watches.contains_key(&former) {
                // The kernel has removed it already if the watched object is gone.
                let _ = inotify::remove_watch(&self.inotify, former);
            }
        }
        Ok(())
    }
}

impl AsFd for FileWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

/// Returns true if the new object is a file that its maker has open and will close. A hard link is
/// complete already.
fn is_open(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|made| made.is_file() && made.nlink() == 1)
}

/// Returns the names of a path, the last one first.
fn names_of(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().rev().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// Returns each name on the path to a file with its directory: the file's own name, and that of
/// each symbolic link.
fn links_on_path(path: &Path) -> Vec<(PathBuf, OsString)> {
    let mut way = Vec::new();
    let mut at = PathBuf::from("/");
    // The names still to walk, the next one last.
    let mut left: Vec<OsString> = Vec::new();
    // A removed working directory has no path. Then only the stamp shows changes.
    let Ok(absolute) = std::path::absolute(path) else {
        return way;
    };
    left.extend(names_of(&absolute));
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let here = at.join(&name);
        match fs::read_link(&here) {
            Ok(target) => {
                way.push((at.clone(), name));
                links += 1;
                if links > MAX_LINKS {
                    return way;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(names_of(&target));
            }
            Err(_) => {
                // A missing name may appear: the watch sees when its directory is made.
                if left.is_empty() || fs::symlink_metadata(&here).is_err() {
                    way.push((at.clone(), name));
                    return way;
                }
                at = here;
            }
        }
    }
    way
}

/// A file's inode, size and times, which differ for each content, and if another user could decide
/// its content: a folder on the way may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    content: Option<Content>,
    is_untrusted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Returns the current stamp of a file. Files that cannot be read share one.
    pub(crate) fn of(path: &Path, writers: Writers) -> Stamp {
        let content = fs::metadata(path).ok().map(|file| Content {
            inode: (file.dev(), file.ino()),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        });
        Stamp { content, is_untrusted: desired_file::untrusted(path, writers).is_some() }
    }

    /// Returns true if the same file was written since `before`.
    pub(crate) fn is_rewritten(&self, before: &Stamp) -> bool {
        self != before && self.inode() == before.inode()
    }

    fn inode(&self) -> Option<(u64, u64)> {
        self.content.map(|it| it.inode)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use trueup_testkit::Scratch;

    use super::*;
    use crate::testing::declare_nothing;

    #[test]
    fn every_way_to_write_the_file_is_heard_and_nothing_else() {
        let directory = Scratch::make("changes").unwrap();
        let file = directory.join("f");
        let mut changes = FileWatch::new(&file).unwrap();
        declare_nothing(&directory, "other");
        assert!(!changes.drain().unwrap(), "another's file");
        declare_nothing(&directory, "f");
        assert!(changes.drain().unwrap(), "made");
        assert!(!changes.drain().unwrap(), "once");
        declare_nothing(&directory, "f");
        assert!(changes.drain().unwrap(), "written in place");
        fs::rename(directory.join("other"), &file).unwrap();
        assert!(changes.drain().unwrap(), "renamed over");
        declare_nothing(&directory, "f");
        assert!(changes.drain().unwrap(), "the new one in place");
        fs::hard_link(&file, directory.join("second")).unwrap();
        changes.drain().unwrap();
        declare_nothing(&directory, "second");
        assert!(changes.drain().unwrap(), "by another of its names");
        fs::remove_file(&file).unwrap();
        assert!(changes.drain().unwrap(), "removed");
    }

    #[test]
    fn what_is_being_written_is_no_change_until_it_is_closed() {
        let directory = Scratch::make("written").unwrap();
        declare_nothing(&directory, "f");
        let mut changes = FileWatch::new(&directory.join("f")).unwrap();
        let mut file = fs::File::create(directory.join("f")).unwrap();
        assert!(!changes.drain().unwrap(), "emptied");
        assert!(changes.last_write().is_some());
        file.write_all(b"half").unwrap();
        declare_nothing(&directory, "other");
        assert!(!changes.drain().unwrap(), "and written");
        assert!(changes.last_write().is_some());
        drop(file);
        assert!(changes.drain().unwrap(), "closed");
        assert_eq!(changes.last_write(), None);
    }

    #[test]
    fn a_file_is_no_change_from_the_moment_that_it_is_made_until_it_is_closed() {
        let directory = Scratch::make("made").unwrap();
        let file = directory.join("f");
        let mut changes = FileWatch::new(&file).unwrap();
        let mut written = fs::File::create(&file).unwrap();
        written.write_all(b"half").unwrap();
        assert!(!changes.drain().unwrap(), "made and written");
        assert!(changes.last_write().is_some());
        drop(written);
        assert!(changes.drain().unwrap(), "closed");
        assert_eq!(changes.last_write(), None);
        // A linked file is complete.
        fs::rename(&file, directory.join("other")).unwrap();
        assert!(changes.drain().unwrap(), "moved away");
        fs::hard_link(directory.join("other"), &file).unwrap();
        assert!(changes.drain().unwrap(), "linked");
        assert_eq!(changes.last_write(), None);
    }

    fn is_readable(changes: &FileWatch) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let polled = PollFd::new(changes, PollFlags::IN);
        poll(&mut [polled], Some(&Timespec::default())).unwrap() > 0
    }

    #[test]
    fn writes_to_other_files_wake_nobody() {
        let directory = Scratch::make("others").unwrap();
        declare_nothing(&directory, "f");
        let changes = FileWatch::new(&directory.join("f")).unwrap();
        let mut other = fs::File::create(directory.join("log")).unwrap();
        assert!(is_readable(&changes), "a name that appears may be the file's");
        let mut changes_of_names = [0_u8; 8192];
        rustix::io::read(&changes, &mut changes_of_names).unwrap();
        other.write_all(b"a line").unwrap();
        assert!(!is_readable(&changes));
    }

    #[test]
    fn a_link_that_is_made_to_lead_elsewhere_is_heard() {
        // As Kubernetes writes the files of a ConfigMap.
        let directory = Scratch::make("configmap").unwrap();
        let at = |name: &str| directory.join(name);
        for version in ["..1", "..2"] {
            fs::create_dir(at(version)).unwrap();
            declare_nothing(&directory, &format!("{version}/f"));
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/f", at("f")).unwrap();
        let mut changes = FileWatch::new(&at("f")).unwrap();
        declare_nothing(&directory, "..2/f");
        assert!(!changes.drain().unwrap(), "not yet the file");
        symlink("..2", at("..new")).unwrap();
        fs::rename(at("..new"), at("..data")).unwrap();
        assert!(changes.drain().unwrap(), "it leads elsewhere");
        declare_nothing(&directory, "..2/f");
        assert!(changes.drain().unwrap(), "what it leads to now is written");
        declare_nothing(&directory, "..1/f");
        assert!(!changes.drain().unwrap(), "what it led to is not the file any more");
    }

    #[test]
    fn a_directory_may_come_and_go() {
        let directory = Scratch::make("directory").unwrap();
        let inner = directory.join("inner");
        let file = inner.join("f");
        let mut changes = FileWatch::new(&file).unwrap();
        fs::create_dir(&inner).unwrap();
        assert!(changes.drain().unwrap(), "the directory is made");
        fs::write(&file, "x").unwrap();
        assert!(changes.drain().unwrap(), "and the file in it");
        fs::rename(&inner, directory.join("away")).unwrap();
        assert!(changes.drain().unwrap(), "and moved away");
    }

    #[test]
    fn links_that_lead_in_a_circle_end() {
        let directory = Scratch::make("circle").unwrap();
        symlink("b", directory.join("a")).unwrap();
        symlink("a", directory.join("b")).unwrap();
        assert!(links_on_path(&directory.join("a")).len() <= MAX_LINKS + 1);
    }
}

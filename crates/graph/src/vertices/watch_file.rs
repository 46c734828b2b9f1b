//! Watches files by their folders, so that a renamed one is seen as well. The folder is walked to and
//! held as by a run: what is seen is of the folder that the run would use.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use trueup_path::TrustedUsers;
use trueup_reconcile::{Drained, ErrorClass, Subscription};

use super::at_path::{failed, failure};
use crate::{Failure, Watch};

struct FileWatch {
    inotify: OwnedFd,
    files: Vec<WatchedFile>,
}

struct WatchedFile {
    /// The number of the folder's watch.
    number: i32,
    folder: PathBuf,
    name: OsString,
}

/// Watches files; those of one folder share a watch.
pub(super) fn watch(users: &TrustedUsers, paths: &[&Path]) -> Result<Watch, Failure> {
    let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
    let inotify = inotify::init(flags);
    let path = paths.first().copied().unwrap_or(Path::new("."));
    let inotify = inotify.map_err(|error| failed(path, "watch", &error.into()))?;
    let files = paths.iter().map(|path| add(users, &inotify, path));
    let files = files.collect::<Result<_, _>>()?;
    Ok(Watch::Active(Box::new(FileWatch { inotify, files })))
}

fn add(users: &TrustedUsers, inotify: &OwnedFd, path: &Path) -> Result<WatchedFile, Failure> {
    let place = users.place(path).map_err(failure)?;
    let folder = place.folder();
    let events = WatchFlags::ATTRIB
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    let number = inotify::add_watch(inotify, folder.path_by_descriptor(), events);
    Ok(WatchedFile {
        number: number.map_err(|error| failed(folder.path(), "watch", &error.into()))?,
        folder: folder.path().to_owned(),
        name: place.name().to_owned(),
    })
}

impl Subscription<Failure> for FileWatch {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inotify.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, Failure> {
        let gone = ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED;
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut drained = Drained::Nothing;
        loop {
            match events.next() {
                Ok(event) if event.events().intersects(gone) => {
                    let of_it = |it: &&WatchedFile| it.number == event.wd();
                    let folder = self.files.iter().find(of_it).map(|it| it.folder.as_path());
                    let folder = folder.unwrap_or(Path::new(".")).display();
                    let message = format!("{folder}: the folder is gone");
                    return Err(Failure::new(ErrorClass::Dependency, message));
                }
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    drained = Drained::Lost;
                }
                Ok(event) => {
                    let name = event.file_name().map(|it| it.to_bytes());
                    let is_of = |it: &WatchedFile| {
                        it.number == event.wd() && name == Some(it.name.as_bytes())
                    };
                    if self.files.iter().any(is_of) && drained == Drained::Nothing {
                        drained = Drained::Hint;
                    }
                }
                Err(Errno::AGAIN) => return Ok(drained),
                Err(Errno::INTR) => {}
                Err(error) => {
                    let folder = self.files.first().map(|it| it.folder.as_path());
                    let folder = folder.unwrap_or(Path::new("."));
                    return Err(failed(folder, "watch", &error.into()));
                }
            }
        }
    }
}

//! Watches one file by its folder, so that a renamed one is seen as well.

use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use trueup_reconcile::{Drained, ErrorClass, Subscription};

use super::file::failed;
use crate::{Failure, Watch};

struct FileWatch {
    inotify: OwnedFd,
    folder: PathBuf,
    name: OsString,
}

pub(super) fn watch(path: &Path) -> Result<Watch, Failure> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let refused = |error: Errno| failed(folder, "watch", &error.into());
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(refused)?;
    let events = WatchFlags::ATTRIB
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
        | WatchFlags::ONLYDIR;
    inotify::add_watch(&inotify, folder, events).map_err(refused)?;
    Ok(Watch::Active(Box::new(FileWatch {
        inotify,
        folder: folder.to_owned(),
        name: path.file_name().unwrap_or_default().to_owned(),
    })))
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
                    let message = format!("{}: the folder is gone", self.folder.display());
                    return Err(Failure::new(ErrorClass::Dependency, message));
                }
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    drained = Drained::Lost;
                }
                Ok(event) => {
                    let name = event.file_name().map(|it| it.to_bytes());
                    if name == Some(self.name.as_bytes()) && drained == Drained::Nothing {
                        drained = Drained::Hint;
                    }
                }
                Err(Errno::AGAIN) => return Ok(drained),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(&self.folder, "watch", &error.into())),
            }
        }
    }
}

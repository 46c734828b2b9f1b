//! The walk from `/` to a folder, without other users' links.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::{Control, Error, ErrorKind, Folder, Place, TrustedUsers};

/// The most symbolic links on a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The handling of a path's last name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// The name is not examined.
    Held,
    /// If it is a link, it is followed.
    Followed,
    /// It must be a folder.
    Folder,
    /// It must be a folder. If it or its parents are missing, they are created with this mode.
    Made(u32),
}

struct Walk<'a> {
    users: &'a TrustedUsers,
    /// The requested path.
    asked: &'a Path,
    /// The folders from `/` to the current one.
    folders: Vec<Folder>,
    /// The remaining names.
    rest: VecDeque<OsString>,
    links: usize,
    last: Last,
}

/// Walks to the place of `path`'s last name.
pub(crate) fn to_place(users: &TrustedUsers, path: &Path, last: Last) -> Result<Place, Error> {
    let mut walk = Walk::new(users, path, last)?;
    while let Some(name) = walk.rest.pop_front() {
        if name == ".." {
            walk.leave();
        } else if !walk.rest.is_empty() {
            walk.enter(&name)?;
        } else if last == Last::Held || !walk.follow(&name)? {
            let folder = walk.into_folder(path)?;
            return Ok(Place::new(folder, name));
        }
    }
    let message = "it names a folder, and no file";
    Err(Error::of_kind(ErrorKind::NotRegular, path, message))
}

/// Walks to a folder.
pub(crate) fn to_folder(users: &TrustedUsers, path: &Path, last: Last) -> Result<Folder, Error> {
    let mut walk = Walk::new(users, path, last)?;
    while let Some(name) = walk.rest.pop_front() {
        if name == ".." { walk.leave() } else { walk.enter(&name)? }
    }
    walk.into_folder(path)
}

/// A name in a folder, with its descriptor (`O_PATH`) and metadata.
pub(crate) struct Found {
    pub(crate) descriptor: OwnedFd,
    pub(crate) metadata: Metadata,
}

/// Opens a name in a folder without following it and without an effect on it. `None` if it does not
/// exist.
pub(crate) fn look(folder: &Folder, name: &OsStr) -> Result<Option<Found>, Error> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(folder.as_fd(), name, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Error::os(&folder.path().join(name), "open", error)),
        Ok(descriptor) => Found::of(descriptor)
            .map(Some)
            .map_err(|error| Error::os(&folder.path().join(name), "read", error)),
    }
}

impl Found {
    pub(crate) fn of(descriptor: OwnedFd) -> io::Result<Found> {
        let file = File::from(descriptor);
        Ok(Found { metadata: file.metadata()?, descriptor: file.into() })
    }
}

impl<'a> Walk<'a> {
    fn new(users: &'a TrustedUsers, path: &'a Path, last: Last) -> Result<Walk<'a>, Error> {
        if path.as_os_str().is_empty() {
            let message = "an empty path names nothing";
            return Err(Error::of_kind(ErrorKind::NotRegular, path, message));
        }
        let absolute =
            std::path::absolute(path).map_err(|error| Error::os(path, "resolve", error))?;
        Ok(Walk {
            users,
            asked: path,
            folders: vec![Folder::root(users)?],
            rest: names(&absolute).collect(),
            links: 0,
            last,
        })
    }

    fn here(&self) -> Option<&Folder> {
        self.folders.last()
    }

    /// Goes to the parent, which is `/` itself for `/`.
    fn leave(&mut self) {
        if self.folders.len() > 1 {
            self.folders.pop();
        }
    }

    fn into_folder(mut self, path: &Path) -> Result<Folder, Error> {
        let message = "it has no folder";
        self.folders.pop().ok_or_else(|| Error::of_kind(ErrorKind::NotRegular, path, message))
    }

    /// Enters a folder, or follows a link to one.
    fn enter(&mut self, name: &OsStr) -> Result<(), Error> {
        let Some(here) = self.here() else {
            return Ok(());
        };
        let found = match (look(here, name)?, self.last) {
            (Some(found), _) => found,
            (None, Last::Made(mode)) => here.make(name, mode)?,
            (None, _) => return Err(Error::os(self.asked, "open", Errno::NOENT)),
        };
        if found.metadata.is_symlink() {
            return self.follow_link(name, &found);
        }
        let folder = step(here, name, found, self.users)?;
        self.folders.push(folder);
        Ok(())
    }

    /// Follows the last name if it is a link; returns false otherwise.
    fn follow(&mut self, name: &OsStr) -> Result<bool, Error> {
        let Some(here) = self.here() else {
            return Ok(false);
        };
        match look(here, name)? {
            Some(found) if found.metadata.is_symlink() && !is_kernels(here)? => {
                self.follow_link(name, &found)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn follow_link(&mut self, name: &OsStr, found: &Found) -> Result<(), Error> {
        let Some(here) = self.here() else {
            return Ok(());
        };
        let link = here.path().join(name);
        if !is_firm(here.control(), &found.metadata, self.users) {
            let message = format!(
                "a symbolic link of user {} in {}, where {}, is not followed; name the file or \
                 folder that it leads to",
                found.metadata.uid(),
                here.path().display(),
                here.control(),
            );
            return Err(Error::refused(&link, message));
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Error::os(&link, "follow", Errno::LOOP));
        }
        let target = readlinkat(&found.descriptor, "", Vec::new())
            .map_err(|error| Error::os(&link, "read", error))?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            self.folders.truncate(1);
        }
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            self.rest.push_front(name);
        }
        Ok(())
    }
}

/// True if the kernel makes the folder's content: it is in `/proc`, where a last link leads
/// elsewhere than its text says.
pub(crate) fn is_kernels(folder: &Folder) -> Result<bool, Error> {
    const PROC_SUPER_MAGIC: i128 = 0x9fa0;
    let on = rustix::fs::fstatfs(folder.as_fd())
        .map_err(|error| Error::os(folder.path(), "read", error))?;
    Ok(i128::from(on.f_type) == PROC_SUPER_MAGIC)
}

/// True if only root and we can change a file or link in a folder with this control, or can have
/// put it there.
pub(crate) fn is_firm(control: Control, found: &Metadata, users: &TrustedUsers) -> bool {
    match control {
        Control::Ours => users.has(found.uid()),
        // A second name may be another user's hard link to a file of ours elsewhere.
        Control::Sticky => users.has(found.uid()) && found.nlink() == 1,
        Control::User(_) | Control::Shared => false,
    }
}

/// Enters a folder, unless a user who can change its parent could lead us to a third user's folder.
fn step(
    parent: &Folder,
    name: &OsStr,
    found: Found,
    users: &TrustedUsers,
) -> Result<Folder, Error> {
    let path = parent.path().join(name);
    if !found.metadata.is_dir() {
        let message = "it is not a folder";
        return Err(Error::of_kind(ErrorKind::NotRegular, &path, message));
    }
    let owner = found.metadata.uid();
    let control = Control::of(&found.metadata, &found.descriptor, users);
    let is_safe = match parent.control() {
        Control::Ours | Control::Sticky => true,
        Control::User(user) => owner == user,
        Control::Shared => false,
    };
    if !is_safe {
        let message = format!(
            "the folder of user {owner} is in {}, where {}: another folder can be put in its \
             place; let nobody but its owner write {}, or use another folder",
            parent.path().display(),
            parent.control(),
            parent.path().display(),
        );
        return Err(Error::refused(&path, message));
    }
    Ok(Folder::new(found.descriptor, path, control))
}

/// Returns a path's names, without `.`.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

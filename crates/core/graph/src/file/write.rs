//! Writes a file at once, with the owner, the group and the mode that it is to have.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use rustix::process::getegid;
use trueup_path::{Control, Place, TrustedUsers};
use trueup_reconcile::ErrorClass;

use super::File;
use super::place::{failed, failure};
use crate::Failure;

/// The mode of a file that is created, unless declared.
const DEFAULT_MODE: u32 = 0o644;
/// The longest list of extended attributes, and the longest value of one: `XATTR_LIST_MAX`.
const MAX_EXTENDED: usize = 65_536;
/// Write permission of the group and of all others.
const OTHERS_WRITE: u32 = 0o022;

/// The owner, group and mode that a file is to have; `None` is what the system gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    /// The extended attributes of the old file are kept, and so its access control list is.
    keeps_extended: bool,
    user: Option<u32>,
    group: Option<u32>,
    mode: u32,
}

/// Who can change a file, and put another one in its place.
pub(super) struct Whose<'a> {
    pub(super) users: &'a TrustedUsers,
    pub(super) folder: Control,
}

impl File {
    /// Returns what the file is to have, given what is there. What is not declared stays as it is,
    /// unless another user can have put that file there: then it is ours.
    pub(super) fn attributes(&self, whose: &Whose<'_>, old: Option<&fs::Metadata>) -> Attributes {
        let is_ours = whose.folder.is_ours();
        let kept = old.filter(|old| is_ours || self.is_trusted(whose.users, old));
        let (our_user, our_group) =
            if is_ours { (None, None) } else { (Some(whose.users.us()), Some(getegid().as_raw())) };
        let kept_bits = if is_ours { 0o7777 } else { 0o7777 & !OTHERS_WRITE };
        let kept_mode = kept.map(|it| it.mode() & kept_bits);
        Attributes {
            keeps_extended: kept.is_some(),
            user: self.user.or(kept.map(|it| it.uid())).or(our_user),
            group: self.group.or(kept.map(|it| it.gid())).or(our_group),
            mode: self.mode.or(kept_mode).unwrap_or(DEFAULT_MODE),
        }
    }

    /// True if root, we or the declared owner made this file. One with two names may have been made
    /// elsewhere.
    fn is_trusted(&self, users: &TrustedUsers, found: &fs::Metadata) -> bool {
        let is_of_owner = users.has(found.uid()) || self.user == Some(found.uid());
        is_of_owner && found.nlink() == 1
    }
}

impl Attributes {
    pub(super) fn are_of(&self, found: &fs::Metadata) -> bool {
        self.user.is_none_or(|it| it == found.uid())
            && self.group.is_none_or(|it| it == found.gid())
            && self.mode == found.mode() & 0o7777
    }

    /// Gives a new file the extended attributes of the old one, unless another user can have set
    /// them. Those that say something of the old content are left out, as the kernel removes them
    /// with a write. To be called before [`set`](Self::set): a list has its part in the mode.
    pub(super) fn copy_extended(&self, old: &fs::File, new: &fs::File) -> io::Result<()> {
        if !self.keeps_extended {
            return Ok(());
        }
        let mut names = vec![0; MAX_EXTENDED];
        let len = match flistxattr(old, &mut names) {
            Err(Errno::NOTSUP) => return Ok(()),
            listed => listed?,
        };
        let mut value = vec![0; MAX_EXTENDED];
        for name in names[..len].split(|byte| *byte == 0) {
            if name.is_empty() || is_left_out(name) {
                continue;
            }
            let len = match fgetxattr(old, name, &mut value) {
                // Another writer has just removed it.
                Err(Errno::NODATA) => continue,
                read => read?,
            };
            match fsetxattr(new, name, &value[..len], XattrFlags::empty()) {
                // The label that the system gives stays.
                Err(Errno::PERM | Errno::NOTSUP) if name.starts_with(b"security.") => {}
                set => set?,
            }
        }
        Ok(())
    }

    /// Sets them. False if they read back differently.
    #[expect(clippy::disallowed_methods, reason = "of the open file that `trueup_path` gave")]
    pub(super) fn set(&self, file: &fs::File) -> io::Result<bool> {
        let found = file.metadata()?;
        let user = self.user.filter(|it| *it != found.uid());
        let group = self.group.filter(|it| *it != found.gid());
        // The owner first: changing it clears bits of the mode.
        if user.is_some() || group.is_some() {
            fchown(file, user.map(Uid::from_raw), group.map(Gid::from_raw))?;
        }
        fchmod(file, Mode::from_raw_mode(self.mode))?;
        Ok(self.are_of(&file.metadata()?))
    }
}

impl Whose<'_> {
    /// True if the attributes of this file may be changed in place: it is the one that is meant, it
    /// has no other name, and no other user can have it open to write.
    pub(super) fn may_change(&self, found: &fs::Metadata) -> bool {
        self.folder.is_ours()
            && self.users.has(found.uid())
            && found.nlink() == 1
            && found.mode() & OTHERS_WRITE == 0
    }
}

/// True for what says something of the content, and for what the kernel keeps for itself.
fn is_left_out(name: &[u8]) -> bool {
    let of_content = [&b"security.capability"[..], b"security.ima", b"security.evm"];
    of_content.contains(&name) || name.starts_with(b"trusted.")
}

/// Writes a new file beside the old one, and puts it in its place if that is still the old one. A
/// file that is mounted there is written in place: the kernel refuses to replace it.
pub(super) fn replace(
    place: &Place,
    content: &[u8],
    attributes: Attributes,
    old: Option<&fs::File>,
) -> Result<(), Failure> {
    if let Some(old) = old
        && place.is_mount_point(old).map_err(failure)?
    {
        return overwrite(place, content, attributes);
    }
    let mut new = place.replacement(0o600).map_err(failure)?;
    let written = new.file().write_all(content);
    written.map_err(|error| failed(place.path(), "write", &error))?;
    if let Some(old) = old {
        let copied = attributes.copy_extended(old, new.file());
        copied.map_err(|error| failed(place.path(), "keep extended attributes", &error))?;
    }
    set(place, new.file(), attributes)?;
    new.publish(old).map_err(failure)
}

/// Writes a file in place: a reader can see a part of it.
fn overwrite(place: &Place, content: &[u8], attributes: Attributes) -> Result<(), Failure> {
    let Some(mut file) = place.open_to_write().map_err(failure)? else {
        let message = format!("{}: it has just gone; it is tried again", place.path().display());
        return Err(Failure::new(ErrorClass::Busy, message));
    };
    let written = file
        .write_all(content)
        .and_then(|()| file.set_len(content.len() as u64))
        .and_then(|()| file.sync_all());
    written.map_err(|error| failed(place.path(), "write", &error))?;
    set(place, &file, attributes)
}

/// Sets the owner, group and mode of an open file.
pub(super) fn set(place: &Place, file: &fs::File, attributes: Attributes) -> Result<(), Failure> {
    let path = place.path();
    match attributes.set(file) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = format!(
                "{}: its mode or owner reads back differently; does its file system keep them?",
                path.display()
            );
            Err(Failure::new(ErrorClass::StoredOtherwise, message))
        }
        Err(error) => Err(failed(path, "set mode and owner", &error)),
    }
}

//! Replaces a file in one step, with the owner, group and mode that it should have.

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

/// A new file's mode, unless one is declared.
const DEFAULT_MODE: u32 = 0o644;
/// The longest list of extended attributes, and the longest value of one, in bytes:
/// `XATTR_LIST_MAX`.
const MAX_EXTENDED: usize = 65_536;
/// Write permission for the group and for all others.
const OTHERS_WRITE: u32 = 0o022;

/// The owner, group and mode that a file should have; `None` leaves the choice to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    /// True if the old file's extended attributes are kept, including its access control list.
    keeps_extended: bool,
    user: Option<u32>,
    group: Option<u32>,
    mode: u32,
}

/// The users who can change a file, or put another one in its place.
pub(super) struct Whose<'a> {
    pub(super) users: &'a TrustedUsers,
    pub(super) folder: Control,
}

impl File {
    /// Returns the attributes that the file should have, given the existing one's. An undeclared
    /// attribute stays, unless another user could have put that file there: then it is ours.
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

    /// True if root, we or the declared owner made this file. A file with two names may have been
    /// made elsewhere.
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

    /// Copies the old file's extended attributes to a new file, unless another user could have set
    /// them. Leaves out attributes that describe the old content, as the kernel removes them at a
    /// write. Call it before [`set`](Self::set), because an access control list affects the mode.
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
                // The label that the system gave stays.
                Err(Errno::PERM | Errno::NOTSUP) if name.starts_with(b"security.") => {}
                set => set?,
            }
        }
        Ok(())
    }

    /// Sets the attributes. False if they read back differently.
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
    /// True if this file's attributes may be changed in place: it is the expected file, it has no
    /// other name, and no other user can have it open for writing.
    pub(super) fn may_change(&self, found: &fs::Metadata) -> bool {
        self.folder.is_ours()
            && self.users.has(found.uid())
            && found.nlink() == 1
            && found.mode() & OTHERS_WRITE == 0
    }
}

/// True for an attribute that describes the content or belongs to the kernel.
fn is_left_out(name: &[u8]) -> bool {
    let of_content = [&b"security.capability"[..], b"security.ima", b"security.evm"];
    of_content.contains(&name) || name.starts_with(b"trusted.")
}

/// Writes a new file beside the old one and exchanges them, if the old one is still there. If the
/// file is a mount point, writes it in place, because the kernel refuses to replace it.
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

/// Writes a file in place: a reader may see a part of the content.
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

/// Sets an open file's owner, group and mode.
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

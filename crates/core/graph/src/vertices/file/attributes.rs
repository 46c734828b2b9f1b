//! The owner, group and mode that a file is to have.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{Gid, Mode, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr, fsetxattr};
use rustix::io::Errno;
use rustix::process::getegid;
use trueup_path::{Control, TrustedUsers};

use super::File;

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
        let ours = |id: u32| (!is_ours).then_some(id);
        let kept_bits = if is_ours { 0o7777 } else { 0o7777 & !OTHERS_WRITE };
        let kept_mode = kept.map(|it| it.mode() & kept_bits);
        Attributes {
            keeps_extended: kept.is_some(),
            user: self.user.or(kept.map(|it| it.uid())).or(ours(whose.users.us())),
            group: self.group.or(kept.map(|it| it.gid())).or(ours(getegid().as_raw())),
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

//! The owner, group and mode that a file is to have.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{Gid, Mode, Uid, fchmod, fchown};
use rustix::process::getegid;
use trueup_path::{Control, TrustedUsers};

use super::File;

/// The mode of a file that is created, unless declared.
const DEFAULT_MODE: u32 = 0o644;
/// Write permission of the group and of all others.
const OTHERS_WRITE: u32 = 0o022;

/// The owner, group and mode that a file is to have; `None` is what the system gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
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
        let kept_bits = if is_ours {
            0o7777
        } else {
            0o7777 & !OTHERS_WRITE
        };
        let kept_mode = kept.map(|it| it.mode() & kept_bits);
        Attributes {
            user: self
                .user
                .or(kept.map(|it| it.uid()))
                .or(ours(whose.users.us())),
            group: self
                .group
                .or(kept.map(|it| it.gid()))
                .or(ours(getegid().as_raw())),
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

    /// Sets them. False if they read back differently.
    #[expect(
        clippy::disallowed_methods,
        reason = "of the open file that `trueup_path` gave"
    )]
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

//! Who can change what is in a folder.

use std::fmt;
use std::fs::Metadata;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;

use crate::TrustedUsers;

/// The users who can change what is in a folder, or put another folder in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Nobody but root and we.
    Ours,
    /// Everybody can add entries, and nobody but root and we can change those of others, as in
    /// `/tmp`.
    Sticky,
    /// This user.
    User(u32),
    /// The members of a group, or everybody.
    Shared,
}

/// Write permission of the group and of all others.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// True if users other than the owner can write this file or folder.
pub(crate) fn others_can_write(found: &Metadata, descriptor: impl AsFd) -> bool {
    let by_group = found.mode() & GROUP_WRITES != 0;
    let is_private = found.gid() == found.uid() && !has_acl(descriptor);
    found.mode() & OTHERS_WRITE != 0 || by_group && !is_private
}

/// True if users other than the owner, root and us can do anything with this file.
pub(crate) fn others_can_read(
    found: &Metadata,
    descriptor: impl AsFd,
    users: &TrustedUsers,
) -> bool {
    let by_group = found.mode() & 0o070 != 0;
    let is_others = found.mode() & 0o007 != 0;
    is_others || by_group && !acl(descriptor).is_some_and(|acl| names_only_ours(&acl, users))
}

/// The bits of a group are the upper bound of an access control list, if there is one.
fn has_acl(descriptor: impl AsFd) -> bool {
    acl(descriptor).is_some()
}

/// Returns the access control list as the kernel keeps it, if there is one; one of uncommon size is
/// empty.
fn acl(descriptor: impl AsFd) -> Option<Vec<u8>> {
    let path = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    let mut value = vec![0; 4_096];
    let length = match rustix::fs::getxattr(path, "system.posix_acl_access", &mut value) {
        Err(rustix::io::Errno::RANGE) => 0,
        length => length.ok().filter(|length| *length > 0)?,
    };
    value.truncate(length);
    Some(value)
}

/// True if the list gives rights to no user but the owner, root and us: `acl(5)`, in the form of
/// `linux/posix_acl_xattr.h`.
fn names_only_ours(acl: &[u8], users: &TrustedUsers) -> bool {
    const VERSION: [u8; 4] = [2, 0, 0, 0];
    const OWNER: u16 = 0x01;
    const USER: u16 = 0x02;
    const MASK: u16 = 0x10;
    let Some(entries) = acl.strip_prefix(&VERSION) else {
        return false;
    };
    let (entries, rest) = entries.as_chunks::<8>();
    rest.is_empty()
        && entries.iter().all(|[tag, more, rights, _, id @ ..]| {
            match u16::from_le_bytes([*tag, *more]) {
                OWNER | MASK => true,
                _ if *rights == 0 => true,
                USER => users.has(u32::from_le_bytes(*id)),
                _ => false,
            }
        })
}

impl Control {
    /// Returns the control of a folder by its own owner and mode.
    pub(crate) fn of(found: &Metadata, descriptor: impl AsFd, users: &TrustedUsers) -> Control {
        let others = others_can_write(found, descriptor);
        match (users.has(found.uid()), others) {
            (true, false) => Control::Ours,
            (true, true) if found.mode() & STICKY != 0 => Control::Sticky,
            (false, false) => Control::User(found.uid()),
            (_, true) => Control::Shared,
        }
    }

    /// True if nobody but root and we can change what is there.
    #[must_use]
    pub fn is_ours(self) -> bool {
        self == Control::Ours
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Control::Ours => f.write_str("nobody else can write it"),
            Control::Sticky => f.write_str("everybody can add files to it"),
            Control::User(user) => write!(f, "user {user} can write it"),
            Control::Shared => f.write_str("its group or everybody can write it"),
        }
    }
}

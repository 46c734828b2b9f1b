//! The trusted users, and the users who can change a folder's content.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::Error;

/// The id that the kernel shows for users whom a user namespace does not map: `overflowuid`.
const OVERFLOW: u32 = 65_534;

/// The trusted users, whose files and folders count as ours: root, and this process's user.
///
/// ```
/// use trueup_path::TrustedUsers;
///
/// let users = TrustedUsers::with_user(1000);
/// assert_eq!(users.us(), 1000);
/// assert!(users.has(0) && users.has(1000));
/// assert!(!users.has(1001));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedUsers {
    us: u32,
    /// The owner of `/` in a user namespace that does not map root.
    outer_root: Option<u32>,
}

impl TrustedUsers {
    /// Returns root and this process's effective user.
    ///
    /// # Errors
    ///
    /// `/` cannot be read.
    pub fn current() -> Result<TrustedUsers, Error> {
        let us = rustix::process::geteuid().as_raw();
        let root = Path::new("/");
        let found = fs::metadata(root).map_err(|error| Error::os(root, "read", error))?;
        let is_outer = found.uid() == OVERFLOW && !maps_all_users();
        Ok(TrustedUsers { us, outer_root: is_outer.then_some(OVERFLOW) })
    }

    /// Returns root and this user, such as the user that the process will run as.
    #[must_use]
    pub fn with_user(us: u32) -> TrustedUsers {
        TrustedUsers { us, outer_root: None }
    }

    /// True if the user with this number is trusted. Root (0) is.
    #[must_use]
    pub fn has(&self, user: u32) -> bool {
        user == 0 || user == self.us || self.outer_root == Some(user)
    }

    /// Returns the user that this process runs as.
    #[must_use]
    pub fn us(&self) -> u32 {
        self.us
    }
}

fn maps_all_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let mut words = map.split_whitespace();
    words.next() == Some("0") && words.nth(1) == Some("4294967295")
}

/// The users who can change a folder's content, or replace the folder.
///
/// ```
/// use trueup_path::{Control, TrustedUsers};
///
/// let users = TrustedUsers::current()?;
/// assert!(users.folder("/proc".as_ref())?.control().is_ours());
/// assert!(!Control::Sticky.is_ours()); // as `/tmp`
/// # Ok::<(), trueup_path::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Only root and the user of this process.
    Ours,
    /// Any user can add entries, and only root and we can change other users' entries, as in
    /// `/tmp`.
    Sticky,
    /// Another user with this number, and root.
    User(u32),
    /// A group's members, or all users.
    Shared,
}

/// The group's write permission.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// True if users other than the owner can write this file or folder.
pub(crate) fn others_can_write(found: &Metadata, descriptor: impl AsFd) -> bool {
    let by_group = found.mode() & GROUP_WRITES != 0;
    // If there is an access control list, the group's bits are its upper limit.
    let is_private = found.gid() == found.uid() && acl(descriptor).is_none();
    found.mode() & OTHERS_WRITE != 0 || by_group && !is_private
}

/// True if users other than the owner, root and us have any right on this file.
pub(crate) fn others_can_read(
    found: &Metadata,
    descriptor: impl AsFd,
    users: &TrustedUsers,
) -> bool {
    let by_group = found.mode() & 0o070 != 0;
    let is_others = found.mode() & 0o007 != 0;
    is_others || by_group && !acl(descriptor).is_some_and(|acl| names_only_ours(&acl, users))
}

/// Returns the access control list in the kernel's encoding; `None` without one. A list of uncommon
/// size counts as empty.
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

/// True if the list gives rights only to the owner, root and us: `acl(5)`, in the form of
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
    /// Returns a folder's control by its own owner and mode.
    pub(crate) fn of(found: &Metadata, descriptor: impl AsFd, users: &TrustedUsers) -> Control {
        let others = others_can_write(found, descriptor);
        match (users.has(found.uid()), others) {
            (true, false) => Control::Ours,
            (true, true) if found.mode() & STICKY != 0 => Control::Sticky,
            (false, false) => Control::User(found.uid()),
            (_, true) => Control::Shared,
        }
    }

    /// True if only root and we can change the folder's content.
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

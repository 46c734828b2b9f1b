//! The users whose files and folders count as ours.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::Error;

/// The id that the kernel shows for users whom a user namespace does not map: `overflowuid`.
const OVERFLOW: u32 = 65_534;

/// The users who decide: root, and the user that this process runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedUsers {
    us: u32,
    /// The owner of `/` in a user namespace that does not map root.
    outer_root: Option<u32>,
}

impl TrustedUsers {
    /// Returns root and the effective user of this process.
    ///
    /// # Errors
    ///
    /// When `/` cannot be read.
    pub fn current() -> Result<TrustedUsers, Error> {
        let us = rustix::process::geteuid().as_raw();
        let root = Path::new("/");
        let found = fs::metadata(root).map_err(|error| Error::os(root, "read", error))?;
        let is_outer = found.uid() == OVERFLOW && !maps_all_users();
        Ok(TrustedUsers { us, outer_root: is_outer.then_some(OVERFLOW) })
    }

    /// Returns root and this user, such as one that the process will run as.
    #[must_use]
    pub fn with_user(us: u32) -> TrustedUsers {
        TrustedUsers { us, outer_root: None }
    }

    /// True if `user` is one of them.
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

//! [`Stamp`]: what tells the contents of a file apart, and whether they are taken.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::desired_file::{self, Writers};

/// The inode, size and times of a file, which differ for each content, and whether another user
/// could decide about it: a folder on the way may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    content: Option<[i128; 5]>,
    is_untrusted: bool,
}

impl Stamp {
    /// Returns the stamp of a file now; files that cannot be read share one.
    pub(crate) fn of(path: &Path, writers: Writers) -> Stamp {
        let nanoseconds =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        let content = fs::metadata(path).ok().map(|file| {
            [
                file.dev().into(),
                file.ino().into(),
                file.size().into(),
                nanoseconds(file.mtime(), file.mtime_nsec()),
                nanoseconds(file.ctime(), file.ctime_nsec()),
            ]
        });
        Stamp { content, is_untrusted: desired_file::untrusted(path, writers).is_some() }
    }

    /// Returns true if the same file was written since.
    pub(crate) fn is_rewritten(&self, before: &Stamp) -> bool {
        let inode = |stamp: &Stamp| stamp.content.map(|[dev, ino, ..]| (dev, ino));
        self != before && inode(self) == inode(before)
    }
}

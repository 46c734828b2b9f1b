//! [`Stamp`]: what tells the contents of a file apart.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The inode, size and times of a file, which differ for each content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands::watch) struct Stamp(Option<[i128; 5]>);

impl Stamp {
    /// Returns the stamp of a file now; files that cannot be read share one.
    pub(in crate::commands::watch) fn of(path: &Path) -> Stamp {
        let nanoseconds =
            |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Stamp(fs::metadata(path).ok().map(|file| {
            [
                file.dev().into(),
                file.ino().into(),
                file.size().into(),
                nanoseconds(file.mtime(), file.mtime_nsec()),
                nanoseconds(file.ctime(), file.ctime_nsec()),
            ]
        }))
    }

    /// Returns true if the same file was written since.
    pub(super) fn is_rewritten(&self, before: &Stamp) -> bool {
        let inode = |stamp: &Stamp| stamp.0.map(|[dev, ino, ..]| (dev, ino));
        self != before && inode(self) == inode(before)
    }
}

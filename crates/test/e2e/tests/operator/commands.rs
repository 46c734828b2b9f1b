//! Programs that the operator runs, and the list of mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a program, and returns true if it succeeded. A failure is harmless: its object may be gone.
pub(crate) fn run(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

/// Runs `ip` with arguments separated by spaces.
pub(crate) fn ip(words: &str) -> bool {
    run("ip", &words.split(' ').collect::<Vec<_>>())
}

/// Mounts a tmpfs with a size such as `1m`; returns true if it succeeded.
pub(crate) fn mount_tmpfs(path: &Path, size: &str) -> bool {
    let options = format!("size={size},mode=0755");
    let path = path.to_str().unwrap();
    run("mount", &["-t", "tmpfs", "-o", &options, "none", path])
}

pub(crate) fn mount_bind(from: &Path, to: &Path) -> bool {
    let words = [from, to].map(|path| path.to_str().unwrap());
    run("mount", &["--bind", words[0], words[1]])
}

/// Unmounts the topmost mount at the path, even if it is in use; returns true if it succeeded.
pub(crate) fn unmount(path: &Path) -> bool {
    run("umount", &["-l", path.to_str().unwrap()])
}

/// Returns true if there is a mount at the path itself.
pub(crate) fn is_mounted(path: &Path) -> bool {
    mounts().any(|mount| mount == path)
}

/// Returns the paths of all mounts, the newest last.
pub(crate) fn mounts() -> impl DoubleEndedIterator<Item = PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let paths = mounts.lines().filter_map(|line| Some(PathBuf::from(line.split(' ').nth(4)?)));
    paths.collect::<Vec<_>>().into_iter()
}

//! Debian's kernel packages: found by their version, downloaded, and unpacked without installing
//! them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{Result, apt_get, at, can_install, emptied, entries, output, show_and_run};

/// An unpacked kernel.
pub(super) struct Package {
    /// The directory that has `lib/modules/RELEASE`.
    pub(super) root: PathBuf,
    /// The release, as `uname -r` prints it.
    pub(super) release: String,
    /// The image for qemu.
    pub(super) image: PathBuf,
}

impl Package {
    /// Returns the path of a file that has an absolute path in the guest.
    pub(super) fn file(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Returns the newest kernel of a series, such as `6.12`, in this machine's Debian. It takes the
/// cloud package, which leaves out drivers that no virtual machine needs. It is downloaded once.
pub(super) fn unpacked(series: &str, dir: &Path) -> Result<Package> {
    let found = match newest(series)? {
        None if can_install() => {
            show_and_run(&mut apt_get(&["update", "--quiet"]))?;
            newest(series)?
        }
        found => found,
    };
    let name = found.ok_or_else(|| {
        format!(
            "apt knows no package linux-image-{series}.*-cloud-amd64: Debian 12 has 6.1, and 6.12 in its updates; \
             Debian 13 has 6.12. Does `apt-get update` help?"
        )
    })?;
    let root = dir.join(&name);
    if !root.is_dir() {
        fetch(&name, &root)?;
    }
    let release = name.trim_start_matches("linux-image-").to_owned();
    let image = root.join("boot").join(format!("vmlinuz-{release}"));
    Ok(Package { root, release, image })
}

fn newest(series: &str) -> Result<Option<String>> {
    let pattern = format!(r"^linux-image-{}\.[0-9].*-cloud-amd64$", series.replace('.', r"\."));
    let listed = output(Command::new("apt-cache").args(["search", "--names-only", &pattern]))?;
    let names = listed.lines().filter_map(|line| line.split(' ').next());
    Ok(names.max_by_key(|name| numbers(name)).map(str::to_owned))
}

/// Returns the numbers in a name, to compare versions.
fn numbers(name: &str) -> Vec<u64> {
    let words = name.split(|c: char| !c.is_ascii_digit());
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Downloads a package; if the archive no longer has it, updates the list and retries.
fn fetch(name: &str, root: &Path) -> Result<()> {
    unpack(root, |parts| {
        let mut download = apt_get(&["download", "--quiet", name]);
        match show_and_run(download.current_dir(parts)) {
            Err(_) if can_install() => {
                show_and_run(&mut apt_get(&["update", "--quiet"]))?;
                show_and_run(&mut download)
            }
            ended => ended.map_err(|error| format!("{error}: does `sudo apt-get update` help?")),
        }
    })
}

/// Unpacks the downloaded packages into a directory beside `root`, then renames it, so that `root`
/// is always complete. Nothing is installed.
pub(super) fn unpack(root: &Path, download: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let parts = root.with_file_name("fetched");
    let unpacked = parts.join("root");
    emptied(&unpacked)?;
    download(&parts)?;
    let mut packages = entries(&parts)?;
    packages.retain(|path| path.extension().is_some_and(|ending| ending == "deb"));
    if packages.is_empty() {
        return Err(format!("{}: no package was downloaded", parts.display()));
    }
    for package in packages {
        output(Command::new("dpkg-deb").arg("-x").args([&package, &unpacked]))?;
    }
    at(root, fs::rename(&unpacked, root))?;
    at(&parts, fs::remove_dir_all(&parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let (nine, ten) =
            ("linux-image-6.12.9+deb12-cloud-amd64", "linux-image-6.12.10+deb12-cloud-amd64");
        for names in [[nine, ten], [ten, nine]] {
            assert_eq!(names.into_iter().max_by_key(|name| numbers(name)), Some(ten));
        }
    }
}

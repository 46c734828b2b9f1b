//! Runs the unit of `docs/examples/trueup.service` under a real systemd: a guest with Debian's
//! systemd packages, the program, a desired state with files and commands, and a script that checks
//! the result.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::boot::{Accel, Machine};
use super::cpio::Archive;
use super::initramfs::{self, copy, copy_program};
use super::package::{self, Package};
use super::programs::Programs;
use crate::programs::Program;
use crate::tools::{Result, apt_get, at, entries, joined, output, root};

/// The packages to unpack, with all their dependencies.
const PACKAGES: [&str; 7] =
    ["systemd", "dash", "libnss-systemd", "coreutils", "sed", "grep", "iproute2"];

/// The directories that Debian has moved below `/usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// Directories that no process reads.
const UNREAD: [&str; 5] = ["doc", "man", "locale", "info", "i18n"];

/// The kernel of the guest.
const KERNEL: &str = "6.1";

/// Files of the guest outside packages: path, mode and content.
const FILES: [(&str, u32, &str); 9] = [
    ("/init", 0o755, include_str!("service/init.sh")),
    ("/usr/bin/check", 0o755, include_str!("service/check.sh")),
    ("/etc/systemd/system/check.service", 0o644, include_str!("service/check.service")),
    (
        "/etc/systemd/system/trueup.service",
        0o644,
        include_str!("../../../docs/examples/trueup.service"),
    ),
    ("/etc/trueup/net.toml", 0o644, include_str!("service/net.toml")),
    (
        "/etc/passwd",
        0o644,
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("/etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", 0o644, "passwd: files systemd\ngroup: files systemd\n"),
    ("/etc/machine-id", 0o644, ""),
];

/// Links to the units to start.
const LINKS: [(&str, &str); 3] = [
    ("/etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target"),
    ("/etc/systemd/system/multi-user.target.wants/trueup.service", "../trueup.service"),
    ("/etc/systemd/system/multi-user.target.wants/check.service", "../check.service"),
];

/// Builds and runs the guest. Returns the result in one line.
pub(crate) fn run(accel: Option<Accel>) -> Result<String> {
    super::need()?;
    let built = crate::programs::build(&["--test", "program"])?;
    let program = crate::programs::find(&built, "cli/trueup")?;
    let dir = super::dir()?;
    let kernel = package::unpacked(KERNEL, &dir)?;
    let image = dir.join("service.cpio");
    let modules = initramfs::modules(&kernel)?;
    write(&image, &kernel, &modules, program, &userland(&dir)?)?;
    let machine = Machine {
        kernel: kernel.image,
        initramfs: image,
        accel,
        log: dir.join("service.log"),
        console: dir.join("service.console.log"),
    };
    let checks = Program {
        name: "service/systemd".to_owned(),
        path: PathBuf::from("/usr/bin/check"),
        dir: root(),
        is_test: true,
    };
    let ran = machine.boot(&Programs { tests: vec![checks], ..Programs::default() })?;
    println!("{}: {}", ran.release, ran.summary());
    joined(&ran.failures().collect::<Vec<_>>())?;
    Ok(ran.summary())
}

/// Downloads and unpacks the packages, once.
fn userland(dir: &Path) -> Result<PathBuf> {
    let root = dir.join("userland");
    if !root.is_dir() {
        let mut depends = Command::new("apt-cache");
        let listed = output(depends.args(["depends", "--recurse", "--important"]).args(PACKAGES))?;
        let packages =
            listed.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphanumeric()));
        package::unpack(&root, |parts| {
            let mut download = apt_get(&["download", "--quiet"]);
            output(download.args(packages).current_dir(parts)).map(drop)
        })?;
    }
    Ok(root)
}

fn write(
    image: &Path,
    kernel: &Package,
    modules: &[PathBuf],
    program: &Path,
    userland: &Path,
) -> Result<()> {
    let mut archive = Archive::create(image)?;
    // Make these first, so that all paths in them are unpacked below `/usr`.
    for merged in MERGED {
        archive.directory(&Path::new("/usr").join(merged))?;
        archive.link(&Path::new("/").join(merged), &format!("usr/{merged}"))?;
    }
    let mut list = String::new();
    for module in modules {
        let at = Path::new("/usr").join(module.strip_prefix("/").unwrap_or(module));
        copy(&mut archive, &kernel.file(module), &at)?;
        list.push_str(&format!("{}\n", at.display()));
    }
    for (path, mode, content) in FILES {
        archive.file_with_mode(Path::new(path), mode, content.as_bytes())?;
    }
    archive.file(Path::new("/modules"), list.as_bytes())?;
    for (link, to) in LINKS {
        archive.link(Path::new(link), to)?;
    }
    copy_program(&mut archive, &crate::tools::find("busybox")?, Path::new("/usr/bin/busybox"))?;
    copy_tree(&mut archive, userland, userland)?;
    copy_program(&mut archive, program, Path::new("/usr/bin/trueup"))?;
    archive.finish()
}

/// Copies a tree of packages to the root of the archive; moves Debian's merged directories below
/// `/usr`.
fn copy_tree(archive: &mut Archive<impl Write>, base: &Path, folder: &Path) -> Result<()> {
    for path in entries(folder)? {
        let inside = path.strip_prefix(base).unwrap_or(&path);
        let first = inside.components().next().map(|it| it.as_os_str());
        let is_merged = first.is_some_and(|first| MERGED.iter().any(|it| first == *it));
        let to = Path::new(if is_merged { "/usr" } else { "/" }).join(inside);
        let found = at(&path, fs::symlink_metadata(&path))?;
        if UNREAD.iter().any(|it| inside == Path::new("usr/share").join(it)) {
            continue;
        } else if found.is_symlink() {
            let target = at(&path, fs::read_link(&path))?;
            archive.link(&to, &target.to_string_lossy())?;
        } else if found.is_dir() {
            archive.directory(&to)?;
            copy_tree(archive, base, &path)?;
        } else {
            let content = at(&path, fs::read(&path))?;
            archive.file_with_mode(&to, found.permissions().mode() & 0o777, &content)?;
        }
    }
    Ok(())
}

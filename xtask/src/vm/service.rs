//! The unit of `docs/examples/trueup.service` under a real systemd: a guest with the packages of
//! Debian's systemd, the program, a desired state with files and commands, and a script that looks
//! at what becomes of it.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::boot::{Accel, Machine};
use super::cpio::Archive;
use super::initramfs::{self, copy_program};
use super::package;
use super::programs::Programs;
use crate::programs::Program;
use crate::tools::{Result, apt_get, at, emptied, entries, joined, output, root};

/// The packages, with all that they depend on.
const PACKAGES: [&str; 7] =
    ["systemd", "dash", "libnss-systemd", "coreutils", "sed", "grep", "iproute2"];

/// The folders that Debian has moved below `/usr`.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// What no process reads.
const UNREAD: [&str; 5] = ["doc", "man", "locale", "info", "i18n"];

/// The kernel that it is run on.
const KERNEL: &str = "6.1";

/// Files of the guest beside those of packages: path, mode and content.
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

/// Links to units that are started.
const LINKS: [(&str, &str); 3] = [
    ("/etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target"),
    ("/etc/systemd/system/multi-user.target.wants/trueup.service", "../trueup.service"),
    ("/etc/systemd/system/multi-user.target.wants/check.service", "../check.service"),
];

/// Runs it. Returns what came of it, in one line.
pub(crate) fn run(options: &[&str]) -> Result<String> {
    let accel = match options {
        [] => None,
        ["--accel", name] => Some(Accel::named(name)?),
        _ => return Err("service takes --accel kvm or tcg, or nothing".to_owned()),
    };
    super::need()?;
    let built = crate::programs::build(&["--test", "program"])?;
    let program = crate::programs::find(&built, "cli/trueup")?;
    let dir = super::dir()?;
    let kernel = package::unpacked(KERNEL, &dir)?;
    let image = dir.join("service.cpio");
    let modules = initramfs::modules(&kernel)?;
    write(&image, &kernel.root, &modules, program, &userland(&dir)?)?;
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
    let ran = machine.boot(&Programs {
        tests: vec![checks],
        others: Vec::new(),
        filter: String::new(),
    })?;
    println!("{}: {}", ran.release, ran.summary());
    joined(&ran.failures().collect::<Vec<_>>())?;
    Ok(ran.summary())
}

/// Fetches and unpacks the packages, once; nothing is installed.
fn userland(dir: &Path) -> Result<PathBuf> {
    let unpacked = dir.join("userland");
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    let parts = dir.join("userland.new");
    emptied(&parts.join("root"))?;
    let mut depends = Command::new("apt-cache");
    depends.args(["depends", "--recurse", "--important"]);
    let listed = output(depends.args(PACKAGES))?;
    let packages =
        listed.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_alphanumeric()));
    let mut download = apt_get(&["download", "--quiet"]);
    output(download.args(packages).current_dir(&parts))?;
    for path in entries(&parts)? {
        if path.extension().is_some_and(|ending| ending == "deb") {
            let mut unpack = Command::new("dpkg-deb");
            output(unpack.arg("-x").arg(&path).arg(parts.join("root")))?;
        }
    }
    at(&unpacked, fs::rename(parts.join("root"), &unpacked))?;
    at(&parts, fs::remove_dir_all(&parts))?;
    Ok(unpacked)
}

fn write(
    image: &Path,
    kernel: &Path,
    modules: &[PathBuf],
    program: &Path,
    userland: &Path,
) -> Result<()> {
    let named = |error: std::io::Error| format!("{}: {error}", image.display());
    let file = File::create(image).map_err(named)?;
    let mut archive = Archive::new(BufWriter::new(file));
    // First, so that what has a path in one of them is unpacked below `/usr`.
    for merged in MERGED {
        let folder = Path::new("/usr").join(merged);
        archive.directory(&folder).map_err(named)?;
        let link = Path::new("/").join(merged);
        archive.link(&link, &format!("usr/{merged}")).map_err(named)?;
    }
    let mut list = String::new();
    for module in modules {
        let content = fs::read(kernel.join(module.strip_prefix("/").unwrap_or(module)));
        let at = Path::new("/usr").join(module.strip_prefix("/").unwrap_or(module));
        let content = content.map_err(named)?;
        archive.file(&at, &content).map_err(named)?;
        list.push_str(&format!("{}\n", at.display()));
    }
    for (path, mode, content) in FILES {
        let put = archive.file_with_mode(Path::new(path), mode, content.as_bytes());
        put.map_err(named)?;
    }
    archive.file(Path::new("/modules"), list.as_bytes()).map_err(named)?;
    for (link, to) in LINKS {
        archive.link(Path::new(link), to).map_err(named)?;
    }
    copy_program(&mut archive, &crate::tools::find("busybox")?, Path::new("/usr/bin/busybox"))?;
    copy_tree(&mut archive, userland, userland).map_err(named)?;
    copy_program(&mut archive, program, Path::new("/usr/bin/trueup"))?;
    archive.finish().map_err(named)
}

/// Copies a tree of packages to the root of the archive, all below `/usr` that Debian has there.
fn copy_tree(archive: &mut Archive<impl Write>, base: &Path, folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let inside = path.strip_prefix(base).unwrap_or(&path);
        let first = inside.components().next().map(|it| it.as_os_str());
        let is_merged = first.is_some_and(|first| MERGED.iter().any(|it| first == *it));
        let at = Path::new(if is_merged { "/usr" } else { "/" }).join(inside);
        let found = fs::symlink_metadata(&path)?;
        if UNREAD.iter().any(|it| inside == Path::new("usr/share").join(it)) {
            continue;
        } else if found.is_symlink() {
            let to = fs::read_link(&path)?;
            archive.link(&at, &to.to_string_lossy())?;
        } else if found.is_dir() {
            archive.directory(&at)?;
            copy_tree(archive, base, &path)?;
        } else {
            archive.file_with_mode(&at, found.permissions().mode() & 0o777, &fs::read(&path)?)?;
        }
    }
    Ok(())
}

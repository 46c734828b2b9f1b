//! The ways in which users and programs edit a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::commands::run;
use crate::declared::Declared;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit {
    InPlace,
    RenameOver,
    TruncateThenWrite,
    /// By a program that keeps the file open and writes it in parts.
    InParts,
    MoveAwayThenWrite,
    MoveAwayAndBack,
    Sed,
    /// By replacing the link `..data` to a directory, like the kubelet.
    ConfigMap,
}

pub(crate) const EDITS: [Edit; 8] = [
    Edit::InPlace,
    Edit::RenameOver,
    Edit::TruncateThenWrite,
    Edit::InParts,
    Edit::MoveAwayThenWrite,
    Edit::MoveAwayAndBack,
    Edit::Sed,
    Edit::ConfigMap,
];

/// Returns true for a regular file, or a link to one. Writing to a FIFO would block forever.
pub(crate) fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}

/// Writes the text of `next` to `path`, which holds the text of `last`.
pub(crate) fn edit(
    how: Edit,
    path: &Path,
    root: &Path,
    (last, next): (&Declared, &Declared),
    rng: &mut Rng,
) -> io::Result<()> {
    let text = next.text(root);
    let pause = Duration::from_millis(rng.u64(0..300));
    match how {
        Edit::InPlace => fs::write(path, text),
        Edit::RenameOver => rename_over(path, &text),
        Edit::TruncateThenWrite => {
            File::create(path)?;
            thread::sleep(pause);
            fs::write(path, text)
        }
        Edit::InParts => {
            let mut file = File::create(path)?;
            let (first, second) = text.split_at(text.len() / 2);
            file.write_all(first.as_bytes())?;
            thread::sleep(pause);
            file.write_all(second.as_bytes())
        }
        Edit::MoveAwayThenWrite => {
            // As vim does with `backupcopy=no`.
            let backup = path.with_extension("toml~");
            fs::rename(path, &backup)?;
            thread::sleep(pause);
            fs::write(path, text)?;
            fs::remove_file(backup)
        }
        Edit::MoveAwayAndBack => {
            let away = path.with_extension("away");
            fs::rename(path, &away)?;
            fs::write(&away, text)?;
            thread::sleep(pause);
            fs::rename(away, path)
        }
        Edit::Sed => {
            let script = format!("s/{}/{}/g", last.word(), next.word());
            run("sed", &["-i", &script, path.to_str().unwrap()]);
            Ok(())
        }
        Edit::ConfigMap => config_map(path, &text, next.version),
    }
}

pub(crate) fn rename_over(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}

/// Writes the text behind `..data`, and links the path to it.
pub(crate) fn config_map(path: &Path, text: &str, version: u32) -> io::Result<()> {
    let (folder, name) = (path.parent().unwrap(), path.file_name().unwrap());
    let version = format!("..version-{version}");
    let former = fs::read_link(folder.join("..data"));
    match fs::create_dir(folder.join(&version)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(folder.join(&version).join(name), text)?;
    let put_link = |to: &Path, at: &Path| {
        let new = folder.join("..new");
        let _absent = fs::remove_file(&new);
        symlink(to, &new)?;
        fs::rename(new, at)
    };
    put_link(Path::new(&version), &folder.join("..data"))?;
    let target = Path::new("..data").join(name);
    let is_linked = fs::read_link(path).is_ok_and(|now| now == target);
    if !is_linked {
        put_link(&target, path)?;
    }
    match former {
        Ok(former) if former != Path::new(&version) => fs::remove_dir_all(folder.join(former)),
        _ => Ok(()),
    }
}

/// Makes the file unusable for the agent. Returns the name of the act.
pub(crate) fn spoil(path: &Path, rng: &mut Rng) -> (&'static str, io::Result<()>) {
    let remove = || match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    if !is_file(path) {
        let _absent = remove();
    }
    match rng.u8(0..8) {
        0 => ("is no TOML", fs::write(path, "[[route]\ndst = ")),
        1 => ("is empty", File::create(path).map(drop)),
        2 => ("has an unknown key", fs::write(path, "[[route]]\ndest = 1\n")),
        3 => ("is gone", remove()),
        4 => ("is a folder", remove().and_then(|()| fs::create_dir(path))),
        5 => (
            "is a FIFO",
            remove().and_then(|()| Ok(mkfifoat(CWD, path, Mode::from_raw_mode(0o600))?)),
        ),
        6 => ("is a link to nothing", remove().and_then(|()| symlink("nothing", path))),
        _ => {
            ("can be written by all", fs::set_permissions(path, fs::Permissions::from_mode(0o666)))
        }
    }
}

//! Opens regular files only.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens the regular file at `path` with `options`, without waiting.
///
/// Opening a FIFO waits for its other end, a device can be read for ever, and opening some devices
/// acts on them. So a path that is no regular file is not opened at all, and one that is replaced
/// at that moment is closed again.
///
/// # Errors
///
/// The system call's own; [`IsADirectory`](io::ErrorKind::IsADirectory) for a directory, and
/// [`InvalidInput`](io::ErrorKind::InvalidInput), which names the kind of file, for anything else.
pub fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    if let Ok(found) = fs::metadata(path) {
        require_regular(&found)?;
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = options
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    require_regular(&file.metadata()?)?;
    Ok(file)
}

fn require_regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let name = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "of another kind",
    };
    let message = format!("it is {name}, and not a regular file");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_by_name_and_without_waiting() {
        let name = format!("trueup-regular-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let at = |name: &str| directory.join(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), mode).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("fifo", at("link")).unwrap();
        fs::write(at("file"), "x").unwrap();
        for (path, what) in [
            (at("fifo"), "a FIFO"),
            (at("link"), "a FIFO"),
            (at("socket"), "a socket"),
            ("/dev/zero".into(), "a device"),
        ] {
            for options in [
                OpenOptions::new().read(true),
                OpenOptions::new().read(true).write(true),
                OpenOptions::new().append(true),
            ] {
                let error = open_regular(&path, options).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
                assert!(error.to_string().contains(what), "{error}");
            }
        }
        let error = open_regular(&directory, OpenOptions::new().read(true)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        open_regular(&at("file"), OpenOptions::new().read(true)).unwrap();
        open_regular(&at("new"), OpenOptions::new().write(true).create(true)).unwrap();
        let missing = open_regular(&at("missing"), OpenOptions::new().read(true)).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(&directory).unwrap();
    }
}

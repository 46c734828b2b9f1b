//! Opens the file of the desired state. Refuses it if another user could decide its content.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::error::Result;
use trueup_file::{self as file, TableNames};
use trueup_path::{Error, Readers, TrustedUsers, open_any};

/// The users who may be able to write the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Only root and the user that runs this program.
    Ours,
    /// All users: `--trust-file`.
    Any,
}

/// Reads a file, which errors call `name`. The path `-` is the standard input.
pub(crate) fn read(
    name: &str,
    path: &Path,
    writers: Writers,
    own: &[&'static str],
) -> Result<file::File> {
    let tables = TableNames::system()?;
    if is_stdin(path) {
        return Ok(file::File::read_from(name, io::stdin(), &tables, own)?);
    }
    let opened = open(path, writers).map_err(|error| {
        if error.is_refused() {
            file::Error::at(name, None, refusal(&error))
        } else {
            file::Error::unopened(name, &error)
        }
    })?;
    Ok(file::File::read_from(name, opened, &tables, own)?)
}

/// Returns why a file is refused, or `None` if no other user could decide its content.
pub(crate) fn untrusted(path: &Path, writers: Writers) -> Option<String> {
    if is_stdin(path) {
        return None;
    }
    let error = open(path, writers).err().filter(Error::is_refused);
    error.as_ref().map(refusal)
}

/// Returns true if the path is `-`, which means the standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn open(path: &Path, writers: Writers) -> Result<File, Error> {
    match writers {
        Writers::Ours if !is_descriptor(path) => {
            TrustedUsers::current()?.open_ours(path, Readers::Everybody)
        }
        _ => open_any(path),
    }
}

fn refusal(error: &Error) -> String {
    format!(
        "is refused, because other users could decide what is in it: {error}; or give \
         --trust-file, if they may"
    )
}

/// True if the path names one of the caller's open files. The caller opened it, and is trusted with
/// that.
fn is_descriptor(path: &Path) -> bool {
    let mut names = ["/dev/fd", "/proc/self/fd"].into_iter().map(|it| path.strip_prefix(it));
    path == Path::new("/dev/stdin")
        || names.any(|name| {
            let digits = name.map_or(&[][..], |name| name.as_os_str().as_encoded_bytes());
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{chown, symlink};

    use trueup_testkit::Scratch;

    use super::*;
    use crate::testing::{declare_nothing, set_mode};

    fn read_ours(path: &Path) -> Result<file::File> {
        read("f.toml", path, Writers::Ours, &[])
    }

    fn assert_refused(path: &Path, what: &str) {
        let error = read_ours(path).unwrap_err().to_string();
        assert!(error.starts_with("f.toml: is refused"), "{error}");
        assert!(error.contains(what), "{what}: {error}");
        assert!(error.contains("--trust-file"), "{error}");
        assert!(untrusted(path, Writers::Ours).is_some());
        read("f.toml", path, Writers::Any, &[]).unwrap();
        assert_eq!(untrusted(path, Writers::Any), None);
    }

    #[test]
    fn a_file_that_others_can_write_or_replace_is_refused_unless_it_is_trusted() {
        let folder = Scratch::make("untrusted").unwrap();
        let path = declare_nothing(&folder, "f.toml");
        read_ours(&path).unwrap();
        for mode in [0o664, 0o646, 0o666] {
            set_mode(&path, mode);
            // A group with the owner's number belongs to the owner.
            if mode == 0o664 {
                let nogroup = chown(&path, None, Some(4_242));
                if nogroup.is_err() {
                    continue;
                }
            }
            assert_refused(&path, &format!("{}: others can write it", path.display()));
        }
        set_mode(&path, 0o644);
        read_ours(&path).unwrap();

        set_mode(&folder, 0o777);
        assert_refused(&path, &folder.display().to_string());
        // Other users cannot replace it in a folder such as /tmp.
        set_mode(&folder, 0o1777);
        read_ours(&path).unwrap();
        set_mode(&folder, 0o755);

        let inner = folder.join("inner");
        fs::create_dir(&inner).unwrap();
        fs::rename(&path, inner.join("f.toml")).unwrap();
        symlink("inner/f.toml", &path).unwrap();
        read_ours(&path).unwrap();
        set_mode(&inner, 0o777);
        assert_refused(&path, &inner.display().to_string());
    }

    #[test]
    fn a_file_folder_or_link_of_another_user_is_refused() {
        let folder = Scratch::make("others").unwrap();
        let path = declare_nothing(&folder, "f.toml");
        if chown(&path, Some(4_242), None).is_err() {
            // Only root can make one.
            return;
        }
        assert_refused(&path, "user 4242 owns it");
        chown(&path, Some(0), None).unwrap();
        let link = folder.join("link");
        symlink("f.toml", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(4_242), None).unwrap();
        assert_refused(&link, "a symbolic link of user 4242");
        chown(&folder, Some(4_242), None).unwrap();
        assert_refused(&path, "user 4242 can write it");
        chown(&folder, Some(0), None).unwrap();
        read_ours(&path).unwrap();
    }

    #[test]
    fn a_file_that_the_caller_has_opened_is_the_callers_word() {
        let folder = Scratch::make("descriptor").unwrap();
        let path = declare_nothing(&folder, "f.toml");
        set_mode(&path, 0o666);
        let opened = File::open(&path).unwrap();
        for folder in ["/dev/fd", "/proc/self/fd"] {
            let path = Path::new(folder).join(opened.as_raw_fd().to_string());
            read_ours(&path).unwrap();
        }
        assert!(is_descriptor(Path::new("/dev/stdin")));
        for other in ["dev/stdin", "/dev/fd", "/dev/fd/", "/dev/fd/3/4", "/proc/self/fd/x"] {
            assert!(!is_descriptor(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = Scratch::make("irregular").unwrap();
        let (fifo, missing) = (folder.join("fifo"), folder.join("missing"));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
        for writers in [Writers::Ours, Writers::Any] {
            for (path, what) in [
                (fifo.as_path(), "it is a FIFO"),
                (Path::new("/dev/zero"), "it is a device"),
                (&*folder, "is a directory"),
                (missing.as_path(), "no such file"),
            ] {
                let error = read("f.toml", path, writers, &[]).unwrap_err().to_string();
                assert!(error.starts_with("f.toml: "), "{error}");
                assert!(error.contains(what), "{what}: {error}");
            }
        }
    }
}

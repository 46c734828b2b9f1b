//! The socket file of `--metrics unix:PATH`, in a folder where no other user can put one.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::error::{Context as _, Result, bail};
use socket2::{Domain, SockAddr, Socket, Type};
use trueup_path::{Control, Place, TrustedUsers};

/// A held socket file. When dropped, it removes this file, even if its folder has moved, and no
/// other file of its name.
pub(crate) struct SocketFile {
    place: Place,
    held: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A remaining file is removed by the next process that listens there.
        let _ = self.place.remove_held(&self.held);
    }
}

/// Binds a path, even if a killed process has left its socket there. Fails if another user could
/// put a socket there, if something else is there, or if the path cannot be bound.
#[expect(clippy::disallowed_methods, reason = "in a folder that `trueup_path` holds")]
pub(crate) fn bind(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let users = TrustedUsers::current()?;
    let place = users.place(path)?;
    let control = place.folder().control();
    if !matches!(control, Control::Ours | Control::Sticky) {
        bail!(
            "{}: {control}, and could put another socket there; name one in a folder of root or of \
             the user that runs this, such as /run/trueup",
            place.folder().path().display()
        );
    }
    if let Some(found) = place.hold()? {
        remove_left(&users, &place, &found)?;
    }
    let listener = UnixListener::bind(place.path_by_descriptor())?;
    let held = place.hold()?.context("the socket was removed")?;
    Ok((listener, SocketFile { place, held }))
}

/// Removes a killed process's socket.
fn remove_left(users: &TrustedUsers, place: &Place, found: &File) -> Result<()> {
    let metadata = found.metadata()?;
    if !metadata.file_type().is_socket() {
        bail!("a file that is no socket is there; remove it, or name another path");
    }
    if !users.is_ours(place, found)? {
        let user = metadata.uid();
        bail!("a socket of user {user} is there; remove it, or name another path");
    }
    if !is_refusing(place)? {
        bail!("another process listens there");
    }
    place.remove_held(found)?;
    Ok(())
}

/// True if no process listens at the socket. Does not wait for a process that accepts nothing.
fn is_refusing(place: &Place) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let connected = socket.connect(&SockAddr::unix(place.path_by_descriptor())?);
    Ok(connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::chown;

    use trueup_testkit::Scratch;

    use super::*;
    use crate::testing::set_mode;

    fn refusal(path: &Path) -> String {
        format!("{:#}", bind(path).err().expect("a refusal"))
    }

    #[test]
    fn a_socket_that_was_left_behind_is_no_hindrance_and_one_in_use_is() {
        let folder = Scratch::make("left").unwrap();
        let path = folder.join("metrics");
        drop(UnixListener::bind(&path).unwrap());
        let (_listener, made) = bind(&path).unwrap();
        assert_eq!(refusal(&path), "another process listens there");
        drop(made);
        assert_eq!(folder.names(), Vec::<String>::new(), "it is removed");
    }

    #[test]
    fn what_is_no_socket_of_ours_is_left_alone() {
        let folder = Scratch::make("left-alone").unwrap();
        let path = folder.join("metrics");
        fs::write(&path, "precious").unwrap();
        assert!(refusal(&path).contains("is no socket"));
        let target = folder.join("target");
        drop(UnixListener::bind(&target).unwrap());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(refusal(&path).contains("is no socket"));
        assert!(path.is_symlink() && target.exists());
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        if chown(&path, Some(4_242), None).is_ok() {
            assert!(refusal(&path).contains("a socket of user 4242"));
            assert!(path.exists());
        }
    }

    #[test]
    fn a_folder_where_others_could_put_a_socket_is_refused() {
        let folder = Scratch::make("refused").unwrap();
        let path = folder.join("metrics");
        set_mode(&folder, 0o777);
        assert!(refusal(&path).contains("its group or everybody can write it"));
        // In a folder such as /tmp, no other user can replace it.
        set_mode(&folder, 0o1777);
        bind(&path).unwrap();
        set_mode(&folder, 0o755);
        if chown(&folder, Some(4_242), None).is_ok() {
            assert!(refusal(&path).contains("user 4242 can write it"));
        }
    }

    #[test]
    fn at_its_end_it_removes_its_socket_and_nothing_that_took_its_name() {
        let folder = Scratch::make("took").unwrap();
        let inner = folder.join("inner");
        let path = inner.join("metrics");
        fs::create_dir(&inner).unwrap();
        let (_listener, made) = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(made);
        assert_eq!(fs::read(&path).unwrap(), b"precious");

        // By then another folder has the name.
        fs::remove_file(&path).unwrap();
        let (_listener, made) = bind(&path).unwrap();
        let away = folder.join("away");
        fs::rename(&inner, &away).unwrap();
        let victim = folder.join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("metrics"), "precious").unwrap();
        std::os::unix::fs::symlink(&victim, &inner).unwrap();
        drop(made);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert!(!away.join("metrics").exists(), "its socket is removed");
    }
}

//! The HTTP server of `watch --metrics`: `GET` and `HEAD` of one path, and no kept connections.
//!
//! The listener is ours because no small synchronous server (`tiny_http`, `rouille`) limits how
//! long a client may take and how many are connected. `httparse` reads the requests.

mod answer;

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use socket2::Socket;

use self::answer::{MAX_REQUEST, answer, is_whole};

/// The most connections at a time; further ones are closed at once.
const MAX_CONNECTIONS: usize = 8;

/// The longest that a connection may last, until the client has read the response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    /// `IP:PORT`.
    Tcp(SocketAddr),
    /// `unix:PATH`.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("write the socket's path behind `unix:`".to_owned()),
            Some(path) => Ok(Address::Unix(path.into())),
            None => text.parse().map(Address::Tcp).map_err(|_| {
                "write an address with a port, such as 127.0.0.1:9116 or [::1]:9116, or unix:PATH"
                    .to_owned()
            }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listening socket. When dropped, it removes the socket file that it made.
pub(super) struct Server {
    listener: Socket,
    made: Option<PathBuf>,
}

impl Server {
    /// Listens at an address. Connections wait until [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// When another process listens there, or the address cannot be bound.
    pub(super) fn listen(address: &Address) -> Result<Server> {
        let refused = || format!("cannot listen for --metrics at {address}");
        let (listener, made): (OwnedFd, _) = match address {
            Address::Tcp(at) => (TcpListener::bind(at).with_context(refused)?.into(), None),
            Address::Unix(path) => (bind(path).with_context(refused)?.into(), Some(path.clone())),
        };
        Ok(Server {
            listener: listener.into(),
            made,
        })
    }

    /// Answers with what `page` returns, on threads of its own, until the process ends.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub(super) fn serve(
        &self,
        page: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Result<()> {
        let listener = self.listener.try_clone()?;
        thread::Builder::new()
            .name("metrics".into())
            .spawn(move || accept(&listener, &Arc::new(page)))
            .context("cannot start a thread")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
        }
    }
}

/// Binds a path, also one where a killed process has left its socket.
fn bind(path: &Path) -> Result<UnixListener> {
    if let Ok(found) = fs::symlink_metadata(path)
        && found.file_type().is_socket()
    {
        match UnixStream::connect(path) {
            Ok(_) => bail!("another process listens there"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
            }
            Err(_) => {}
        }
    }
    Ok(UnixListener::bind(path)?)
}

/// Serves each connection on a thread of its own, and as many at a time as the limit allows.
fn accept(listener: &Socket, page: &Arc<impl Fn() -> Option<String> + Send + Sync + 'static>) {
    // Each connection holds a clone.
    let slots = Arc::new(());
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // Too many open files, or the client has gone: neither may make this spin.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if Arc::strong_count(&slots) > MAX_CONNECTIONS {
            continue;
        }
        let (slot, page) = (Arc::clone(&slots), Arc::clone(page));
        // Without a thread the connection is closed.
        let _ = thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                let _slot = slot;
                let mut connection = Connection {
                    stream,
                    deadline: Instant::now() + CONNECTION_TIMEOUT,
                };
                // A client that went away or is too slow gets no response.
                let _ = connection.serve(&*page);
            });
    }
}

/// A connection that ends at its deadline, whatever the client does.
struct Connection {
    stream: Socket,
    deadline: Instant,
}

impl Connection {
    fn serve(&mut self, page: &dyn Fn() -> Option<String>) -> io::Result<()> {
        let mut request = Vec::new();
        let mut piece = [0; 1024];
        while request.len() <= MAX_REQUEST && !is_whole(&request) {
            match self.read(&mut piece)? {
                0 => break,
                read => request.extend(piece.iter().take(read)),
            }
        }
        if request.is_empty() {
            return Ok(());
        }
        self.write_all(answer(&request, page).as_bytes())?;
        self.stream.shutdown(Shutdown::Write)?;
        // Closing a connection with unread bytes resets it, and the client loses the response.
        while self.read(&mut piece)? > 0 {}
        Ok(())
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.time_left()?))?;
        self.stream.read(into)
    }
}

impl Write for Connection {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        self.stream.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_what_it_is() {
        let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
        assert_eq!("127.0.0.1:9116".parse(), Ok(tcp("127.0.0.1:9116")));
        assert_eq!("[::1]:9116".parse(), Ok(tcp("[::1]:9116")));
        assert_eq!("unix:a/b".parse(), Ok(Address::Unix("a/b".into())));
        for wrong in ["", "9116", ":9116", "localhost:9116", "127.0.0.1", "unix:"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_socket_that_was_left_behind_is_no_hindrance_and_one_in_use_is() {
        let path = std::env::temp_dir().join(format!("trueup-serve-{}", std::process::id()));
        let address = Address::Unix(path.clone());
        drop(UnixListener::bind(&path).unwrap());
        let server = Server::listen(&address).unwrap();
        let refused = Server::listen(&address).err().unwrap();
        assert!(
            format!("{refused:#}").contains("another process listens there"),
            "{refused:#}"
        );
        drop(server);
        assert!(!path.exists(), "it is removed");
        fs::write(&path, "no socket").unwrap();
        assert!(Server::listen(&address).is_err());
        assert!(path.exists(), "what is no socket is left alone");
        fs::remove_file(&path).unwrap();
    }
}

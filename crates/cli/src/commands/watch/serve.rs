//! Serves one page of text over HTTP, such as a scraper of metrics fetches. Not a web server: it knows GET and HEAD of one path,
//! keeps no connection open, and gives nobody more than a few seconds.

mod answer;

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use self::answer::{LONGEST, answer, is_whole};

/// How many may be served at once; whoever comes on top of them is sent away.
const AT_ONCE: usize = 8;

/// How long one may take, from connecting to having read the answer.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// Listens, and does not answer yet. Dropped, it removes the socket that it made in the file system.
pub(super) struct Server {
    listener: Listener,
    made: Option<PathBuf>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Server {
    /// Listens at an address.
    ///
    /// # Errors
    ///
    /// When that cannot be had: somebody else listens there, or it is not ours to have.
    pub(super) fn listen(address: &Address) -> Result<Server> {
        let refused = || format!("cannot listen for --metrics at {address}");
        let (listener, made) = match address {
            Address::Tcp(at) => {
                let listener = TcpListener::bind(at).with_context(refused)?;
                (Listener::Tcp(listener), None)
            }
            Address::Unix(path) => {
                let listener = bind(path).with_context(refused)?;
                (Listener::Unix(listener), Some(path.clone()))
            }
        };
        Ok(Server { listener, made })
    }

    /// Answers with what `page` gives, on threads of its own, until the process ends.
    ///
    /// # Errors
    ///
    /// When there is no thread to be had.
    pub(super) fn serve(&self, page: impl Fn() -> String + Send + Sync + 'static) -> Result<()> {
        let listener = match &self.listener {
            Listener::Tcp(listener) => Listener::Tcp(listener.try_clone()?),
            Listener::Unix(listener) => Listener::Unix(listener.try_clone()?),
        };
        let page: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(page);
        thread::Builder::new()
            .name("metrics".into())
            .spawn(move || listener.run(&page))
            .context("cannot start a thread")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // Somebody may have been quicker.
            let _ = fs::remove_file(path);
        }
    }
}

/// Binds a path, also one where a process that was killed has left its socket.
fn bind(path: &Path) -> Result<UnixListener> {
    if let Ok(found) = fs::symlink_metadata(path)
        && found.file_type().is_socket()
    {
        match UnixStream::connect(path) {
            Ok(_) => bail!("somebody listens there"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?;
            }
            Err(_) => {}
        }
    }
    Ok(UnixListener::bind(path)?)
}

type Page = Arc<dyn Fn() -> String + Send + Sync>;

impl Listener {
    fn run(&self, page: &Page) {
        let served = Arc::new(AtomicUsize::new(0));
        loop {
            let stream = match self {
                Listener::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
                Listener::Unix(listener) => {
                    listener.accept().map(|(stream, _)| Stream::Unix(stream))
                }
            };
            let Ok(stream) = stream else {
                // Too many open files, or the client has gone: neither may make this spin.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            let turn = Turn::take(&served);
            if turn.0.load(Ordering::Relaxed) > AT_ONCE {
                continue;
            }
            let page = Arc::clone(page);
            // Without a thread the client is sent away.
            let _ = thread::Builder::new()
                .name("metrics".into())
                .spawn(move || {
                    let _turn = turn;
                    let mut client = Client {
                        stream,
                        until: Instant::now() + PATIENCE,
                    };
                    // A client that went away or is too slow has nobody to complain to.
                    let _ = client.serve(&*page);
                });
        }
    }
}

/// One of those that are served, until it is dropped.
struct Turn(Arc<AtomicUsize>);

impl Turn {
    fn take(served: &Arc<AtomicUsize>) -> Turn {
        served.fetch_add(1, Ordering::Relaxed);
        Turn(Arc::clone(served))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that has an end, whatever the other side does.
struct Client {
    stream: Stream,
    until: Instant,
}

impl Client {
    fn serve(&mut self, page: &dyn Fn() -> String) -> io::Result<()> {
        let asked = self.request()?;
        let Some(asked) = asked else {
            return Ok(());
        };
        let answer = answer(&asked, page);
        self.write_all(answer.as_bytes())?;
        match &self.stream {
            Stream::Tcp(stream) => stream.shutdown(std::net::Shutdown::Write)?,
            Stream::Unix(stream) => stream.shutdown(std::net::Shutdown::Write)?,
        }
        // A connection that is closed with something unread is reset, and the answer lost on its way.
        let mut rest = [0; 512];
        while self.read(&mut rest)? > 0 {}
        Ok(())
    }

    /// What is asked up to the empty line; more than the longest where it is longer. `None` if the other side said nothing.
    fn request(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut asked = Vec::new();
        let mut piece = [0; 1024];
        while asked.len() <= LONGEST && !is_whole(&asked) {
            match self.read(&mut piece)? {
                0 => break,
                read => asked.extend(piece.iter().take(read)),
            }
        }
        Ok((!asked.is_empty()).then_some(asked))
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl Read for Client {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(into)
            }
            Stream::Unix(stream) => {
                stream.set_read_timeout(left)?;
                stream.read(into)
            }
        }
    }
}

impl Write for Client {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let left = Some(self.left()?);
        match &mut self.stream {
            Stream::Tcp(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(from)
            }
            Stream::Unix(stream) => {
                stream.set_write_timeout(left)?;
                stream.write(from)
            }
        }
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
            format!("{refused:#}").contains("somebody listens there"),
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

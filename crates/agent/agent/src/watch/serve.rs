//! The HTTP server of `watch --metrics`: `GET` and `HEAD` of one path, and no kept connections.
//!
//! The network comes first. If the server cannot listen, for example because another user has its
//! port, it reports that and tries again.
//!
//! The listener is ours because no small synchronous server (`tiny_http`, `rouille`) limits the
//! time a client may take and the number of connections. `httparse` reads the requests.

mod answer;
mod connection;
mod socket;

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::error::{Context as _, Error, Result, with_causes};
use socket2::Socket;

use self::connection::accept;
use self::socket::SocketFile;
use crate::lock;

/// The time until the first retry. It doubles with each failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest time between two tries.
const MAX_RETRY: Duration = Duration::from_secs(30);

/// The address of the metrics server.
///
/// ```
/// use trueup_agent::Address;
///
/// assert!(matches!("127.0.0.1:9100".parse(), Ok(Address::Tcp(_))));
/// assert!(matches!("unix:/run/trueup/metrics".parse(), Ok(Address::Unix(_))));
/// assert!("localhost".parse::<Address>().is_err()); // it has no port
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address, `IP:PORT`.
    Tcp(SocketAddr),
    /// The path of a Unix socket, `unix:PATH`.
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

/// The server. When dropped, it removes its socket file.
pub(crate) struct Server(Arc<Mutex<State>>);

enum State {
    /// The server cannot listen yet.
    Trying,
    /// The server listens. `_made` is the socket file that it made, if any.
    Listening { _made: Option<SocketFile> },
    /// The server was dropped.
    Ended,
}

impl Server {
    /// Serves the result of `page` on threads of its own, until the process ends. While the address
    /// cannot be bound, it tries again. `report` gets each new reason for that, and `None` when the
    /// server listens. Fails if no thread can be started.
    pub(crate) fn start(
        address: Address,
        page: impl Fn() -> Option<String> + Send + Sync + 'static,
        report: impl Fn(Option<&str>) + Send + 'static,
    ) -> Result<Server> {
        let state = Arc::new(Mutex::new(State::Trying));
        let listened = listen(&state, &address);
        let server = Server(Arc::clone(&state));
        thread::Builder::new()
            .name("metrics".into())
            .spawn(move || serve(&state, &address, listened, &Arc::new(page), report))
            .context("cannot start a thread")?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *lock(&self.0) = State::Ended;
    }
}

/// Tries until it listens, and then serves.
fn serve(
    state: &Mutex<State>,
    address: &Address,
    mut listened: Result<Option<Socket>>,
    page: &Arc<impl Fn() -> Option<String> + Send + Sync + 'static>,
    report: impl Fn(Option<&str>),
) {
    let mut reported: Option<String> = None;
    let mut retry = FIRST_RETRY;
    loop {
        match listened {
            Ok(Some(listener)) => {
                if reported.is_some() {
                    report(None);
                }
                accept(&listener, page)
            }
            Ok(None) => return,
            Err(error) => {
                let why = with_causes(&error);
                if reported.as_ref() != Some(&why) {
                    report(Some(&why));
                    reported = Some(why);
                }
            }
        }
        thread::sleep(retry);
        retry = MAX_RETRY.min(retry * 2);
        listened = listen(state, address);
    }
}

/// Listens at an address, unless the server has ended. Connections wait until they are accepted.
#[expect(clippy::disallowed_methods, reason = "the address is the one that the caller named")]
fn listen(state: &Mutex<State>, address: &Address) -> Result<Option<Socket>> {
    let mut state = lock(state);
    if matches!(*state, State::Ended) {
        return Ok(None);
    }
    let bound = match address {
        Address::Tcp(at) => TcpListener::bind(at).map(|it| (it.into(), None)).map_err(Error::from),
        Address::Unix(path) => socket::bind(path).map(|(it, made)| (it.into(), Some(made))),
    };
    let (listener, made) =
        bound.with_context(|| format!("cannot listen for --metrics at {address}"))?;
    *state = State::Listening { _made: made };
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::sync::mpsc::channel;

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
    fn a_port_that_another_process_has_is_reported_and_tried_until_it_is_free() {
        let rival = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = rival.local_addr().unwrap();
        let (report, reports) = channel();
        let server = Server::start(
            Address::Tcp(at),
            || Some("page\n".to_owned()),
            move |why| report.send(why.map(str::to_owned)).unwrap(),
        );
        let _server = server.unwrap();
        let next = || reports.recv_timeout(Duration::from_secs(60)).unwrap();
        let why = next().expect("a reason");
        let expected = format!("cannot listen for --metrics at {at}");
        assert!(why.starts_with(&expected), "{why}");
        drop(rival);
        assert_eq!(next(), None, "it listens");
        let mut client = TcpStream::connect(at).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\npage\n"), "{answer}");
    }
}

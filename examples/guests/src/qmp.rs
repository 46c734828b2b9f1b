//! Conversations with QEMU over its monitor socket (QMP), each with a time limit.
//!
//! A monitor serves one client at a time; another one waits for its greeting. So a conversation is
//! short, and any number of agents, threads and users take turns.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use qapi::{Any, Command, ExecuteError, Qmp, Stream, qmp};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The beginning of a greeting, as QEMU writes it.
const GREETING: &[u8] = br#"{"QMP": "#;

/// The reason why QEMU did not execute a command.
#[derive(Debug)]
pub enum Error {
    /// No QEMU listens, so the guest does not run.
    Gone,
    /// QEMU refused, for this reason; nothing has changed.
    Refused(String),
    /// It is unknown if QEMU executed the command, for this reason.
    NoAnswer(String),
}

/// The result of a conversation.
pub type Result<T> = std::result::Result<T, Error>;

/// A conversation, which ends on drop.
pub struct Monitor(Qmp<Stream<BufReader<Bounded>, Bounded>>);

impl Monitor {
    /// Begins a conversation, once the monitor has no other client. `bound` limits the whole
    /// conversation.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], or [`Error::NoAnswer`] if the monitor is not free in time.
    pub fn connect(socket: &Path, bound: Duration) -> Result<Monitor> {
        Monitor::greet(socket, bound).map_err(|error| match error.kind() {
            // The last three: it has ended meanwhile, and no command was sent yet.
            ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Error::Gone,
            _ => error.into(),
        })
    }

    fn greet(socket: &Path, bound: Duration) -> io::Result<Monitor> {
        let until = Instant::now() + bound;
        let stream = connect(socket, SocketFlags::empty(), bound)?;
        let writer = Bounded { stream: stream.try_clone()?, until };
        let reader = BufReader::new(Bounded { stream, until });
        let mut monitor = Monitor(Qmp::new(Stream::new(reader, writer)));
        // The greeting may follow lines for the last client that were not sent in time.
        let mut line = Vec::new();
        while !line.starts_with(GREETING) {
            line.clear();
            if monitor.0.inner_mut().read_until(b'\n', &mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        monitor.0.execute(&qmp::qmp_capabilities { enable: None })?;
        Ok(monitor)
    }

    /// Runs a command, whose arguments must match its schema.
    pub fn run<C: Command + DeserializeOwned>(&mut self, arguments: Value) -> Result<C::Ok> {
        let command: C = serde_json::from_value(arguments)
            .map_err(|error| Error::Refused(format!("arguments of {}: {error}", C::NAME)))?;
        Ok(self.0.execute(&command)?)
    }

    /// Reads a property in QEMU's object tree; `None` if there is no such object or property.
    pub fn property(&mut self, path: &str, property: &str) -> Result<Option<Any>> {
        match self.run::<qmp::qom_get>(json!({ "path": path, "property": property })) {
            Ok(value) => Ok(Some(value)),
            Err(Error::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of an object's children with a prefix, without that prefix.
    pub fn children(&mut self, path: &str, prefix: &str) -> Result<Vec<String>> {
        let children = self.run::<qmp::qom_list>(json!({ "path": path }))?;
        let names = children.into_iter().map(|child| child.name);
        Ok(names.filter_map(|name| name.strip_prefix(prefix).map(str::to_owned)).collect())
    }
}

/// Connects to a socket within `bound`. A stopped process accepts a few connections; after that
/// connect(2) waits.
pub(crate) fn connect(
    socket: &Path,
    flags: SocketFlags,
    bound: Duration,
) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(socket)?;
    let flags = flags | SocketFlags::CLOEXEC;
    let stream = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let stream = UnixStream::from(stream);
    stream.set_write_timeout(Some(bound))?;
    net::connect(&stream, &address)?;
    Ok(stream)
}

/// A stream whose reads and writes together end at a deadline.
struct Bounded {
    stream: UnixStream,
    until: Instant,
}

impl Bounded {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        // A timeout of zero would mean none.
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Error {
    /// Returns the error for a QEMU that does not answer in time.
    pub(crate) fn silent() -> Error {
        let why = "no answer in time: another client holds the monitor, or QEMU hangs";
        Error::NoAnswer(why.to_owned())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::silent(),
            _ => Error::NoAnswer(error.to_string()),
        }
    }
}

impl From<ExecuteError> for Error {
    fn from(error: ExecuteError) -> Error {
        match error {
            ExecuteError::Qapi(error) => Error::Refused(error.desc),
            ExecuteError::Io(error) => error.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Gone => f.write_str("the guest does not run"),
            Error::Refused(why) => write!(f, "QEMU refuses: {why}"),
            Error::NoAnswer(why) => write!(f, "QEMU: {why}"),
        }
    }
}

impl std::error::Error for Error {}

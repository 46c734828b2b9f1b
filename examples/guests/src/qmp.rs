//! The conversation with a QEMU over its monitor socket (QMP), with a bound on its time.
//!
//! A monitor serves one client at a time; another one waits for its greeting. So a conversation is
//! short, and as many agents, threads and people as there are take turns.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use qapi::{Any, Command, ExecuteError, Qmp, Stream, qmp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The bound on a conversation: QEMU answers within milliseconds, unless it hangs or is stopped.
const BOUND: Duration = Duration::from_secs(5);

/// How a greeting begins, as QEMU writes it.
const GREETING: &[u8] = br#"{"QMP": "#;

/// Why QEMU did not do what it was asked for.
#[derive(Debug)]
pub enum Error {
    /// No QEMU listens.
    Gone,
    /// QEMU says why; nothing has changed.
    Refused(String),
    /// It is not known whether QEMU did it.
    NoAnswer(String),
}

/// The result of a conversation.
pub type Result<T> = std::result::Result<T, Error>;

/// A conversation. It ends with the value.
pub struct Monitor(Qmp<Stream<BufReader<Bounded>, Bounded>>);

impl Monitor {
    /// Begins a conversation, once the monitor has no other client.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`], or [`Error::NoAnswer`] when the monitor is not free in time.
    pub fn connect(socket: &Path) -> Result<Monitor> {
        Monitor::greet(socket).map_err(|error| match error.kind() {
            // The last three: it has ended meanwhile. Nothing was asked of it yet.
            ErrorKind::NotFound
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof => Error::Gone,
            _ => error.into(),
        })
    }

    fn greet(socket: &Path) -> io::Result<Monitor> {
        let until = Instant::now() + BOUND;
        let stream = UnixStream::connect(socket)?;
        let writer = Bounded {
            stream: stream.try_clone()?,
            until,
        };
        let reader = BufReader::new(Bounded { stream, until });
        let mut monitor = Monitor(Qmp::new(Stream::new(reader, writer)));
        // Before it may come what was meant for the last client, and was not sent in time.
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

    /// Runs a command, whose arguments have to be those of its schema.
    pub fn run<C: Command + DeserializeOwned>(&mut self, arguments: Value) -> Result<C::Ok> {
        let command: C = serde_json::from_value(arguments)
            .map_err(|error| Error::Refused(format!("arguments of {}: {error}", C::NAME)))?;
        Ok(self.0.execute(&command)?)
    }

    /// Reads a property of QEMU's object tree; `None` if there is no such object or property.
    pub fn property(&mut self, path: &str, property: &str) -> Result<Option<Any>> {
        match self.run::<qmp::qom_get>(json!({ "path": path, "property": property })) {
            Ok(value) => Ok(Some(value)),
            Err(Error::Refused(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of the children of an object whose names begin so, without that prefix.
    pub fn children(&mut self, path: &str, prefix: &str) -> Result<Vec<String>> {
        let children = self.run::<qmp::qom_list>(json!({ "path": path }))?;
        let names = children.into_iter().map(|child| child.name);
        let names = names.filter_map(|name| name.strip_prefix(prefix).map(str::to_owned));
        Ok(names.collect())
    }
}

/// A stream whose reads and writes end at a time, however many they are.
struct Bounded {
    stream: UnixStream,
    until: Instant,
}

impl Bounded {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        // A timeout of zero would be none.
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

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                let seconds = BOUND.as_secs();
                Error::NoAnswer(format!(
                    "no answer within {seconds} s: another client holds the monitor, or QEMU hangs"
                ))
            }
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

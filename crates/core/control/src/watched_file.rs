//! A provider that reads and watches a file.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use serde::Deserialize;
use trueup_path::{Readers, TrustedUsers};
use trueup_reconcile::{Drained, Hints, Subscribed};

use crate::{Error, ErrorKind, Object, Objects, Provider, Subscription, Value};

type Parse = dyn Fn(&[u8]) -> Result<Objects, Error> + Send;

/// A desired state in a file.
///
/// If the file is missing or cannot be parsed, the provider fails; this is never an empty desired
/// state. It also fails if a user other than root and our own could change or replace the file,
/// because its content decides the actions. Replace the file by renaming, so that it is never read
/// half written.
pub struct WatchedFile {
    path: PathBuf,
    parse: Box<Parse>,
}

/// The largest accepted file, in bytes.
const MAX_LEN: u64 = 64 << 20;

impl WatchedFile {
    /// Creates a provider for the JSON in a file: see [`parse_json`].
    pub fn json(path: impl Into<PathBuf>) -> WatchedFile {
        WatchedFile::new(path, parse_json)
    }

    /// Creates a provider for a file in the caller's format.
    pub fn new(
        path: impl Into<PathBuf>,
        parse: impl Fn(&[u8]) -> Result<Objects, Error> + Send + 'static,
    ) -> WatchedFile {
        WatchedFile { path: path.into(), parse: Box::new(parse) }
    }

    fn read(&self) -> Result<Vec<u8>, trueup_path::Error> {
        let users = TrustedUsers::current()?;
        users.read_ours(&self.path, Readers::Everybody, MAX_LEN)
    }

    fn error(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let message = format!("{}", self.path.display());
        Error::new(ErrorKind::Provider, message).with_source(source)
    }
}

impl Provider for WatchedFile {
    fn desired(&mut self) -> Result<Option<Objects>, Error> {
        let bytes = self.read().map_err(|error| self.error(error))?;
        let objects = (self.parse)(&bytes).map_err(|error| self.error(error))?;
        Ok(Some(objects))
    }

    fn subscribe(&mut self, _: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        match Watch::new(&self.path) {
            Ok(watch) => Subscribed::Active(Box::new(watch)),
            Err(error) => Subscribed::Failed(self.error(error)),
        }
    }
}

/// Reads objects from JSON: `{"vm7": {"fields": {"memory": "2048", "password": {"secret": "…"}},
/// "run_state": "running"}}`.
///
/// # Errors
///
/// [`Provider`](ErrorKind::Provider), with line and column; also for an unknown or a repeated key.
pub fn parse_json(bytes: &[u8]) -> Result<Objects, Error> {
    let objects: Unique<FileObject> = serde_json::from_slice(bytes)
        .map_err(|error| Error::new(ErrorKind::Provider, "not as expected").with_source(error))?;
    let named =
        objects.0.into_iter().map(|(key, FileObject { fields: Unique(by_name), run_state })| {
            let fields = by_name.into_iter().map(|(field, value)| (field, value.into())).collect();
            (key, Object { fields, run_state: run_state.map(Value::new) })
        });
    Ok(named.collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileObject {
    #[serde(default)]
    fields: Unique<FileValue>,
    run_state: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FileValue {
    Text(String),
    Secret(FileSecret),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSecret {
    secret: String,
}

impl From<FileValue> for Value {
    fn from(value: FileValue) -> Value {
        match value {
            FileValue::Text(text) => Value::new(text),
            FileValue::Secret(FileSecret { secret }) => Value::secret(secret),
        }
    }
}

/// A map that refuses repeated keys.
struct Unique<T>(std::collections::BTreeMap<String, T>);

impl<T> Default for Unique<T> {
    fn default() -> Self {
        Unique(Default::default())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Unique<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Unique<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Unique<T>, A::Error> {
                let mut found = Unique::default();
                while let Some((key, value)) = map.next_entry::<String, T>()? {
                    if found.0.insert(key.clone(), value).is_some() {
                        let message = format!("the key {key:?} occurs twice");
                        return Err(serde::de::Error::custom(message));
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(Visitor(std::marker::PhantomData))
    }
}

/// Watches the directory, to notice a file that is replaced or does not exist yet. Any event in it
/// is a hint.
struct Watch(OwnedFd);

impl Watch {
    fn new(path: &Path) -> io::Result<Watch> {
        let directory = path.parent().filter(|parent| *parent.as_os_str() != *OsStr::new(""));
        let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE
            | WatchFlags::CREATE
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, directory.unwrap_or(Path::new(".")), events)?;
        Ok(Watch(watch))
    }
}

impl Subscription for Watch {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut drained = Drained::Nothing;
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::IGNORED) => {
                    let message = "the directory of the desired state is gone";
                    return Err(Error::new(ErrorKind::Provider, message));
                }
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    drained = Drained::Lost;
                }
                Ok(_) if drained == Drained::Nothing => drained = Drained::Hint,
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(drained),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    let error = io::Error::from(error);
                    let message = "the desired state cannot be watched";
                    return Err(Error::new(ErrorKind::Provider, message).with_source(error));
                }
            }
        }
    }
}

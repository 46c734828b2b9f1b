//! The namespace of a pass: entered, checked to be the same one each time, and read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::thread;

use trueup_netlink::{Namespace, Socket};
use trueup_reconcile::{ErrorClass, Failure};

use crate::error::classify;
use crate::value::normalize_space;
use crate::{Error, Files, Key};

/// The observed values by key, or the reason why a value cannot be read.
pub type Observed = BTreeMap<Key, Result<String, Failure>>;

/// The result of reading a key: its value, `None` if never set, or the reason why it cannot be
/// read.
pub(crate) type ReadValue = Result<Option<String>, Failure>;

/// The namespace of a pass. Once entered, it is entered again even if its name changes.
pub(crate) struct EnteredNamespace<'a> {
    files: &'a dyn Files,
    namespace: Namespace,
}

impl<'a> EnteredNamespace<'a> {
    /// Enters a namespace for the first time in a pass. `known` is the cookie of earlier passes; it
    /// is set here.
    pub(crate) fn enter(
        scope: &Namespace,
        files: &'a dyn Files,
        known: &mut Option<u64>,
    ) -> Result<EnteredNamespace<'a>, Error> {
        let caller = thread::current().id();
        let entered = scope.enter(|| {
            // The caller's current namespace stays the same while the caller waits, so entering it
            // again needs no file.
            let is_current = thread::current().id() == caller;
            NamespaceInfo::read(!is_current)
        });
        let info = match entered {
            Ok(info) => info?,
            Err(error) if known.is_some() && error.is_gone() => {
                let message = format!("network namespace {scope} has ended");
                return Err(Error::gone(message, Some(error)));
            }
            Err(error) => return Err(error.into()),
        };
        if let (Some(known), Some(cookie)) = (*known, info.cookie)
            && known != cookie
        {
            let message = format!(
                "network namespace {scope} has ended: what bears its name is another (cookie {cookie}, not {known})"
            );
            return Err(Error::gone(message, None));
        }
        *known = info.cookie.or(*known);
        let namespace = match info.file {
            Some(file) => Namespace::from_fd(file),
            None => scope.clone(),
        };
        Ok(EnteredNamespace { files, namespace })
    }

    /// Runs `inside` in the namespace.
    pub(crate) fn run<T: Send>(
        &self,
        inside: impl FnOnce(&dyn Files) -> T + Send,
    ) -> Result<T, Error> {
        let files = self.files;
        Ok(self.namespace.enter(|| inside(files))?)
    }

    /// Reads keys.
    pub(crate) fn read<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key> + Send,
    ) -> Result<BTreeMap<Key, ReadValue>, Error> {
        self.run(|files| keys.map(|key| (key.clone(), read_key(files, key))).collect())
    }
}

/// The identity of a namespace, read on entering it.
struct NamespaceInfo {
    /// `None` before Linux 5.14.
    cookie: Option<u64>,
    file: Option<OwnedFd>,
}

impl NamespaceInfo {
    #[expect(clippy::disallowed_methods, reason = "a link that the kernel makes")]
    fn read(with_file: bool) -> Result<NamespaceInfo, Error> {
        // Without /proc every key would seem missing.
        if !fs::metadata("/proc/sys/net").is_ok_and(|found| found.is_dir()) {
            let message = "there is no /proc/sys/net: mount proc on /proc";
            return Err(Error::proc(message.to_owned()));
        }
        let socket = Socket::open(&Namespace::current())?;
        let path = "/proc/thread-self/ns/net";
        let file = with_file.then(|| File::open(path)).transpose();
        Ok(NamespaceInfo {
            cookie: socket.netns_cookie().ok(),
            file: file.map_err(|error| Error::proc(format!("{path}: {error}")))?.map(OwnedFd::from),
        })
    }
}

/// Reads a key in the namespace of the calling thread.
pub(crate) fn read_key(files: &dyn Files, key: &Key) -> ReadValue {
    let bytes = match files.read(key) {
        Ok(bytes) => bytes,
        // A secret that was never set reads as an error (`addrconf_sysctl_stable_secret`).
        Err(error) if key.name() == "stable_secret" && error.raw_os_error() == Some(libc::EIO) => {
            return Ok(None);
        }
        Err(error) => {
            let message = match error.raw_os_error() {
                Some(libc::ENOENT) => {
                    "there is no such value: it comes with its device or module, or its name is not right".to_owned()
                }
                Some(libc::EISDIR) => "is a directory: name a key in it".to_owned(),
                _ if error.kind() == std::io::ErrorKind::InvalidInput => error.to_string(),
                _ => format!("cannot be read: {error}"),
            };
            return Err(Failure::new(classify(&error), message).with_errno(error.raw_os_error()));
        }
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(normalize_space(text))),
        Err(_) => Err(Failure::new(ErrorClass::Unsupported, "has a value that is no text")),
    }
}

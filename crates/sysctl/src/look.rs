//! Being in the namespace: reading values there, and making sure that it is the same one each time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::thread;

use trueup_netlink::{Namespace, Socket};

use crate::class::classify;
use crate::value::spaced;
use crate::{Error, Failure, Files, Key};

/// What is read, by key: a value, or why there is none to show.
pub type Observed = BTreeMap<Key, Result<String, Failure>>;

/// What was read of a key: its value, or `None` where one was never set; or why nobody knows.
pub(crate) type Seen = Result<Option<String>, Failure>;

/// The namespace of a pass. What was entered once is entered again whatever becomes of its name.
pub(crate) struct Place<'a> {
    files: &'a dyn Files,
    namespace: Namespace,
}

impl<'a> Place<'a> {
    /// Enters a namespace for the first time in a pass. `known` is the cookie of earlier passes, and is learnt.
    pub(crate) fn enter(
        scope: &Namespace,
        files: &'a dyn Files,
        known: &mut Option<u64>,
    ) -> Result<Place<'a>, Error> {
        let caller = thread::current().id();
        let entered = scope.enter(|| {
            // What is current stays so while the caller waits for us, and is re-entered by right of being there.
            let is_current = thread::current().id() == caller;
            Inside::look(!is_current)
        });
        let inside = match entered {
            Ok(inside) => inside?,
            Err(error) if known.is_some() && error.is_gone() => {
                let message = format!("network namespace {scope} has ended");
                return Err(Error::gone(message, Some(error)));
            }
            Err(error) => return Err(error.into()),
        };
        if let (Some(known), Some(cookie)) = (*known, inside.cookie)
            && known != cookie
        {
            let message = format!(
                "network namespace {scope} has ended: what bears its name is another (cookie {cookie}, not {known})"
            );
            return Err(Error::gone(message, None));
        }
        *known = inside.cookie.or(*known);
        let namespace = match inside.file {
            Some(file) => Namespace::from_fd(file),
            None => scope.clone(),
        };
        Ok(Place { files, namespace })
    }

    /// Runs something there.
    pub(crate) fn run<T: Send>(
        &self,
        inside: impl FnOnce(&dyn Files) -> T + Send,
    ) -> Result<T, Error> {
        let files = self.files;
        Ok(self.namespace.enter(|| inside(files))?)
    }

    /// Reads keys.
    pub(crate) fn look<'k>(
        &self,
        keys: impl Iterator<Item = &'k Key> + Send,
    ) -> Result<BTreeMap<Key, Seen>, Error> {
        self.run(|files| keys.map(|key| (key.clone(), read(files, key))).collect())
    }
}

/// What there is to know of a namespace on entering it.
struct Inside {
    /// None before Linux 5.14.
    cookie: Option<u64>,
    file: Option<OwnedFd>,
}

impl Inside {
    fn look(keep: bool) -> Result<Inside, Error> {
        // Where there is no /proc, each key would seem to be gone.
        if !fs::metadata("/proc/sys/net").is_ok_and(|found| found.is_dir()) {
            let message = "there is no /proc/sys/net: mount proc on /proc";
            return Err(Error::proc(message.to_owned()));
        }
        let socket = Socket::open(&Namespace::current())?;
        let file = match keep {
            true => {
                let path = "/proc/thread-self/ns/net";
                let file = File::open(path);
                Some(file.map_err(|error| Error::proc(format!("{path}: {error}")))?)
            }
            false => None,
        };
        Ok(Inside {
            cookie: socket.netns_cookie().ok(),
            file: file.map(OwnedFd::from),
        })
    }
}

/// Reads a key as the thread sees it.
pub(crate) fn read(files: &dyn Files, key: &Key) -> Seen {
    let bytes = match files.read(key) {
        Ok(bytes) => bytes,
        // What was never set is not read as nothing, but as an error (`addrconf_sysctl_stable_secret`).
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
            return Err(Failure {
                class: classify(&error),
                errno: error.raw_os_error(),
                message,
            });
        }
    };
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(spaced(text))),
        Err(_) => Err(Failure {
            class: trueup_reconcile::ErrorClass::Unsupported,
            errno: None,
            message: "has a value that is no text".to_owned(),
        }),
    }
}

//! [`Namespace`]: names a network namespace, opens it, runs code in it.
//!
//! A socket belongs for ever to the namespace of the thread that created it. So nothing here moves
//! a caller's thread: code to be run inside runs on a scratch thread that ends with it.

mod process;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;
use trueup_path::{ErrorKind, TrustedUsers};

use self::process::Process;
use crate::error::Error;
use crate::transport::{self, Transport};

/// The directory of named namespaces, as in iproute2.
const NAMED: &str = "/run/netns";

/// The thread's own namespace. `/proc/self` is the main thread's.
const OWN: &str = "/proc/thread-self/ns/net";

/// The name of a network namespace. The namespace is opened only when it is used.
///
/// The text form is `NAME` (under `/run/netns`, as in `ip netns`), a path (any text with a `/`), or
/// `pid:N`.
///
/// ```
/// use trueup_netlink::Namespace;
///
/// assert_eq!("blue".parse::<Namespace>()?.to_string(), "blue");
/// assert_eq!("pid:1".parse::<Namespace>()?.to_string(), "pid:1");
/// assert_eq!("/proc/1/ns/net".parse::<Namespace>()?.to_string(), "/proc/1/ns/net");
/// assert!("..".parse::<Namespace>().is_err());
/// # Ok::<(), trueup_netlink::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Namespace(Which);

#[derive(Clone, Debug)]
enum Which {
    Current,
    Name(String),
    Path(PathBuf),
    Process(Process),
    Fd(Arc<Open>),
    Through(Arc<dyn Connect>),
}

/// An open namespace, with the name by which it was opened.
#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    name: Box<str>,
}

/// A network namespace's id: the device and the inode of its file, or 0, which is no device, and a
/// [connector's](Connect) cookie. The namespace keeps its id, and no other gets it, as long as
/// something keeps the namespace: a socket or a descriptor in it, a process, a mount.
pub type NamespaceId = (u64, u64);

/// Makes transports to a namespace outside the running kernel.
pub trait Connect: fmt::Debug + Send + Sync {
    /// Returns a new transport with its own port id.
    ///
    /// # Errors
    ///
    /// If none can be made.
    fn connect(&self) -> io::Result<Box<dyn Transport>>;

    /// Returns the namespace's cookie (`SO_NETNS_COOKIE`, Linux 5.14), which no other one of this
    /// boot has.
    ///
    /// # Errors
    ///
    /// If the namespace no longer exists.
    fn namespace_cookie(&self) -> io::Result<u64> {
        self.connect()?.netns_cookie()
    }

    /// Returns the namespace below, if this is a layer above one. Code runs in the one below.
    fn below(&self) -> Option<&Namespace> {
        None
    }
}

impl Namespace {
    /// Returns the namespace of the thread that uses it.
    #[must_use]
    pub fn current() -> Self {
        Self(Which::Current)
    }

    /// Returns the namespace that `ip netns` gave a name.
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace) if the name is empty, `.`, `..`, or has a `/` or
    /// a NUL in it. A missing namespace is only noticed when it is used.
    pub fn named(name: impl Into<String>) -> Result<Self, Error> {
        let named: String = name.into();
        if ["", ".", ".."].contains(&&*named) || named.contains(['/', '\0']) {
            let message = format!(
                "{named:?} is not the name of a network namespace: a name is one file name under \
                 {NAMED}, a path has a '/' in it, a process is pid:N"
            );
            return Err(Error::namespace(message, None));
        }
        Ok(Self(Which::Name(named)))
    }

    /// Returns the namespace of a file, such as a bind mount of `/proc/PID/ns/net`. That path
    /// itself refers to the process, like [`pid`](Self::pid).
    #[must_use]
    pub fn path(path: impl Into<PathBuf>) -> Self {
        let file: PathBuf = path.into();
        Self(Process::of_path(&file).map_or_else(|| Which::Path(file), Which::Process))
    }

    /// Returns the namespace that a process is in when it is used. A process in the using thread's
    /// own namespace is refused; [`current`](Self::current) is that namespace.
    ///
    /// Process ids are reused. So this value and its clones hold the process from the first use on:
    /// once it has ended, the namespace is [gone](Error::is_gone), even if another process has the
    /// id. Before the first use the id may already be another process's, so prefer a
    /// [name](Self::named).
    #[must_use]
    pub fn pid(pid: u32) -> Self {
        Self(Which::Process(Process::new(pid)))
    }

    /// Returns the namespace of a file descriptor.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        let name = "(file descriptor)".into();
        Self(Which::Fd(Arc::new(Open { fd, name })))
    }

    /// Returns a namespace outside the running kernel: a model kernel, or a layer that injects
    /// faults. Sockets in it use `connector`. Code can run only in a namespace
    /// [below](Connect::below) it.
    #[must_use]
    pub fn through(connector: Arc<dyn Connect>) -> Self {
        Self(Which::Through(connector))
    }

    /// Returns the connector, or `None` for a namespace of the running kernel.
    fn connector(&self) -> Option<&dyn Connect> {
        match &self.0 {
            Which::Through(connector) => Some(&**connector),
            _ => None,
        }
    }

    /// Opens the namespace. The result refers to it even after its name changes.
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace), with the errno of the system call if there was
    /// one: there is none with that name (the message lists the place searched), the file is no
    /// network namespace, or a privilege is missing.
    pub fn open(&self) -> Result<Self, Error> {
        let fd = match &self.0 {
            Which::Fd(_) | Which::Through(_) => return Ok(self.clone()),
            _ => self.open_file()?,
        };
        let name = self.to_string().into();
        Ok(Self(Which::Fd(Arc::new(Open { fd, name }))))
    }

    /// Returns a namespace that stays the present one even after its name changes, and in which
    /// sockets cost no more to open. The same as [`open`](Self::open), except for the current one.
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open).
    pub fn pinned(&self) -> Result<Self, Error> {
        match &self.0 {
            Which::Current => Ok(self.clone()),
            _ => self.open(),
        }
    }

    /// Returns the id of the namespace with this name now, without a socket (nsfs gives each
    /// namespace its own inode). It takes one system call, except for a process.
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open), but a file that is no network namespace also has an id.
    pub fn id(&self) -> Result<NamespaceId, Error> {
        let status = match &self.0 {
            Which::Fd(open) => rustix::fs::fstat(&open.fd),
            Which::Process(process) => return inode(&process.open_namespace()?),
            Which::Through(connector) => {
                let cookie = connector.namespace_cookie().map_err(|source| {
                    let message = format!("cannot reach network namespace {self}: {source}");
                    Error::namespace(message, Some(source))
                })?;
                return Ok((0, cookie));
            }
            _ => rustix::fs::stat(self.file()),
        };
        status
            .map(|status| (status.st_dev, status.st_ino))
            .map_err(|errno| self.unopened(&self.file(), errno.into()))
    }

    /// Returns the first of the names that `ip netns` gave to the namespace. `None` if it has none,
    /// or the names cannot be read. Unlike an id, a name can be the same after a reboot.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "names alone: what each leads to is compared with the namespace"
    )]
    pub fn name(&self) -> Option<String> {
        let id = self.id().ok()?;
        let folder = rustix::fs::open(NAMED, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let mut entries = rustix::fs::Dir::new(folder.ok()?).ok()?;
        let mut first: Option<String> = None;
        while let Some(Ok(entry)) = entries.read() {
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let is_first = first.as_deref().is_none_or(|first| name < first);
            let named = Namespace::named(name).and_then(|named| named.id());
            if is_first && named.is_ok_and(|named| named == id) {
                first = Some(name.to_owned());
            }
        }
        first
    }

    /// Opens a transport to the namespace, for a layer between it and a [`Socket`](crate::Socket).
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace) as from [`Namespace::enter`];
    /// [`Io`](crate::ErrorKind::Io) if no socket can be made.
    pub fn connect(&self) -> Result<Box<dyn Transport>, Error> {
        match self.connector() {
            Some(connector) => connector
                .connect()
                .map_err(|source| Error::io("cannot open a netlink socket", source)),
            None => self.enter(transport::open)?,
        }
    }

    /// Runs `inside` in the namespace and returns its result.
    ///
    /// In the current namespace it runs on the caller's thread. Otherwise it runs on a thread of
    /// its own, so that no thread of the caller is ever left in a foreign namespace. A panic in
    /// `inside` is passed on.
    ///
    /// # Errors
    ///
    /// [`Namespace`](crate::ErrorKind::Namespace) if the namespace cannot be opened or entered.
    /// `inside` has not run then.
    pub fn enter<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let opened;
        let fd = match &self.0 {
            Which::Current => return Ok(inside()),
            Which::Through(connector) => {
                if let Some(below) = connector.below() {
                    return below.enter(inside);
                }
                let message = "no code can run in a namespace that is reached through a connector";
                return Err(Error::namespace(message.to_owned(), None));
            }
            Which::Fd(open) => open.fd.as_fd(),
            _ => {
                opened = self.open_file()?;
                opened.as_fd()
            }
        };
        on_scratch_thread(self, || {
            let net = Some(LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(fd, net)
                .map_err(|errno| self.refused(errno.into()))?;
            Ok(inside())
        })?
    }

    fn file(&self) -> PathBuf {
        match &self.0 {
            Which::Current | Which::Fd(_) | Which::Through(_) | Which::Process(_) => OWN.into(),
            Which::Name(name) => Path::new(NAMED).join(name),
            Which::Path(path) => path.clone(),
        }
    }

    fn open_file(&self) -> Result<OwnedFd, Error> {
        if let Which::Process(process) = &self.0 {
            return process.open_namespace();
        }
        let file = self.file();
        let fd = match &self.0 {
            Which::Current | Which::Fd(_) | Which::Through(_) | Which::Process(_) => {
                open_link(CWD, &file).map_err(|errno| self.unopened(&file, errno.into()))?
            }
            Which::Name(_) | Which::Path(_) => match open_walked(&file) {
                Err(error) if error.kind() == ErrorKind::NotRegular => return Err(no_netns(&file)),
                opened => opened.map_err(|error| {
                    let code = error.raw_os_error().map(io::Error::from_raw_os_error);
                    self.unopened(&file, code.unwrap_or_else(|| error.into()))
                })?,
            },
        };
        let on = rustix::fs::fstatfs(&fd).map_err(|errno| self.unopened(&file, errno.into()))?;
        if i128::from(on.f_type) != i128::from(libc::NSFS_MAGIC) {
            return Err(no_netns(&file));
        }
        Ok(fd)
    }

    fn unopened(&self, file: &Path, source: io::Error) -> Error {
        let is_missing = matches!(source.kind(), io::ErrorKind::NotFound)
            || source.raw_os_error() == Some(libc::ESRCH);
        let message = match &self.0 {
            Which::Name(name) if is_missing => {
                format!("there is no network namespace {name:?}: {}: {source}", file.display())
            }
            _ if is_missing => {
                format!("there is no network namespace at {}: {source}", file.display())
            }
            _ => format!("cannot open network namespace {}: {source}", file.display()),
        };
        Error::namespace(message, Some(source))
    }

    fn refused(&self, source: io::Error) -> Error {
        let message = match source.raw_os_error() {
            Some(libc::EPERM) => format!(
                "cannot enter network namespace {self}: that needs CAP_SYS_ADMIN, both in the \
                 process's user namespace and in the one that owns the network namespace: run it \
                 as root"
            ),
            Some(libc::EINVAL) => format!("{self} is not a network namespace"),
            _ => format!("cannot enter network namespace {self}: {source}"),
        };
        Error::namespace(message, Some(source))
    }
}

fn no_netns(file: &Path) -> Error {
    Error::namespace(format!("{} is not a network namespace", file.display()), None)
}

/// Opens a link made by the kernel, below `/proc`.
#[expect(clippy::disallowed_methods, reason = "a link that the kernel makes")]
fn open_link(folder: impl AsFd, name: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// Opens a namespace's file, unless another user of the host could choose the file, for example
/// with a link to the host's own.
fn open_walked(file: &Path) -> Result<OwnedFd, trueup_path::Error> {
    let place = TrustedUsers::current()?.followed_place(file)?;
    if place.is_kernel_link()? {
        return open_link(place.folder(), Path::new(place.name()))
            .map_err(|errno| trueup_path::Error::not_opened(file, errno.into()));
    }
    place.folder().clone().ours()?;
    match place.open()? {
        Some(file) => Ok(file.into()),
        None => Err(trueup_path::Error::not_opened(file, Errno::NOENT.into())),
    }
}

/// Opens the namespace of the calling thread.
pub(crate) fn open_own() -> Result<OwnedFd, Error> {
    Namespace::current().open_file()
}

/// Returns the id of an open namespace.
pub(crate) fn inode(namespace: &OwnedFd) -> Result<NamespaceId, Error> {
    let status = rustix::fs::fstat(namespace).map_err(|errno| {
        let message = format!("cannot tell the network namespace: {errno}");
        Error::namespace(message, Some(errno.into()))
    })?;
    Ok((status.st_dev, status.st_ino))
}

/// Runs `work`, which enters the namespace `name`, on a thread that ends with it. A panic is passed
/// on.
pub(crate) fn on_scratch_thread<T: Send>(
    name: &(impl fmt::Display + ?Sized),
    work: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)
            .map_err(|source| {
                let message =
                    format!("cannot start a thread to enter network namespace {name}: {source}");
                Error::namespace(message, Some(source))
            })?;
        let joined = thread.join();
        Ok(joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

impl Default for Namespace {
    fn default() -> Self {
        Self::current()
    }
}

impl FromStr for Namespace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.contains('/') {
            return Ok(Self::path(text));
        }
        let Some(pid) = text.strip_prefix("pid:") else {
            return Self::named(text);
        };
        match pid.parse::<u32>() {
            Ok(pid) if pid > 0 => Ok(Self::pid(pid)),
            _ => {
                let message = format!("{text:?} names no process: expected pid:N, N from 1");
                Err(Error::namespace(message, None))
            }
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Which::Current => f.write_str("(current)"),
            Which::Name(name) => f.write_str(name),
            Which::Path(path) => write!(f, "{}", path.display()),
            Which::Process(process) => write!(f, "{process}"),
            Which::Fd(open) => f.write_str(&open.name),
            Which::Through(connector) => write!(f, "({connector:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_another_user_leads_to_no_namespace() {
        use std::os::unix::fs::{chown, symlink};
        let folder = std::env::temp_dir().join(format!("trueup-netns-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (link, own) = (folder.join("ns"), "/proc/self/ns/net");
        symlink(own, &link).unwrap();
        // As made by `ip netns attach` and many scripts.
        Namespace::path(&link).open().unwrap();
        Namespace::path(own).open().unwrap();
        // Only root can give the folder away.
        if chown(&folder, Some(4_242), None).is_ok() {
            let refused = Namespace::path(&link).open().unwrap_err();
            assert!(refused.to_string().contains("is not followed"), "{refused}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn text_forms() {
        for text in ["blue", "./blue", "/run/netns/blue", "pid:7", "a..b", "pid"] {
            assert_eq!(text.parse::<Namespace>().unwrap().to_string(), text);
        }
        for text in ["", ".", "..", "pid:", "pid:x", "pid:-1", "pid:0", "pid:99999999999"] {
            let error = text.parse::<Namespace>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Namespace, "{text:?}");
        }
        for name in ["a/b", "../x", "a\0b"] {
            assert!(Namespace::named(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_does_not_exist_says_where_it_was_looked_for() {
        let error = Namespace::named("no-such-namespace").unwrap().open().unwrap_err();
        assert!(error.to_string().contains("/run/netns/no-such-namespace"), "{error}");
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }

    #[test]
    fn files_that_are_no_namespace_are_refused() {
        for path in ["/dev/null", "/proc/self/status", "/tmp"] {
            let error = Namespace::path(path).open().unwrap_err();
            assert!(error.to_string().contains("is not a network namespace"), "{error}");
        }
        // A namespace of another type is only noticed when it is entered.
        let error = Namespace::path("/proc/self/ns/uts").enter(|| ()).unwrap_err();
        assert!(error.to_string().contains("is not a network namespace"), "{error}");
    }

    #[test]
    fn a_panic_inside_goes_through() {
        let entered = std::panic::catch_unwind(|| {
            Namespace::path("/proc/self/ns/net").enter(|| panic!("inside"))
        });
        match entered {
            Err(panic) => assert_eq!(panic.downcast_ref::<&str>(), Some(&"inside")),
            Ok(entered) => {
                assert!(!rustix::process::geteuid().is_root());
                assert!(entered.unwrap_err().is_permission());
            }
        }
    }
}

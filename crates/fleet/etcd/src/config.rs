//! The configuration of connections to etcd: endpoints, credentials, times.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use trueup_path::{Readers, TrustedUsers};
use trueup_world::{Error, ErrorKind, Limits};

/// The configuration of connections to etcd. Files are read again for each new connection, so that
/// they can be replaced while the store is in use. Each must be a regular file of at most 1 MiB
/// that only root and the user of this process can change.
///
/// ```
/// use std::time::Duration;
/// use trueup_etcd::Config;
///
/// let config = Config::new(["https://10.0.0.1:2379", "https://10.0.0.2:2379"])
///     .with_ca_file("/etc/trueup/ca.pem")
///     .with_timeout(Duration::from_secs(2));
/// assert_eq!(config.timeout, Duration::from_secs(2));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The members' addresses for clients, `http://HOST:PORT` or `https://HOST:PORT`, all with one
    /// scheme. Calls go to one of them. If it fails, they go to the next.
    pub endpoints: Vec<String>,
    /// The user, if etcd's access control is on. `None` connects without a user.
    pub user: Option<User>,
    /// True if passwords may be sent over `http`. Each machine on the way can then read them. So
    /// can each program that takes a member's port while the member is down. Any user of this host
    /// may do that, so addresses of this host are no exception. False by default.
    pub allow_clear_password: bool,
    /// The PEM file of the certificate authorities that sign the members' certificates. Required
    /// for `https`.
    pub ca_file: Option<PathBuf>,
    /// The PEM file of this client's certificate. Requires `key_file`.
    pub cert_file: Option<PathBuf>,
    /// The PEM file of the key for `cert_file`. Other users must not be able to read it: mode 0600.
    pub key_file: Option<PathBuf>,
    /// The longest time that a call blocks. 5 s by default.
    pub timeout: Duration,
    /// The longest time until a member accepts a connection. 1 s by default.
    pub connect_timeout: Duration,
    /// The time without a byte from the member after which a connection with a watch or a lease
    /// sends an HTTP/2 ping. 6 s by default. etcd closes connections that ping more often than its
    /// `--grpc-keepalive-min-time`, 5 s by default.
    pub keep_alive: Duration,
    /// The time after which a connection without an answer to a ping is closed. 4 s by default.
    pub keep_alive_timeout: Duration,
    /// The limits of one transaction: 128 operations (etcd's `--max-txn-ops`) and 1,500,000 bytes
    /// (below its `--max-request-bytes`) by default.
    pub limits: Limits,
    /// The limits of a list, and of one revision in a watch. Beyond them, the read is an error.
    ///
    /// A single message of a member has at most 8 MiB, or four times [`limits`](Self::limits) if
    /// that is more. If it consists of empty entries, it briefly takes some 350 MB.
    pub read_limits: Limits,
}

/// A user of etcd, with the file of its password.
///
/// ```
/// use trueup_etcd::Config;
///
/// let config = Config::new(["https://10.0.0.1:2379"]).with_user("a", "/etc/trueup/world");
/// assert_eq!(config.user.map(|user| user.name), Some("a".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name in etcd's list of users.
    pub name: String,
    /// The file whose first line is the password. Other users must not be able to read it: mode
    /// 0600.
    pub password_file: PathBuf,
}

impl Config {
    /// Makes a configuration with these endpoints, and the defaults that the fields list.
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Config {
        Config {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            user: None,
            allow_clear_password: false,
            ca_file: None,
            cert_file: None,
            key_file: None,
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(1),
            keep_alive: Duration::from_secs(6),
            keep_alive_timeout: Duration::from_secs(4),
            limits: Limits { count: 128, bytes: 1_500_000 },
            read_limits: Limits::default(),
        }
    }

    /// Sets the user, and the file of its password.
    #[must_use]
    pub fn with_user(mut self, name: impl Into<String>, password_file: impl Into<PathBuf>) -> Self {
        self.user = Some(User { name: name.into(), password_file: password_file.into() });
        self
    }

    /// Allows or forbids passwords over `http`.
    #[must_use]
    pub fn with_clear_password(mut self, is_allowed: bool) -> Self {
        self.allow_clear_password = is_allowed;
        self
    }

    /// Sets the PEM file of certificate authorities.
    #[must_use]
    pub fn with_ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// Sets the PEM files of this client's certificate and of its key.
    #[must_use]
    pub fn with_cert_files(
        mut self,
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.cert_file = Some(certificate.into());
        self.key_file = Some(key.into());
        self
    }

    /// Sets the longest time that a call blocks.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the longest time until a member accepts a connection.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the time after which a silent connection is pinged, and the time that the answer may
    /// take.
    #[must_use]
    pub fn with_keep_alive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.keep_alive = interval;
        self.keep_alive_timeout = timeout;
        self
    }

    /// Sets the limits of one transaction.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the limits of a list, and of one revision in a watch.
    #[must_use]
    pub fn with_read_limits(mut self, limits: Limits) -> Self {
        self.read_limits = limits;
        self
    }

    /// Returns the largest answer to a read, in bytes.
    pub(crate) fn largest_answer(&self) -> usize {
        self.limits.bytes.saturating_mul(4).max(8 << 20)
    }

    /// Checks that a password may be sent to these endpoints.
    pub(crate) fn check_password(&self) -> Result<(), Error> {
        if self.is_https() || self.allow_clear_password {
            return Ok(());
        }
        let message = "a password over http is seen by each machine on the way, and by each \
                       program that takes the port while etcd is down: use https endpoints, or \
                       `allow_clear_password`";
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Checks everything that needs no connection, including access to the files.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.endpoints.is_empty() {
            return invalid("no endpoint of etcd is given: set `endpoints`");
        }
        for endpoint in &self.endpoints {
            let (http, https) = ("http://", "https://");
            if !endpoint.starts_with(http) && !endpoint.starts_with(https) {
                return invalid(format!(
                    "endpoint {endpoint:?}: begin it with http:// or https://"
                ));
            }
            if endpoint.starts_with(https) != self.is_https() {
                return invalid("endpoints: use http or https for all of them");
            }
        }
        if self.is_https() && self.ca_file.is_none() {
            return invalid("https endpoints: set `ca_file`");
        }
        if !self.is_https() && (self.ca_file.is_some() || self.cert_file.is_some()) {
            return invalid("certificates are set: use https endpoints");
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            return invalid("set both `cert_file` and `key_file`, or neither");
        }
        let times = [self.timeout, self.connect_timeout, self.keep_alive, self.keep_alive_timeout];
        if times.contains(&Duration::ZERO) {
            return invalid("times of a connection to etcd are longer than 0");
        }
        if self.user.is_some() {
            self.check_password()?;
        }
        self.options().map(drop)
    }

    fn is_https(&self) -> bool {
        let first = self.endpoints.first();
        first.is_some_and(|endpoint| endpoint.starts_with("https://"))
    }

    /// Reads the files, and makes the options of a connection.
    pub(crate) fn options(&self) -> Result<ConnectOptions, Error> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.connect_timeout)
            .with_keep_alive(self.keep_alive, self.keep_alive_timeout)
            // etcd closes a connection that pings without other traffic.
            .with_keep_alive_while_idle(false);
        if let Some(user) = &self.user {
            let password = read_password(&user.password_file)?;
            options = options.with_user(&user.name, password);
        }
        if let Some(file) = &self.ca_file {
            let mut tls = TlsOptions::new()
                .ca_certificate(Certificate::from_pem(read(file, Readers::Everybody)?));
            if let (Some(certificate), Some(key)) = (&self.cert_file, &self.key_file) {
                let certificate = read(certificate, Readers::Everybody)?;
                tls = tls.identity(Identity::from_pem(certificate, read(key, Readers::Us)?));
            }
            options = options.with_tls(tls);
        }
        Ok(options)
    }
}

fn invalid(message: impl Into<String>) -> Result<(), Error> {
    Err(Error::new(ErrorKind::Invalid, message))
}

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads a password: the first line of a file that other users can neither read nor change. From
/// then on, the caller must make sure that no core dump of its process is written (`RLIMIT_CORE`,
/// `PR_SET_DUMPABLE`), as the command `trueup` does.
///
/// ```no_run
/// let password = trueup_etcd::read_password("/etc/trueup/world".as_ref())?;
/// assert!(!password.contains('\n')); // the first line
/// # Ok::<(), trueup_world::Error>(())
/// ```
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) if the file cannot be read, or is not a regular file of at most
/// 1 MiB. Also if other users can read or change it, or if its first line is empty or not UTF-8.
pub fn read_password(file: &Path) -> Result<String, Error> {
    let content = read(file, Readers::Us)?;
    let line = content.split(|byte| *byte == b'\n').next();
    let text = line.and_then(|line| str::from_utf8(line).ok());
    let password = text.map(|line| line.strip_suffix('\r').unwrap_or(line));
    password.filter(|it| !it.is_empty()).map(str::to_owned).ok_or_else(|| {
        let message = "has no password: write it in the first line, in UTF-8";
        Error::new(ErrorKind::Invalid, format!("{}: {message}", file.display()))
    })
}

/// Reads a file that other users cannot change, and only `readers` can read.
fn read(file: &Path, readers: Readers) -> Result<Vec<u8>, Error> {
    TrustedUsers::current().and_then(|users| users.read_ours(file, readers, MAX_FILE)).map_err(
        |error| {
            let (message, source) = (error.to_string(), std::io::Error::from(error));
            Error::new(ErrorKind::Invalid, message).with_source(source)
        },
    )
}

#[cfg(test)]
#[path = "../tests/unit/config.rs"]
mod tests;

//! Sysctl keys: parsed, checked, and in one form.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::str::FromStr;

use trueup_reconcile::OpKey;

use crate::Error;

/// Longer than any key: the kernel's own names are short, and a device's has at most 15 bytes.
const MAX_LEN: usize = 255;

/// The key of a value in a network namespace: `net.ipv4.ip_forward`.
///
/// The first separator decides, as in sysctl(8) and sysctl.d(5). After a slash, slashes separate
/// and dots are part of a name: `net/ipv4/conf/eth0.100/rp_filter`. After a dot, dots separate, and
/// a slash stands for a dot in a name: `net.ipv4.conf.eth0/100.rp_filter`. Both are the same key,
/// which is displayed in the second form.
///
/// Only keys below `net` are accepted: others (`kernel.`, `vm.`, `fs.`) belong to the host and not
/// to a namespace. Keys are ordered by path.
///
/// ```
/// use trueup_sysctl::Key;
///
/// let key: Key = "net/ipv4/conf/eth0.100/rp_filter".parse()?;
/// assert_eq!(key.to_string(), "net.ipv4.conf.eth0/100.rp_filter");
/// assert_eq!(key, "net.ipv4.conf.eth0/100.rp_filter".parse()?);
/// assert!("kernel.hostname".parse::<Key>().is_err());
/// # Ok::<(), trueup_sysctl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

impl Key {
    /// Returns the path below `/proc/sys`: `net/ipv4/conf/eth0.100/rp_filter`.
    pub fn path(&self) -> &str {
        &self.0
    }

    /// Returns the file. The content of `/proc/sys/net` belongs to the namespace of the thread that
    /// opens it.
    pub fn file(&self) -> PathBuf {
        ["/proc/sys", &self.0].iter().collect()
    }

    /// Returns the key by which a loop's handle knows the value. It is the same in each pass.
    pub fn op_key(&self) -> OpKey {
        // This hasher has no random seed: the key is the same in each pass.
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        OpKey(hasher.finish())
    }

    /// Returns the device of the key: `eth0` for `net.ipv4.conf.eth0.forwarding`. `None` for `all`,
    /// `default`, and keys without a device.
    pub fn device(&self) -> Option<&str> {
        let mut parts = self.0.split('/').skip(2);
        match (parts.next(), parts.next(), parts.next()) {
            (Some("conf" | "neigh"), Some("all" | "default"), _) => None,
            (Some("conf" | "neigh"), device, Some(_)) => device,
            _ => None,
        }
    }

    /// Returns the last part.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.path(), |(_, name)| name)
    }

    /// Returns the rank in the order of writing: a value that the kernel copies to other keys is
    /// written before them.
    ///
    /// The kernel copies IPv4 forwarding to every device and to `default`, and changes
    /// `all/accept_redirects`. It copies IPv6 forwarding in the same way (`inet_forward_change` in
    /// `net/ipv4/devinet.c`, `addrconf_forward_change` in `net/ipv6/addrconf.c`). It also copies
    /// some other keys of `all` (IPv6 `disable_ipv6`, `addr_gen_mode`, `force_forwarding`,
    /// `ignore_routes_with_linkdown`), and an IPv4 `default` to each device whose own key was never
    /// written (`devinet_copy_dflt_conf`).
    pub(crate) fn rank(&self) -> u8 {
        let mut parts = self.0.split('/').skip(2);
        match (parts.next(), parts.next(), parts.next()) {
            (Some("ip_forward"), None, _) | (Some("conf"), Some("all"), Some("forwarding")) => 0,
            (Some("conf" | "neigh"), Some("all"), _) => 1,
            (Some("conf" | "neigh"), Some("default"), _) => 2,
            _ => 3,
        }
    }

    /// Returns the other key of the same switch, if there is one.
    pub(crate) fn alias(&self) -> Option<Key> {
        match self.path() {
            "net/ipv4/ip_forward" => Some(Key("net/ipv4/conf/all/forwarding".to_owned())),
            "net/ipv4/conf/all/forwarding" => Some(Key("net/ipv4/ip_forward".to_owned())),
            _ => None,
        }
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Key, Error> {
        if text.len() > MAX_LEN {
            let shown: String = text.chars().take(40).collect();
            let message = format!("{shown:?}... is no key: it has more than {MAX_LEN} bytes");
            return Err(Error::key(message));
        }
        let path = match text.find(['.', '/']) {
            Some(first) if text.as_bytes()[first] == b'.' => swapped(text),
            _ => text.to_owned(),
        };
        let why = if text.starts_with('/') {
            "it is a path from the root; write what is below /proc/sys, as net/ipv4/ip_forward"
        } else if path.split('/').any(str::is_empty) {
            "a part of it is empty"
        } else if path.split('/').any(|part| part == "." || part == "..") {
            "it leads elsewhere, by \".\" or \"..\""
        } else if path.contains(|c: char| c.is_whitespace() || c.is_control()) {
            "it has white space or a control character in it"
        } else if path == "net" {
            "it is a directory; name a key in it, as net.ipv4.ip_forward"
        } else if path.starts_with("net/") {
            return Ok(Key(path));
        } else {
            "keys begin with `net.`; what is elsewhere belongs to the host and not to a network \
             namespace, so set it by sysctl.d(5)"
        };
        Err(Error::key(format!("{text:?} is no key: {why}")))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&swapped(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// Swaps dots and slashes.
fn swapped(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '.' => '/',
            '/' => '.',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests;

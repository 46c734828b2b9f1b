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
/// As in sysctl(8) and sysctl.d(5) the first separator decides. After a slash, slashes separate and
/// dots are part of a name: `net/ipv4/conf/eth0.100/rp_filter`. After a dot, dots separate, and a
/// slash stands for a dot in a name: `net.ipv4.conf.eth0/100.rp_filter`. Both are one key, which is
/// shown in the second form.
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

    /// Returns the file. The content of `/proc/sys/net` is that of the namespace of the thread that
    /// opens it.
    pub fn file(&self) -> PathBuf {
        ["/proc/sys", &self.0].iter().collect()
    }

    /// Returns the key for a driver.
    pub fn op_key(&self) -> OpKey {
        // This hasher has no random seed: the key is the same in each pass.
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        OpKey(hasher.finish())
    }

    /// Returns the device that the key is of, if it is of one: `eth0` of
    /// `net.ipv4.conf.eth0.forwarding`. `all` and `default` are none.
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
    /// written before those.
    ///
    /// The kernel copies IPv4 forwarding to every device and to `default`, and changes
    /// `all/accept_redirects`; it copies IPv6 forwarding likewise (`inet_forward_change` in
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    #[test]
    fn each_spelling_of_a_key_is_that_key() {
        for (shown, path, others) in [
            ("net.ipv4.ip_forward", "net/ipv4/ip_forward", vec![]),
            ("net.ipv4.conf.eth0/100.rp_filter", "net/ipv4/conf/eth0.100/rp_filter", vec![]),
            // A part may begin or end with a dot.
            ("net.x./a/.y", "net/x/.a./y", vec![]),
        ] {
            let key = key(shown);
            assert_eq!(key.path(), path);
            assert_eq!(key.to_string(), shown);
            for other in others.into_iter().chain([path]) {
                assert_eq!(other.parse::<Key>().unwrap(), key);
            }
        }
    }

    #[test]
    fn what_is_no_key_says_why() {
        for (text, why) in [
            ("", "empty"),
            ("/proc/sys/net/ipv4/ip_forward", "from the root"),
            ("net", "directory"),
            ("net.", "empty"),
            ("net..ipv4", "empty"),
            ("net/ipv4//ip_forward", "empty"),
            ("net/ipv4/", "empty"),
            ("net/ipv4/../core/somaxconn", "elsewhere"),
            ("net.ipv4.//.core", "elsewhere"),
            ("net/./x", "elsewhere"),
            ("net.ipv4.ip forward", "white space"),
            ("net.ipv4.ip_forward\n", "white space"),
            ("net.ipv4.\0", "control"),
            ("kernel.hostname", "host"),
            ("vm/swappiness", "host"),
            ("network.x", "host"),
            ("-net.ipv4.ip_forward", "host"),
        ] {
            let error = text.parse::<Key>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
        let error = format!("net.{}", "x".repeat(300)).parse::<Key>().unwrap_err().to_string();
        assert!(error.contains("255 bytes") && error.len() < 120, "{error}");
    }

    #[test]
    fn the_device_of_a_setting_is_in_its_path() {
        for (path, expected) in [
            ("net/ipv4/conf/eth0.100/rp_filter", Some("eth0.100")),
            ("net/ipv6/neigh/br0/mcast_solicit", Some("br0")),
            ("net/ipv4/conf/all/forwarding", None),
            ("net/ipv4/conf/default/forwarding", None),
            ("net/ipv4/ip_forward", None),
            ("net/ipv4/conf/br0", None),
            ("net/core/conf", None),
        ] {
            assert_eq!(key(path).device(), expected, "{path}");
        }
    }

    #[test]
    fn what_is_copied_comes_before_what_it_is_copied_to() {
        let order = [
            "net.ipv4.ip_forward",
            "net.ipv4.conf.all.accept_redirects",
            "net.ipv6.conf.default.forwarding",
            "net.ipv4.conf.eth0.forwarding",
        ];
        assert!(order.map(|text| key(text).rank()).is_sorted_by(|a, b| a < b));
        for forwarding in ["net.ipv4.conf.all.forwarding", "net.ipv6.conf.all.forwarding"] {
            assert_eq!(key(forwarding).rank(), 0);
        }
        // No devices of these names, and no copies.
        for other in ["net.ipv4.all", "net.core.default.x", "net.core.somaxconn"] {
            assert_eq!(key(other).rank(), 3, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_parses_is_shown_and_parses_the_same(text in "(net[./])?[a-z0-9./_ -]{0,40}|\\PC{0,40}") {
            if let Ok(key) = text.parse::<Key>() {
                prop_assert_eq!(&key.to_string().parse::<Key>().unwrap(), &key);
                prop_assert_eq!(&key.path().parse::<Key>().unwrap(), &key);
                prop_assert!(key.path().starts_with("net/"));
                prop_assert!(key.path().split('/').all(|part| !["", ".", ".."].contains(&part)));
                prop_assert!(key.file().starts_with("/proc/sys/net"));
            }
        }

        #[test]
        fn any_name_of_a_device_can_be_written_in_both_forms(device in "[!-.0-~]{1,15}") {
            prop_assume!(device != "." && device != "..");
            let path = format!("net/ipv4/conf/{device}/rp_filter");
            let dotted = format!("net.ipv4.conf.{}.rp_filter", device.replace('.', "/"));
            prop_assert_eq!(key(&path), key(&dotted));
            prop_assert_eq!(key(&path).to_string(), dotted);
        }
    }
}

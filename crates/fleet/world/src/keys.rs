//! The keys of the world in its store. A key's prefix decides who may read and write it, so that
//! access control by ranges, such as etcd's roles, confines a host:
//!
//! | keys, below the prefix | read by | written by |
//! |---|---|---|
//! | `resources/<recipient>/<exporter>/<kind>/<name>` | the recipient; all, if it is `*` | the exporter |
//! | `hosts/<host>/session`, `generation`, `strings/<namespace>`, `offers/<scheduler>` | all | the host |
//! | `private/<host>/recipients/<recipient>` | the host | the host |
//! | `shared/strings/<namespace>`, `leaders/<scheduler>`, `choices/<scheduler>` | all | all |
//! | `cluster/deploys/<number>`, `chunks/<hash>`, `removal`, `size`, `grants` | all | an operator |
//!
//! Each part is encoded. Letters, digits, `.`, `_`, `:` and `-` stand for themselves, every other
//! byte is `%` and two digits, and an empty part is `%`. So no part has a slash, every byte can be
//! decoded, and a prefix that ends with a slash holds whole parts.

use crate::hash::digit;
use crate::{Error, ErrorKind, Hosts, ResourceKey};

/// The keys below a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Result<Keys, Error> {
        let keys = Keys { prefix: prefix.trim_end_matches('/').to_owned() };
        if (1..=LONGEST_PART).contains(&keys.prefix.len()) {
            return Ok(keys);
        }
        let message = format!("prefix {:?}: give one of 1 to {LONGEST_PART} bytes", keys.prefix);
        Err(Error::new(ErrorKind::Invalid, message))
    }

    /// Makes a key of fixed words, and of parts that are encoded.
    fn join(&self, parts: &[Part<'_>]) -> Vec<u8> {
        let mut key = self.prefix.clone().into_bytes();
        for part in parts {
            key.push(b'/');
            match part {
                Part::Word(word) => key.extend_from_slice(word.as_bytes()),
                Part::Name(name) => encode(name, &mut key),
            }
        }
        key
    }

    /// Returns the prefix of all keys after these parts.
    fn below(&self, parts: &[Part<'_>]) -> Vec<u8> {
        let mut key = self.join(parts);
        key.push(b'/');
        key
    }

    pub(crate) fn resources_of(&self, recipient: &Hosts, exporter: &str) -> Vec<u8> {
        let recipient = recipient_part(recipient);
        self.below(&[Part::Word("resources"), recipient, name(exporter)])
    }

    pub(crate) fn resources_for(&self, recipient: &Hosts) -> Vec<u8> {
        self.below(&[Part::Word("resources"), recipient_part(recipient)])
    }

    pub(crate) fn resource(&self, key: &ResourceKey) -> Vec<u8> {
        self.join(&[
            Part::Word("resources"),
            recipient_part(&key.recipient),
            name(&key.exporter),
            name(&key.kind),
            Part::Name(&key.name),
        ])
    }

    pub(crate) fn parse_resource(&self, key: &[u8]) -> Result<ResourceKey, Error> {
        self.resource_key(key).ok_or_else(|| malformed(key, "a resource's"))
    }

    fn resource_key(&self, key: &[u8]) -> Option<ResourceKey> {
        let parts = self.parts(key, "resources/")?;
        let [recipient, exporter, kind, name] = parts[..] else {
            return None;
        };
        Some(ResourceKey {
            recipient: match recipient {
                b"*" => Hosts::Any,
                host => Hosts::One(decode_text(host)?),
            },
            exporter: decode_text(exporter)?,
            kind: decode_text(kind)?,
            name: decode(name)?,
        })
    }

    pub(crate) fn recipients(&self, host: &str) -> Vec<u8> {
        self.below(&[Part::Word("private"), name(host), Part::Word("recipients")])
    }

    pub(crate) fn recipient(&self, host: &str, recipient: &str) -> Vec<u8> {
        let parts = [name(host), Part::Word("recipients"), name(recipient)];
        self.join(&[&[Part::Word("private")], &parts[..]].concat())
    }

    pub(crate) fn parse_recipient(&self, host: &str, key: &[u8]) -> Option<String> {
        decode_text(key.strip_prefix(&self.recipients(host)[..])?)
    }

    pub(crate) fn hosts(&self) -> Vec<u8> {
        self.below(&[Part::Word("hosts")])
    }

    /// Returns a key of a host: `session`, `generation`.
    pub(crate) fn of_host(&self, host: &str, word: &'static str) -> Vec<u8> {
        self.join(&[Part::Word("hosts"), name(host), Part::Word(word)])
    }

    /// Returns the prefix of a host's named keys.
    pub(crate) fn below_host(&self, host: &str, word: &'static str) -> Vec<u8> {
        self.below(&[Part::Word("hosts"), name(host), Part::Word(word)])
    }

    /// Returns a named key of a host, such as in its `strings` or `offers`.
    pub(crate) fn named_of_host(&self, host: &str, word: &'static str, it: &str) -> Vec<u8> {
        self.join(&[Part::Word("hosts"), name(host), Part::Word(word), name(it)])
    }

    /// Returns the host, the word, and the name of a host's key, if it has a name.
    pub(crate) fn parse_host(&self, key: &[u8]) -> Result<(String, String, Option<String>), Error> {
        self.host_key(key).ok_or_else(|| malformed(key, "a host's"))
    }

    fn host_key(&self, key: &[u8]) -> Option<(String, String, Option<String>)> {
        match self.parts(key, "hosts/")?[..] {
            [host, word] => Some((decode_text(host)?, decode_text(word)?, None)),
            [host, word, name] => {
                Some((decode_text(host)?, decode_text(word)?, Some(decode_text(name)?)))
            }
            _ => None,
        }
    }

    /// Returns a key that all hosts write: in `strings`, `leaders` or `choices`.
    pub(crate) fn shared(&self, word: &'static str, it: &str) -> Vec<u8> {
        self.join(&[Part::Word("shared"), Part::Word(word), name(it)])
    }

    /// Returns the prefix of the deploys, or of their chunks.
    pub(crate) fn cluster(&self, word: &'static str) -> Vec<u8> {
        self.below(&[Part::Word("cluster"), Part::Word(word)])
    }

    /// Returns the key that each removal of unused chunks writes before it begins.
    pub(crate) fn removal(&self) -> Vec<u8> {
        self.join(&[Part::Word("cluster"), Part::Word("removal")])
    }

    pub(crate) fn size(&self) -> Vec<u8> {
        self.join(&[Part::Word("cluster"), Part::Word("size")])
    }

    /// Returns the key of the signed list of grants.
    #[cfg(feature = "grants")]
    pub(crate) fn grants(&self) -> Vec<u8> {
        self.join(&[Part::Word("cluster"), Part::Word("grants")])
    }

    /// Returns the encoded parts after the prefix and a word.
    fn parts<'a>(&self, key: &'a [u8], word: &str) -> Option<Vec<&'a [u8]>> {
        key.strip_prefix(self.prefix.as_bytes())?
            .strip_prefix(b"/")?
            .strip_prefix(word.as_bytes())
            .map(|rest| rest.split(|byte| *byte == b'/').collect())
    }
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Word(&'a str),
    Name(&'a [u8]),
}

fn name(name: &str) -> Part<'_> {
    Part::Name(name.as_bytes())
}

fn recipient_part(recipient: &Hosts) -> Part<'_> {
    match recipient {
        Hosts::Any => Part::Word("*"),
        Hosts::One(host) => name(host),
    }
}

pub(crate) fn malformed(key: &[u8], what: &str) -> Error {
    let message = format!("{}: is not {what} key", key.escape_ascii());
    Error::new(ErrorKind::Malformed, message)
}

/// A connection's rights to read and write, by prefixes of keys. The embedded store enforces them
/// directly, etcd by roles with the same ranges.
///
/// ```
/// use trueup_world::Access;
///
/// let access = Access::of_host("/trueup", "a", &[])?;
/// assert!(access.can_write(b"/trueup/resources/*/a/route/pods"));
/// assert!(!access.can_write(b"/trueup/resources/*/b/route/pods")); // another host's
/// # Ok::<(), trueup_world::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The prefixes of keys that may be read.
    pub read: Vec<Vec<u8>>,
    /// The prefixes of keys that may be written.
    pub write: Vec<Vec<u8>>,
}

impl Access {
    /// Returns a host's rights. It may read keys for itself, for any host and for all. It may write
    /// its own keys, and exports to any host and to the granted `recipients`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the prefix is empty or too long.
    pub fn of_host(prefix: &str, host: &str, recipients: &[String]) -> Result<Access, Error> {
        let keys = Keys::new(prefix)?;
        let shared = keys.below(&[Part::Word("shared")]);
        let private = keys.below(&[Part::Word("private"), name(host)]);
        let own = keys.below(&[Part::Word("hosts"), name(host)]);
        let mut access = Access {
            read: vec![
                shared.clone(),
                keys.below(&[Part::Word("cluster")]),
                keys.hosts(),
                private.clone(),
                keys.resources_for(&Hosts::Any),
                keys.resources_for(&Hosts::One(host.to_owned())),
            ],
            write: vec![shared, own, private, keys.resources_of(&Hosts::Any, host)],
        };
        for recipient in recipients {
            let to = keys.resources_of(&Hosts::One(recipient.clone()), host);
            access.read.push(to.clone());
            access.write.push(to);
        }
        Ok(access)
    }

    /// Returns an operator's rights: read everything, and write deploys, the ideal size and the
    /// grants.
    ///
    /// # Errors
    ///
    /// The errors of [`of_host`](Self::of_host).
    pub fn of_operator(prefix: &str) -> Result<Access, Error> {
        let keys = Keys::new(prefix)?;
        Ok(Access {
            read: vec![keys.below(&[])],
            write: vec![keys.below(&[Part::Word("cluster")])],
        })
    }

    /// Returns true if all keys that begin with `prefix` may be read.
    pub fn can_read(&self, prefix: &[u8]) -> bool {
        self.read.iter().any(|granted| prefix.starts_with(granted))
    }

    /// Returns true if `key` may be written.
    pub fn can_write(&self, key: &[u8]) -> bool {
        self.write.iter().any(|granted| key.starts_with(granted))
    }
}

/// The longest part of a key, in encoded bytes.
const LONGEST_PART: usize = 1024;

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn encode(part: &[u8], key: &mut Vec<u8>) {
    if part.is_empty() {
        key.push(b'%');
    }
    for byte in part {
        if is_plain(*byte) {
            key.push(*byte);
        } else {
            key.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Decodes the output of [`encode`], and nothing else, so that a name has one key.
fn decode(part: &[u8]) -> Option<Vec<u8>> {
    if part == b"%" {
        return Some(Vec::new());
    }
    let (mut rest, mut decoded) = (part, Vec::with_capacity(part.len()));
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let byte = digit(*high, b'A')? << 4 | digit(*low, b'A')?;
                ((!is_plain(byte)).then_some(byte)?, behind)
            }
            (byte, behind) => (is_plain(*byte).then_some(*byte)?, behind),
        };
        decoded.push(byte);
        rest = behind;
    }
    (!decoded.is_empty()).then_some(decoded)
}

fn decode_text(part: &[u8]) -> Option<String> {
    String::from_utf8(decode(part)?).ok()
}

/// Checks a name that becomes part of a key.
pub(crate) fn check_part(what: &str, part: &[u8]) -> Result<(), Error> {
    let escaped = part.iter().filter(|byte| !is_plain(**byte)).count();
    if part.len() + 2 * escaped <= LONGEST_PART {
        return Ok(());
    }
    let bytes = part.len();
    let message = format!("{what} of {bytes} bytes: its key is longer than {LONGEST_PART} bytes");
    Err(Error::new(ErrorKind::Invalid, message))
}

#[cfg(test)]
#[path = "../tests/unit/keys.rs"]
mod tests;

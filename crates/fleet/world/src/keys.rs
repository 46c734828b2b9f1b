//! The keys of the world in its store. Readers and writers of a key follow from its prefix, so that
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
//! Each part is encoded: letters, digits, `.`, `_`, `:` and `-` stand for themselves, each other
//! byte is `%` and two digits, and an empty part is `%`. So no part holds a slash, each byte
//! round-trips, and a prefix that ends with a slash holds whole parts.

use crate::encoding::{LONGEST_PART, decode, decode_text, encode};
use crate::{Error, ErrorKind, Hosts, ResourceKey};

/// The keys below a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Result<Keys, Error> {
        let prefix = prefix.trim_end_matches('/');
        if prefix.is_empty() || prefix.len() > LONGEST_PART {
            let message = format!("prefix {prefix:?}: give one of 1 to {LONGEST_PART} bytes");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let prefix = prefix.to_owned();
        Ok(Keys { prefix })
    }

    /// A key of fixed words, and of parts that are encoded.
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

    /// The prefix of all keys behind these parts.
    pub(crate) fn below(&self, parts: &[Part<'_>]) -> Vec<u8> {
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
        let parse = || {
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
        };
        parse().ok_or_else(|| malformed(key, "a resource's"))
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

    /// A key of a host: `session`, `generation`.
    pub(crate) fn of_host(&self, host: &str, word: &'static str) -> Vec<u8> {
        self.join(&[Part::Word("hosts"), name(host), Part::Word(word)])
    }

    /// The prefix of the named keys of a host.
    pub(crate) fn below_host(&self, host: &str, word: &'static str) -> Vec<u8> {
        self.below(&[Part::Word("hosts"), name(host), Part::Word(word)])
    }

    /// A named key of a host: of its `strings`, its `offers`.
    pub(crate) fn named_of_host(&self, host: &str, word: &'static str, it: &str) -> Vec<u8> {
        self.join(&[Part::Word("hosts"), name(host), Part::Word(word), name(it)])
    }

    /// The host, the word, and the name of a key of a host, if it has one.
    pub(crate) fn parse_host(&self, key: &[u8]) -> Result<(String, String, Option<String>), Error> {
        let parse = || match self.parts(key, "hosts/")?[..] {
            [host, word] => Some((decode_text(host)?, decode_text(word)?, None)),
            [host, word, name] => {
                Some((decode_text(host)?, decode_text(word)?, Some(decode_text(name)?)))
            }
            _ => None,
        };
        parse().ok_or_else(|| malformed(key, "a host's"))
    }

    /// A key that all hosts write: of the `strings`, `leaders`, `choices`.
    pub(crate) fn shared(&self, word: &'static str, it: &str) -> Vec<u8> {
        self.join(&[Part::Word("shared"), Part::Word(word), name(it)])
    }

    /// The prefix of the deploys, or of their chunks.
    pub(crate) fn cluster(&self, word: &'static str) -> Vec<u8> {
        self.below(&[Part::Word("cluster"), Part::Word(word)])
    }

    /// The key that each removal of unused chunks writes before it begins.
    pub(crate) fn removal(&self) -> Vec<u8> {
        self.join(&[Part::Word("cluster"), Part::Word("removal")])
    }

    pub(crate) fn size(&self) -> Vec<u8> {
        self.join(&[Part::Word("cluster"), Part::Word("size")])
    }

    /// The key of the signed list of grants.
    #[cfg(feature = "grants")]
    pub(crate) fn grants(&self) -> Vec<u8> {
        self.join(&[Part::Word("cluster"), Part::Word("grants")])
    }

    /// The encoded parts behind the prefix and a word.
    fn parts<'a>(&self, key: &'a [u8], word: &str) -> Option<Vec<&'a [u8]>> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        let rest = rest.strip_prefix(b"/")?.strip_prefix(word.as_bytes())?;
        Some(rest.split(|byte| *byte == b'/').collect())
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    Word(&'a str),
    Name(&'a [u8]),
}

pub(crate) fn name(name: &str) -> Part<'_> {
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

#[cfg(test)]
#[path = "../tests/unit/keys.rs"]
mod tests;

//! What a connection may read and write.

use crate::keys::{Keys, Part, name};
use crate::{Error, Hosts};

/// What a connection may read and write: keys by their prefixes. The embedded store enforces it as
/// it stands here, etcd by roles with the same ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The prefixes of keys that may be read.
    pub read: Vec<Vec<u8>>,
    /// The prefixes of keys that may be written.
    pub write: Vec<Vec<u8>>,
}

impl Access {
    /// What a host may do: read what is for it and for any, and what all may read; write what is
    /// its own, exports for any among it, and for the hosts that are granted as `recipients`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) for an empty prefix, or one that is too long.
    pub fn of_host(prefix: &str, host: &str, recipients: &[String]) -> Result<Access, Error> {
        let keys = Keys::new(prefix)?;
        let any = Hosts::Any;
        let below = |words: &[Part<'_>]| keys.below(words);
        let shared = below(&[Part::Word("shared")]);
        let private = below(&[Part::Word("private"), name(host)]);
        let to = |recipient: &Hosts| keys.resources_of(recipient, host);
        let named = recipients.iter().map(|it| to(&Hosts::One(it.clone())));
        let named: Vec<Vec<u8>> = named.collect();
        let own = below(&[Part::Word("hosts"), name(host)]);
        let mut access = Access {
            read: vec![
                shared.clone(),
                below(&[Part::Word("cluster")]),
                keys.hosts(),
                private.clone(),
                keys.resources_for(&any),
                keys.resources_for(&Hosts::One(host.to_owned())),
            ],
            write: vec![shared, own, private, to(&any)],
        };
        access.read.extend_from_slice(&named);
        access.write.extend(named);
        Ok(access)
    }

    /// What an operator may do: read all, and write deploys, the ideal size and the grants.
    ///
    /// # Errors
    ///
    /// As [`of_host`](Self::of_host).
    pub fn of_operator(prefix: &str) -> Result<Access, Error> {
        let keys = Keys::new(prefix)?;
        Ok(Access {
            read: vec![keys.below(&[])],
            write: vec![keys.below(&[Part::Word("cluster")])],
        })
    }

    /// True if all keys that begin with `prefix` may be read.
    pub fn can_read(&self, prefix: &[u8]) -> bool {
        self.read.iter().any(|granted| prefix.starts_with(granted))
    }

    /// True if a key may be written.
    pub fn can_write(&self, key: &[u8]) -> bool {
        self.write.iter().any(|granted| key.starts_with(granted))
    }
}

//! What a connection may read and write.

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
    /// True if all keys that begin with `prefix` may be read.
    pub fn can_read(&self, prefix: &[u8]) -> bool {
        self.read.iter().any(|granted| prefix.starts_with(granted))
    }

    /// True if a key may be written.
    pub fn can_write(&self, key: &[u8]) -> bool {
        self.write.iter().any(|granted| key.starts_with(granted))
    }
}

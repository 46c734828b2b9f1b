//! Transactions of a store: writes that are made together, on conditions.

use crate::entry::{LeaseId, Revision};
use crate::error::{Error, ErrorKind};

/// Writes that are made together, if all comparisons hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// The comparisons.
    pub compares: Vec<Compare>,
    /// The writes. A key is written once at most.
    pub writes: Vec<Write>,
}

/// A comparison of a [`Transaction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// There is no such key.
    Absent(Vec<u8>),
    /// The value of a key was written by this revision.
    Modified(Vec<u8>, Revision),
    /// A key has this value.
    Value(Vec<u8>, Vec<u8>),
}

/// A write of a [`Transaction`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key, and the lease with which it goes.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// The lease with which it goes.
        lease: Option<LeaseId>,
    },
    /// Deletes a key; a missing one is no error.
    Delete(Vec<u8>),
}

/// What became of a [`Transaction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// All is written, by this revision.
    Written(Revision),
    /// A comparison did not hold as of this revision, and nothing is written.
    Stale(Revision),
}

/// How much one transaction can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionLimits {
    /// The most comparisons, and the most writes. etcd's is 128 unless configured otherwise.
    pub operations: usize,
    /// The most bytes of keys and values. etcd's request has 1.5 MiB unless configured otherwise.
    pub bytes: usize,
}

impl Compare {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        match self {
            Compare::Absent(key) | Compare::Modified(key, _) | Compare::Value(key, _) => key,
        }
    }
}

impl Write {
    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        match self {
            Write::Put { key, .. } | Write::Delete(key) => key,
        }
    }

    /// Returns the bytes of key and value.
    pub fn size(&self) -> usize {
        match self {
            Write::Put { key, value, .. } => key.len() + value.len(),
            Write::Delete(key) => key.len(),
        }
    }
}

impl Transaction {
    /// Checks that a store with these limits can commit the transaction.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if it is larger, or writes one key twice.
    pub fn check(&self, limits: TransactionLimits) -> Result<(), Error> {
        let operations = self.compares.len().max(self.writes.len());
        let compared = self.compares.iter().map(|it| match it {
            Compare::Value(key, value) => key.len() + value.len(),
            other => other.key().len(),
        });
        let bytes = compared.chain(self.writes.iter().map(Write::size)).sum::<usize>();
        if operations > limits.operations || bytes > limits.bytes {
            let message = format!(
                "a transaction has {operations} operations and {bytes} bytes; the store takes {} \
                 and {}: split it",
                limits.operations, limits.bytes
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut keys: Vec<&[u8]> = self.writes.iter().map(Write::key).collect();
        keys.sort_unstable();
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("{}: written twice in one transaction", twice[0].escape_ascii());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        Ok(())
    }
}

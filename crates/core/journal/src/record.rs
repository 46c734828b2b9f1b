//! Records in redb: one table of bytes to bytes. The first byte of a key is its keyspace.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redb::{ReadableTable, TableDefinition};
use trueup_reconcile::Claim;

use crate::Error;
use crate::error::from_redb;

/// The table of all records.
pub(crate) const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// The longest name or key, and the longest namespace, boot and source of a ledger, in bytes.
pub(crate) const MAX_KEY: usize = Claim::MAX_KEY;
/// The longest value, in bytes.
pub(crate) const MAX_VALUE: usize = Claim::MAX_VALUE;

/// The first byte of a record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Keyspace {
    /// The last number used: see [`Transaction::next`].
    Sequence = b's',
    /// From an operation's name to its record.
    Operation = b'o',
    /// From an idempotency key to its operation, or to its outcome.
    Key = b'k',
    /// From a spent nonce to its expiry.
    Nonce = b'n',
    /// From expiry and nonce to nothing.
    Expiry = b'x',
    /// The latest time seen: see [`Nonces::note_time`](crate::Nonces::note_time).
    LatestTime = b'z',
    /// From an object to its backoff.
    Backoff = b'b',
    /// From source, scope and key of an owned object to the value last applied.
    Owned = b'l',
    /// From source, scope and key of an open intent to the intended claim.
    Intent = b'i',
}

impl Keyspace {
    /// Returns the key of a record in this keyspace.
    pub(crate) fn key(self, rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + rest.len());
        key.push(self as u8);
        key.extend_from_slice(rest);
        key
    }
}

/// A key with its new value; `None` removes it.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// A write in progress. All its changes become durable together.
pub(crate) struct Transaction<'t> {
    table: redb::Table<'t, &'static [u8], &'static [u8]>,
    sequence: u64,
    changes: u64,
    /// The changes in order, if they must be repeated in another database.
    recorded: Option<Vec<Change>>,
}

/// The result of a write.
pub(crate) struct WriteSummary {
    /// The commit's number.
    pub(crate) number: u64,
    /// The number of records put or removed.
    pub(crate) changes: u64,
    /// The changes, if they had to be recorded.
    pub(crate) recorded: Vec<Change>,
}

impl<'t> Transaction<'t> {
    pub(crate) fn new(
        table: redb::Table<'t, &'static [u8], &'static [u8]>,
        record: bool,
    ) -> Result<Self, Error> {
        let sequence = last_sequence(&table)?;
        Ok(Transaction { table, sequence, changes: 0, recorded: record.then(Vec::new) })
    }

    /// Returns a number greater than all earlier ones.
    pub(crate) fn next(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        get(&self.table, key)
    }

    pub(crate) fn scan(&self, prefix: &[u8]) -> Result<Scan<'_>, Error> {
        scan(&self.table, prefix)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.changes += 1;
        if let Some(recorded) = &mut self.recorded {
            recorded.push((key.to_vec(), Some(value.to_vec())));
        }
        let put = self.table.insert(key, value).map(drop);
        put.map_err(|error| from_redb(error, "cannot write a record"))
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), Error> {
        self.changes += 1;
        if let Some(recorded) = &mut self.recorded {
            recorded.push((key.to_vec(), None));
        }
        let removed = self.table.remove(key).map(drop);
        removed.map_err(|error| from_redb(error, "cannot remove a record"))
    }

    /// Numbers the changes. `None` if there are none.
    pub(crate) fn finish(mut self) -> Result<Option<WriteSummary>, Error> {
        let changes = self.changes;
        if changes == 0 {
            return Ok(None);
        }
        let number = self.next();
        self.put(&Keyspace::Sequence.key(&[]), &number.to_be_bytes())?;
        Ok(Some(WriteSummary { number, changes, recorded: self.recorded.unwrap_or_default() }))
    }
}

/// Returns the last number used, which increases with every commit.
pub(crate) fn last_sequence(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
) -> Result<u64, Error> {
    match get(table, &Keyspace::Sequence.key(&[]))? {
        Some(value) => Decoder(&value).u64(),
        None => Ok(0),
    }
}

pub(crate) fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let value = table.get(key).map_err(|error| from_redb(error, "cannot read a record"))?;
    Ok(value.map(|value| value.value().to_vec()))
}

/// A key without the requested prefix, and its value.
pub(crate) type Record = (Vec<u8>, Vec<u8>);
pub(crate) type Scan<'a> = Box<dyn Iterator<Item = Result<Record, Error>> + 'a>;

/// Returns all records whose key begins with `prefix`, ordered by key.
pub(crate) fn scan<'a>(
    table: &'a impl ReadableTable<&'static [u8], &'static [u8]>,
    prefix: &[u8],
) -> Result<Scan<'a>, Error> {
    const DURING: &str = "cannot read the records";
    let range = table.range(prefix..).map_err(|error| from_redb(error, DURING))?;
    let wanted = prefix.to_vec();
    Ok(Box::new(range.map_while(move |entry| match entry {
        Ok((key, value)) => {
            let rest = key.value().strip_prefix(wanted.as_slice())?;
            Some(Ok((rest.to_vec(), value.value().to_vec())))
        }
        Err(error) => Some(Err(from_redb(error, DURING))),
    })))
}

/// Encodes fields one after the other.
#[derive(Debug, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// Adds the length and the bytes. The caller has refused a length beyond `u32`.
    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self.0.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.0.extend_from_slice(value);
        self
    }
}

/// Decodes fields one after the other.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| Error::unreadable("a record is shorter than its fields"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?.iter().fold(0, |_, byte| *byte))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let len = self.take(4)?.iter().fold(0, |len, byte| (len << 8) | usize::from(*byte));
        self.take(len)
    }

    pub(crate) fn string(&mut self) -> Result<String, Error> {
        text(self.bytes()?)
    }

    /// Refuses a record with more bytes than its fields have.
    pub(crate) fn end(&self) -> Result<(), Error> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Error::unreadable("a record is longer than its fields")),
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::unreadable("a name is not UTF-8"))
}

/// Refuses bytes longer than `max`. Accepts empty bytes, because a key may be empty.
pub(crate) fn check_len(what: &str, bytes: &[u8], max: usize) -> Result<(), Error> {
    if bytes.len() <= max {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} has {} bytes, more than {max}", bytes.len())))
}

/// Returns the milliseconds since 1970, UTC; 0 for an earlier time.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time `millis` milliseconds after 1970, UTC.
pub(crate) fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

//! How records lie in redb: one table of bytes to bytes, its keys told apart by their first byte. Not what they mean.

use redb::{ReadableTable, TableDefinition};

use crate::Error;
use crate::error::from_redb;

/// All records.
pub(crate) const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// The longest name or key, and the longest namespace, boot and source of a ledger.
pub(crate) const MAX_KEY: usize = 65_536;
/// The longest value.
pub(crate) const MAX_VALUE: usize = 16 * 1024 * 1024;

/// The first byte of a record's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Space {
    /// The number used last; see [`Tx::next`].
    Sequence = b's',
    /// Operation by name.
    Operation = b'o',
    /// Number of the beginning to the name of an operation in flight.
    InFlight = b'f',
    /// Number of the end to the time and the name of an operation that ended.
    Ended = b'e',
    /// Idempotency key.
    Key = b'k',
    /// Number of the success to its time and key.
    Succeeded = b'u',
    /// What is owned: source, scope and key to what was last applied.
    Owned = b'l',
    /// Open intents: source, scope and key to what is intended.
    Intent = b'i',
}

impl Space {
    /// The key of a record of this space.
    pub(crate) fn key(self, rest: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(1 + rest.len());
        key.push(self as u8);
        key.extend_from_slice(rest);
        key
    }

    /// The key of a record that is found by a number.
    pub(crate) fn numbered(self, number: u64) -> Vec<u8> {
        self.key(&number.to_be_bytes())
    }
}

/// What is put at a key, or that it is removed.
pub(crate) type Change = (Vec<u8>, Option<Vec<u8>>);

/// A write under way: all that is done in it becomes durable together.
pub(crate) struct Tx<'t> {
    table: redb::Table<'t, &'static [u8], &'static [u8]>,
    sequence: u64,
    changes: u64,
    /// What was done, in order, if that is to be done elsewhere again.
    kept: Option<Vec<Change>>,
}

/// What a write did.
pub(crate) struct Done {
    /// The number of the commit.
    pub(crate) number: u64,
    /// How many records were put or removed.
    pub(crate) changes: u64,
    /// Which, if they were to be kept.
    pub(crate) kept: Vec<Change>,
}

impl<'t> Tx<'t> {
    pub(crate) fn new(
        table: redb::Table<'t, &'static [u8], &'static [u8]>,
        keep: bool,
    ) -> Result<Self, Error> {
        let sequence = sequence(&table)?;
        Ok(Tx {
            table,
            sequence,
            changes: 0,
            kept: keep.then(Vec::new),
        })
    }

    /// A number that is greater than all before.
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
        if let Some(kept) = &mut self.kept {
            kept.push((key.to_vec(), Some(value.to_vec())));
        }
        let put = self.table.insert(key, value).map(drop);
        put.map_err(|error| from_redb(error, "cannot write a record"))
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), Error> {
        self.changes += 1;
        if let Some(kept) = &mut self.kept {
            kept.push((key.to_vec(), None));
        }
        let removed = self.table.remove(key).map(drop);
        removed.map_err(|error| from_redb(error, "cannot remove a record"))
    }

    /// Numbers what was done. `None` if nothing was.
    pub(crate) fn finish(mut self) -> Result<Option<Done>, Error> {
        let changes = self.changes;
        if changes == 0 {
            return Ok(None);
        }
        let number = self.next();
        self.put(&Space::Sequence.key(&[]), &number.to_be_bytes())?;
        Ok(Some(Done {
            number,
            changes,
            kept: self.kept.unwrap_or_default(),
        }))
    }
}

/// The number used last: it goes up with every commit.
pub(crate) fn sequence(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
) -> Result<u64, Error> {
    match get(table, &Space::Sequence.key(&[]))? {
        Some(value) => Fields(&value).u64(),
        None => Ok(0),
    }
}

pub(crate) fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let value = table
        .get(key)
        .map_err(|error| from_redb(error, "cannot read a record"))?;
    Ok(value.map(|value| value.value().to_vec()))
}

/// Key, without the prefix that was asked for, and value.
pub(crate) type Record = (Vec<u8>, Vec<u8>);
pub(crate) type Scan<'a> = Box<dyn Iterator<Item = Result<Record, Error>> + 'a>;

/// All records whose key begins with `prefix`, in the order of their keys.
pub(crate) fn scan<'a>(
    table: &'a impl ReadableTable<&'static [u8], &'static [u8]>,
    prefix: &[u8],
) -> Result<Scan<'a>, Error> {
    let broken = |error| from_redb(error, "cannot read the records");
    let prefix = prefix.to_vec();
    let range = table.range::<&[u8]>(prefix.as_slice()..).map_err(broken)?;
    let records = range
        .map(move |entry| {
            let (key, value) = entry.map_err(broken)?;
            Ok(key
                .value()
                .strip_prefix(prefix.as_slice())
                .map(|rest| (rest.to_vec(), value.value().to_vec())))
        })
        .map_while(Result::transpose);
    Ok(Box::new(records))
}

/// Puts fields one after the other.
#[derive(Debug, Default)]
pub(crate) struct Fill(pub(crate) Vec<u8>);

impl Fill {
    pub(crate) fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// With the length before. What is longer than `u32` can say was refused before.
    pub(crate) fn bytes(mut self, value: &[u8]) -> Self {
        self.0
            .extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.0.extend_from_slice(value);
        self
    }
}

/// Takes fields out again.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| Error::damaged("a record is shorter than its fields"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?.iter().fold(0, |_, byte| *byte))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        let bytes = self.take(8)?;
        Ok(bytes
            .iter()
            .fold(0, |value, byte| (value << 8) | u64::from(*byte)))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let len = self
            .take(4)?
            .iter()
            .fold(0, |len, byte| (len << 8) | usize::from(*byte));
        self.take(len)
    }

    pub(crate) fn string(&mut self) -> Result<String, Error> {
        text(self.bytes()?)
    }
}

pub(crate) fn text(bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::damaged("a name is not UTF-8"))
}

/// Refuses what is too long. Nothing that is empty is refused: a key may be.
pub(crate) fn check_len(what: &str, bytes: &[u8], max: usize) -> Result<(), Error> {
    if bytes.len() <= max {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} has {} bytes, more than {max}",
        bytes.len()
    )))
}

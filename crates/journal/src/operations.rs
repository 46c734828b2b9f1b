//! Operations: the record of an action that takes a while, from its start to its outcome.
//!
//! A crash leaves an operation in flight, and never records that it failed: only the system that it
//! acts on knows whether it took effect.

use std::sync::Arc;
use std::time::SystemTime;

use crate::database::ReadTable;
use crate::record::{
    Decoder, Encoder, Keyspace, MAX_KEY, MAX_VALUE, Transaction, check_len, get, scan, text,
};
use crate::retention::{Keep, millis, time};
use crate::store::Store;
use crate::{Error, Refusal};

/// The operations in a journal. These steps are possible:
///
/// | from | `begin` | `running` | `succeeded`, `failed` |
/// |---|---|---|---|
/// | not recorded | started | refused | refused |
/// | started, running | refused | running | ended |
/// | ended | started anew | refused | refused |
#[derive(Clone, Debug)]
pub struct Operations {
    store: Arc<Store>,
}

/// The latest record of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Its name, chosen by the caller.
    pub name: String,
    /// The description given when it began.
    pub what: Vec<u8>,
    /// Its state.
    pub state: OperationState,
    /// The time when it ended, in whole milliseconds; `None` while it is in flight.
    pub ended: Option<SystemTime>,
}

/// The state of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationState {
    /// It was begun.
    Started,
    /// Another system works on it, under this task id.
    Running(String),
    /// It took effect.
    Succeeded,
    /// It did not take effect, for this reason.
    Failed(String),
}

impl OperationState {
    /// True if it succeeded or failed.
    pub fn is_ended(&self) -> bool {
        matches!(self, OperationState::Succeeded | OperationState::Failed(_))
    }
}

impl Operations {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        Operations { store }
    }

    /// Records that the operation `name` begins, with `what` as its description. A name whose
    /// operation has ended can begin again: the latest counts.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`InFlight`](Refusal::InFlight);
    /// [`Invalid`](crate::ErrorKind::Invalid) if the name is longer than 65536 bytes or `what` than
    /// 16 MiB; as every write [`NotDurable`](crate::ErrorKind::NotDurable) and
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly).
    pub fn begin(&self, name: &str, what: &[u8]) -> Result<(), Error> {
        check_len("an operation's name", name.as_bytes(), MAX_KEY)?;
        check_len("an operation's description", what, MAX_VALUE)?;
        let (name, what) = (name.to_owned(), what.to_vec());
        self.store.write(move |transaction| {
            if let Some(before) = StoredOperation::load(transaction, &name)? {
                if !before.operation.state.is_ended() {
                    return Err(Error::refused(Refusal::InFlight, &name));
                }
                transaction.remove(&Keyspace::Ended.numbered(before.number))?;
            }
            let number = transaction.next();
            transaction.put(&Keyspace::InFlight.numbered(number), name.as_bytes())?;
            let operation = Operation {
                name,
                what,
                state: OperationState::Started,
                ended: None,
            };
            StoredOperation { number, operation }.save(transaction)
        })
    }

    /// Records that another system works on it as `task`. Of several task ids the latest counts.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NoOperation`](Refusal::NoOperation) or
    /// [`Ended`](Refusal::Ended); otherwise as [`begin`](Self::begin).
    pub fn running(&self, name: &str, task: &str) -> Result<(), Error> {
        check_len("a task id", task.as_bytes(), MAX_KEY)?;
        let (name, task) = (name.to_owned(), task.to_owned());
        self.store.write(move |transaction| {
            let mut stored = StoredOperation::in_flight(transaction, &name)?;
            stored.operation.state = OperationState::Running(task);
            stored.save(transaction)
        })
    }

    /// Records that it took effect, at the time `now`.
    ///
    /// # Errors
    ///
    /// As [`running`](Self::running).
    pub fn succeeded(&self, name: &str, now: SystemTime) -> Result<(), Error> {
        self.end(name, OperationState::Succeeded, now)
    }

    /// Records that it did not, and `why`, at the time `now`.
    ///
    /// # Errors
    ///
    /// As [`running`](Self::running).
    pub fn failed(&self, name: &str, why: &str, now: SystemTime) -> Result<(), Error> {
        check_len("a reason", why.as_bytes(), MAX_VALUE)?;
        self.end(name, OperationState::Failed(why.to_owned()), now)
    }

    fn end(&self, name: &str, state: OperationState, now: SystemTime) -> Result<(), Error> {
        let name = name.to_owned();
        self.store.write(move |transaction| {
            let stored = StoredOperation::in_flight(transaction, &name)?;
            stored.end(transaction, state, now)
        })
    }

    /// Returns the record of `name`, with the time at which it ended.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<Operation>, Error> {
        self.store.read(|records| {
            let value = get(records, &Keyspace::Operation.key(name.as_bytes()))?;
            value.map(|value| read(records, name, &value)).transpose()
        })
    }

    /// Returns the operations that have not ended, in the order in which they began.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn in_flight(&self) -> Result<Vec<Operation>, Error> {
        self.store.read(|records| {
            let mut found = Vec::new();
            for entry in scan(records, &Keyspace::InFlight.key(&[]))? {
                let name = text(&entry?.1)?;
                let value = get(records, &Keyspace::Operation.key(name.as_bytes()))?
                    .ok_or_else(|| Error::damaged("an operation in flight is not there"))?;
                found.push(StoredOperation::parse(&name, &value)?.operation);
            }
            Ok(found)
        })
    }

    /// Forgets operations that have ended, except those to `keep`. Operations in flight stay.
    /// Returns the number of operations forgotten.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget(&self, keep: Keep) -> Result<u64, Error> {
        self.store.write(move |transaction| {
            let forgotten = keep.prune(transaction, Keyspace::Ended)?;
            for name in &forgotten {
                transaction.remove(&Keyspace::Operation.key(name))?;
            }
            Ok(forgotten.len() as u64)
        })
    }
}

/// Reads the record of an operation, and the time of its end.
pub(crate) fn read(records: &ReadTable, name: &str, value: &[u8]) -> Result<Operation, Error> {
    let StoredOperation {
        number,
        mut operation,
    } = StoredOperation::parse(name, value)?;
    if operation.state.is_ended() {
        let ended = get(records, &Keyspace::Ended.numbered(number))?
            .ok_or_else(|| Error::damaged("an operation that ended is not listed as such"))?;
        operation.ended = Some(time(Decoder(&ended).u64()?));
    }
    Ok(operation)
}

/// A record of an operation.
pub(crate) struct StoredOperation {
    /// The number of its entry in the index of operations in flight, or of those that ended.
    number: u64,
    operation: Operation,
}

impl StoredOperation {
    fn load(transaction: &Transaction<'_>, name: &str) -> Result<Option<StoredOperation>, Error> {
        let value = transaction.get(&Keyspace::Operation.key(name.as_bytes()))?;
        value
            .map(|value| StoredOperation::parse(name, &value))
            .transpose()
    }

    pub(crate) fn in_flight(
        transaction: &Transaction<'_>,
        name: &str,
    ) -> Result<StoredOperation, Error> {
        match StoredOperation::load(transaction, name)? {
            None => Err(Error::refused(Refusal::NoOperation, name)),
            Some(stored) if stored.operation.state.is_ended() => {
                Err(Error::refused(Refusal::Ended, name))
            }
            Some(stored) => Ok(stored),
        }
    }

    pub(crate) fn end(
        mut self,
        transaction: &mut Transaction<'_>,
        state: OperationState,
        now: SystemTime,
    ) -> Result<(), Error> {
        transaction.remove(&Keyspace::InFlight.numbered(self.number))?;
        self.number = transaction.next();
        self.operation.state = state;
        let name = self.operation.name.as_bytes();
        let ended = Encoder::default().u64(millis(now)).bytes(name);
        transaction.put(&Keyspace::Ended.numbered(self.number), &ended.0)?;
        self.save(transaction)
    }

    fn save(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let (state, said) = match &self.operation.state {
            OperationState::Started => (0, ""),
            OperationState::Running(task) => (1, task.as_str()),
            OperationState::Succeeded => (2, ""),
            OperationState::Failed(why) => (3, why.as_str()),
        };
        let value = Encoder::default()
            .u64(self.number)
            .u8(state)
            .bytes(said.as_bytes())
            .bytes(&self.operation.what);
        transaction.put(
            &Keyspace::Operation.key(self.operation.name.as_bytes()),
            &value.0,
        )
    }

    /// Parses a record. The time of the end is not in it, but in the index of ended operations.
    fn parse(name: &str, value: &[u8]) -> Result<StoredOperation, Error> {
        let mut fields = Decoder(value);
        let number = fields.u64()?;
        let state = fields.u8()?;
        let said = fields.string()?;
        let what = fields.bytes()?.to_vec();
        let state = match state {
            0 => OperationState::Started,
            1 => OperationState::Running(said),
            2 => OperationState::Succeeded,
            3 => OperationState::Failed(said),
            _ => return Err(Error::damaged("an operation is in no known state")),
        };
        let name = name.to_owned();
        let operation = Operation {
            name,
            what,
            state,
            ended: None,
        };
        Ok(StoredOperation { number, operation })
    }
}

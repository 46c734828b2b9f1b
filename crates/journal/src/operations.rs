//! Operations: what was begun, what runs where, what came of it. Not the operations themselves.
//!
//! A crash leaves an operation in flight, and never says that it failed: whether it took effect, only the world can tell.

use std::sync::Arc;
use std::time::SystemTime;

use crate::journal::Inner;
use crate::opening::View;
use crate::record::{Fields, Fill, MAX_KEY, MAX_VALUE, Space, Tx, check_len, get, scan, text};
use crate::retention::{Keep, millis, time};
use crate::{Error, Refusal};

/// The journal's face for operations: see the methods for the steps that are possible.
///
/// | from | `begin` | `running` | `succeeded`, `failed` |
/// |---|---|---|---|
/// | not there | started | refused | refused |
/// | started, running | refused | running | ended |
/// | ended | started anew | refused | refused |
#[derive(Clone, Debug)]
pub struct Operations {
    inner: Arc<Inner>,
}

/// An operation, as recorded last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operation {
    /// Its name, chosen by the caller.
    pub name: String,
    /// What was said of it at its beginning.
    pub what: Vec<u8>,
    /// How far it is.
    pub state: OperationState,
    /// When it ended, in milliseconds; `None` while it is in flight.
    pub ended: Option<SystemTime>,
}

/// How far an operation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationState {
    /// It was begun.
    Started,
    /// Someone outside works on it, under this task id.
    Running(String),
    /// It took effect.
    Succeeded,
    /// It did not, for this reason.
    Failed(String),
}

impl OperationState {
    /// It has ended, either way.
    pub fn is_ended(&self) -> bool {
        matches!(self, OperationState::Succeeded | OperationState::Failed(_))
    }
}

impl Operations {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Operations { inner }
    }

    /// Records that `name` begins, and `what` it is. One that has ended begins anew: the latest counts.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`InFlight`](Refusal::InFlight); [`Invalid`](crate::ErrorKind::Invalid) if
    /// the name is longer than 65536 bytes or `what` than 16 MiB; as every write [`NotDurable`](crate::ErrorKind::NotDurable)
    /// and [`ReadOnly`](crate::ErrorKind::ReadOnly).
    pub fn begin(&self, name: &str, what: &[u8]) -> Result<(), Error> {
        check_len("an operation's name", name.as_bytes(), MAX_KEY)?;
        check_len("an operation's description", what, MAX_VALUE)?;
        let (name, what) = (name.to_owned(), what.to_vec());
        self.inner.commits.write(move |tx| {
            if let Some(before) = Stored::load(tx, &name)? {
                if !before.operation.state.is_ended() {
                    return Err(Error::refused(Refusal::InFlight, &name));
                }
                tx.remove(&Space::Ended.numbered(before.number))?;
            }
            let number = tx.next();
            tx.put(&Space::InFlight.numbered(number), name.as_bytes())?;
            let operation = Operation {
                name,
                what,
                state: OperationState::Started,
                ended: None,
            };
            Stored { number, operation }.save(tx)
        })
    }

    /// Records that someone outside works on it as `task`. Of several task ids the latest counts.
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::ErrorKind::Refused) with [`NoOperation`](Refusal::NoOperation) or [`Ended`](Refusal::Ended);
    /// otherwise as [`begin`](Self::begin).
    pub fn running(&self, name: &str, task: &str) -> Result<(), Error> {
        check_len("a task id", task.as_bytes(), MAX_KEY)?;
        let (name, task) = (name.to_owned(), task.to_owned());
        self.inner.commits.write(move |tx| {
            let mut stored = Stored::in_flight(tx, &name)?;
            stored.operation.state = OperationState::Running(task);
            stored.save(tx)
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
        self.inner.commits.write(move |tx| {
            let stored = Stored::in_flight(tx, &name)?;
            stored.end(tx, state, now)
        })
    }

    /// Returns what is recorded of `name`, with the time at which it ended.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn find(&self, name: &str) -> Result<Option<Operation>, Error> {
        self.inner.commits.read(|view| {
            let value = get(view, &Space::Operation.key(name.as_bytes()))?;
            value.map(|value| read(view, name, &value)).transpose()
        })
    }

    /// All that were begun and have not ended, in the order in which they were begun.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn in_flight(&self) -> Result<Vec<Operation>, Error> {
        self.inner.commits.read(|view| {
            let mut found = Vec::new();
            for entry in scan(view, &Space::InFlight.key(&[]))? {
                let name = text(&entry?.1)?;
                let value = get(view, &Space::Operation.key(name.as_bytes()))?
                    .ok_or_else(|| Error::damaged("an operation in flight is not there"))?;
                found.push(Stored::parse(&name, &value)?.operation);
            }
            Ok(found)
        })
    }

    /// Forgets operations that have ended, but for those to `keep`. Those in flight stay. Returns how many went.
    ///
    /// # Errors
    ///
    /// As every write.
    pub fn forget(&self, keep: Keep) -> Result<u64, Error> {
        self.inner.commits.write(move |tx| {
            let forgotten = keep.forget(tx, Space::Ended)?;
            for name in &forgotten {
                tx.remove(&Space::Operation.key(name))?;
            }
            Ok(forgotten.len() as u64)
        })
    }
}

/// Reads the record of an operation, and the time of its end.
pub(crate) fn read(view: &View, name: &str, value: &[u8]) -> Result<Operation, Error> {
    let Stored {
        number,
        mut operation,
    } = Stored::parse(name, value)?;
    if operation.state.is_ended() {
        let ended = get(view, &Space::Ended.numbered(number))?
            .ok_or_else(|| Error::damaged("an operation that ended is not listed as such"))?;
        operation.ended = Some(time(Fields(&ended).u64()?));
    }
    Ok(operation)
}

/// A record of an operation.
pub(crate) struct Stored {
    /// Of its entry among those in flight, or among those that ended.
    number: u64,
    operation: Operation,
}

impl Stored {
    fn load(tx: &Tx<'_>, name: &str) -> Result<Option<Stored>, Error> {
        let value = tx.get(&Space::Operation.key(name.as_bytes()))?;
        value.map(|value| Stored::parse(name, &value)).transpose()
    }

    pub(crate) fn in_flight(tx: &Tx<'_>, name: &str) -> Result<Stored, Error> {
        match Stored::load(tx, name)? {
            None => Err(Error::refused(Refusal::NoOperation, name)),
            Some(stored) if stored.operation.state.is_ended() => {
                Err(Error::refused(Refusal::Ended, name))
            }
            Some(stored) => Ok(stored),
        }
    }

    pub(crate) fn end(
        mut self,
        tx: &mut Tx<'_>,
        state: OperationState,
        now: SystemTime,
    ) -> Result<(), Error> {
        tx.remove(&Space::InFlight.numbered(self.number))?;
        self.number = tx.next();
        self.operation.state = state;
        let name = self.operation.name.as_bytes();
        let ended = Fill::default().u64(millis(now)).bytes(name);
        tx.put(&Space::Ended.numbered(self.number), &ended.0)?;
        self.save(tx)
    }

    fn save(&self, tx: &mut Tx<'_>) -> Result<(), Error> {
        let (state, said) = match &self.operation.state {
            OperationState::Started => (0, ""),
            OperationState::Running(task) => (1, task.as_str()),
            OperationState::Succeeded => (2, ""),
            OperationState::Failed(why) => (3, why.as_str()),
        };
        let value = Fill::default()
            .u64(self.number)
            .u8(state)
            .bytes(said.as_bytes())
            .bytes(&self.operation.what);
        tx.put(
            &Space::Operation.key(self.operation.name.as_bytes()),
            &value.0,
        )
    }

    /// Without the time of its end, which is beside its number.
    fn parse(name: &str, value: &[u8]) -> Result<Stored, Error> {
        let mut fields = Fields(value);
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
        Ok(Stored { number, operation })
    }
}

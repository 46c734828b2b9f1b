//! Recovery: reads the operations that an earlier process left in flight, before any new one
//! begins.

use trueup_journal::Refusal;

use super::flight::{Flight, Phase};
use super::shared::Shared;
use super::trace;
use crate::record::Record;
use crate::{Backend, Error};

impl<B: Backend> Shared<B> {
    /// Reads the operations in flight, once. The engine asks about each as about its own ones. An
    /// operation with an unreadable record is in doubt, and does not affect the others.
    pub(super) fn recover(&self) -> Result<(), Error> {
        // Hold the lock, so that no operation begins before all of them are known.
        let mut state = self.state();
        if state.is_ended {
            return Err(Error::ended());
        }
        if state.is_recovered {
            return Ok(());
        }
        let (operations, unreadable) = self.journal.in_flight().map_err(Error::journal)?;
        for (name, error) in unreadable {
            let Some(key) = self.key(&name) else {
                continue;
            };
            let why = format!("its record is damaged: {error}");
            let flight = Flight::new(None, Phase::InDoubt { why });
            state.flights.insert(key.to_owned(), flight);
        }
        for operation in operations {
            let name = operation.name.clone();
            let Some(key) = self.key(&name) else {
                continue;
            };
            let flight = match Record::decode(&operation.what).and_then(|record| record.of(key)) {
                Err(error) => {
                    let why = error.to_string();
                    Flight::new(None, Phase::InDoubt { why })
                }
                Ok(record) => {
                    let phase = Phase::of_record(operation, record.started());
                    Flight::new(Some(record), phase)
                }
            };
            state.flights.insert(key.to_owned(), flight);
        }
        for (key, flight) in &mut state.flights {
            if matches!(flight.phase, Phase::InDoubt { .. }) {
                continue;
            }
            match self.journal.resume(&self.name(key)) {
                Ok(execution) => flight.execution = Some(execution),
                Err(error) if error.refusal() == Some(Refusal::InProgress) => {
                    flight.phase = Phase::Elsewhere;
                }
                Err(error) => return Err(Error::journal(error)),
            }
        }
        trace::recovered(state.flights.len());
        state.is_recovered = true;
        Ok(())
    }
}

impl Error {
    pub(super) fn ended() -> Error {
        let message = "the engine has ended: take a handle of the one that follows it";
        Error::new(crate::ErrorKind::Ended, message)
    }
}

impl Record {
    /// Refuses a record whose object does not match its name.
    fn of(self, key: &str) -> Result<Record, Error> {
        if self.action.key == key {
            Ok(self)
        } else {
            let message = format!("its record is about {}", self.action.key);
            Err(Error::new(crate::ErrorKind::Malformed, message))
        }
    }
}

//! The offers of a host to schedulers: they go with its lease.

use super::{ATTEMPTS, Session, State, lock};
use crate::world::{fence, write};
use crate::{Committed, Error, ErrorKind, Transaction};

impl Session {
    pub(crate) fn set_offer(&self, scheduler: &str, is_offered: bool) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        match is_offered {
            true => state.offers.insert(scheduler.to_owned()),
            false => state.offers.remove(scheduler),
        };
        let result = self.write_offer(&state, scheduler);
        if result.as_ref().is_err_and(Error::is_retryable) {
            self.set_behind();
        }
        result
    }

    /// Writes all offers, and withdraws those of an earlier session if all is declared.
    pub(super) fn sync_offers(&self, state: &State) -> Result<(), Error> {
        let world = &self.0.world;
        let mut schedulers = state.offers.clone();
        if state.is_declared {
            let prefix = world.keys.below_host(world.host(), "offers");
            for entry in world.store.read(&prefix, None)?.entries {
                if let Ok((_, _, Some(scheduler))) = world.keys.parse_host(&entry.key) {
                    schedulers.insert(scheduler);
                }
            }
        }
        schedulers.iter().try_for_each(|it| self.write_offer(state, it))
    }

    fn write_offer(&self, state: &State, scheduler: &str) -> Result<(), Error> {
        let world = &self.0.world;
        let key = world.keys.named_of_host(world.host(), "offers", scheduler);
        for _ in 0..ATTEMPTS {
            if let Some(ended) = lock(&self.0.status).ended.clone() {
                return Err(ended);
            }
            let entry = world.entry(&key)?;
            let lease = self.lease();
            let value = state.offers.contains(scheduler).then(Vec::new);
            let is_same = match &entry {
                Some(entry) => value.is_some() && entry.lease == Some(lease),
                None => value.is_none(),
            };
            if is_same {
                return Ok(());
            }
            let transaction = Transaction {
                compares: vec![self.fence(), fence(&key, entry.as_ref())],
                writes: vec![write(&key, value, Some(lease))],
            };
            match world.store.commit(&transaction) {
                Ok(Committed::Written(_)) => return Ok(()),
                Ok(Committed::Stale(_)) if self.stale()?.kind() == ErrorKind::Conflict => {}
                Ok(Committed::Stale(_)) => self.acquire_again()?,
                Err(error) => match error.kind() {
                    ErrorKind::Indeterminate => {}
                    ErrorKind::LeaseEnded => self.acquire_again()?,
                    _ => return Err(error),
                },
            }
        }
        Err(self.changes_all_the_time())
    }
}

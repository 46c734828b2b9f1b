//! Writes exports in as few transactions as possible. The session and the entries that were read
//! fence each transaction. So no other owner's entry is overwritten, and no entry is written twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::{ATTEMPTS, Exported, Session, State, lock};
use crate::resources::is_few;
use crate::world::{fence, write};
use crate::{Compare, Entry, Error, ErrorKind, Hosts, ResourceKey, Revision, Write};

/// One pending write.
struct Step {
    key: ResourceKey,
    compare: Compare,
    write: Write,
}

impl Session {
    /// Writes all exports. If all are declared, removes others and marks the host as complete.
    pub(super) fn sync_all(&self, state: &mut State) -> Result<Exported, Error> {
        self.0.is_behind.store(false, Ordering::SeqCst);
        let result = self.sync_and_mark(state);
        self.note_behind(&result);
        result
    }

    fn sync_and_mark(&self, state: &mut State) -> Result<Exported, Error> {
        self.sync_offers(state)?;
        let mut keys: BTreeSet<ResourceKey> = state.exports.keys().cloned().collect();
        if state.is_declared {
            let own = self.0.world.exports()?;
            let leased = own.into_iter().filter(|(_, it)| it.lease.is_some());
            keys.extend(leased.map(|(key, _)| key));
        }
        let exported = self.sync(state, keys, false)?;
        if state.is_declared && exported.outcomes.values().all(Result::is_ok) {
            self.mark_complete()?;
        }
        Ok(exported)
    }

    /// Marks the host's exports as complete, once for each lease. From then on they are the host's
    /// declaration. The mark's value is the lease. So if a reader sees two marks as one change, it
    /// still sees a different value.
    pub(super) fn mark_complete(&self) -> Result<(), Error> {
        let world = &self.0.world;
        let key = world.keys.of_host(world.host(), "generation");
        for _ in 0..ATTEMPTS {
            let entry = world.entry(&key)?;
            let lease = self.lease();
            if entry.as_ref().is_some_and(|it| it.lease == Some(lease)) {
                return Ok(());
            }
            let mark = lease.0.to_string().into_bytes();
            let compares = [self.fence(), fence(&key, entry.as_ref())];
            let writes = [write(&key, Some(mark), Some(lease))];
            if world.store.commit(&compares, &writes)?.is_some() {
                return Ok(());
            }
        }
        Err(self.changes_all_the_time())
    }

    /// Records that the store may lack an export, after a temporary error.
    pub(super) fn note_behind(&self, result: &Result<Exported, Error>) {
        let is_behind = match result {
            Ok(exported) => {
                let mut errors = exported.outcomes.values().filter_map(|it| it.as_ref().err());
                errors.any(Error::is_retryable)
            }
            Err(error) => error.is_retryable(),
        };
        if is_behind {
            self.set_behind();
        }
    }

    pub(super) fn set_behind(&self) {
        self.0.is_behind.store(true, Ordering::SeqCst);
    }

    /// Brings the store into agreement with the session's exports for these keys.
    pub(super) fn sync(
        &self,
        state: &mut State,
        mut keys: BTreeSet<ResourceKey>,
        is_atomic: bool,
    ) -> Result<Exported, Error> {
        if let Some(ended) = lock(&self.0.status).ended.clone() {
            return Err(ended);
        }
        let mut exported = Exported::default();
        let asked = keys.clone();
        for _ in 0..ATTEMPTS {
            let entries = self.stored(state, &keys)?;
            let steps = self.steps(state, &entries, &keys, &mut exported);
            match self.write(state, &steps, is_atomic, &mut exported) {
                Ok(()) => {
                    exported.outcomes.retain(|key, _| asked.contains(key));
                    return Ok(exported);
                }
                Err(error) => match error.kind() {
                    // An export that was already written is found unchanged, and stays "changed".
                    ErrorKind::Conflict | ErrorKind::Indeterminate => {}
                    ErrorKind::LeaseEnded => {
                        self.acquire_again()?;
                        keys.extend(state.exports.keys().cloned());
                    }
                    _ => return Err(error),
                },
            }
        }
        Err(self.changes_all_the_time())
    }

    /// Reads the store's entries for these keys, or for all exports of the host if the keys are
    /// many.
    fn stored(&self, state: &mut State, keys: &BTreeSet<ResourceKey>) -> Result<Vec<Entry>, Error> {
        let world = &self.0.world;
        if is_few(keys.len(), state.exports.len()) {
            return keys.iter().filter_map(|key| world.own_entry(key).transpose()).collect();
        }
        let named = keys.iter().filter_map(|key| match &key.recipient {
            Hosts::One(host) => Some(host.clone()),
            Hosts::Any => None,
        });
        let (recipients, entries) = world.own_entries(&named.collect())?;
        state.recipients = recipients;
        Ok(entries)
    }

    /// Returns the necessary writes. Sets the outcome of all other keys to "unchanged".
    fn steps(
        &self,
        state: &State,
        entries: &[Entry],
        keys: &BTreeSet<ResourceKey>,
        exported: &mut Exported,
    ) -> Vec<Step> {
        let stored: BTreeMap<&[u8], &Entry> = entries.iter().map(|it| (&*it.key, it)).collect();
        let lease = self.lease();
        let mut steps = Vec::new();
        for key in keys {
            let encoded = self.0.world.keys.resource(key);
            let entry = stored.get(&*encoded).copied();
            let wanted = state.exports.get(key);
            let wanted_lease = wanted.filter(|(_, persist)| !persist).map(|_| lease);
            let is_same = match (wanted, entry) {
                (Some((data, _)), Some(entry)) => {
                    entry.value == *data && entry.lease == wanted_lease
                }
                (None, None) => true,
                _ => false,
            };
            if is_same {
                let done = exported.outcomes.get(key).is_some_and(Result::is_ok);
                if !done {
                    exported.outcomes.insert(key.clone(), Ok(false));
                }
                continue;
            }
            let data = wanted.map(|(data, _)| data.clone());
            steps.push(Step {
                key: key.clone(),
                compare: fence(&encoded, entry),
                write: write(&encoded, data, wanted_lease),
            });
        }
        steps
    }

    /// Writes the steps in as few transactions as possible.
    fn write(
        &self,
        state: &mut State,
        steps: &[Step],
        is_atomic: bool,
        exported: &mut Exported,
    ) -> Result<(), Error> {
        let mut rest = steps;
        // The number of steps still to write one by one.
        let mut alone = 0_usize;
        while !rest.is_empty() {
            let count = if alone > 0 { 1 } else { self.fitting(rest) };
            let (batch, behind) = rest.split_at(count);
            let mut note = |steps: &[Step], outcome: Result<bool, Error>| {
                let all = steps.iter().map(|it| (it.key.clone(), outcome.clone()));
                exported.outcomes.extend(all);
            };
            match self.commit(state, batch) {
                Ok(revision) => {
                    note(batch, Ok(true));
                    exported.transactions += 1;
                    exported.revision = Some(revision);
                }
                // A refused export does not affect the others, unless the batch must be written as
                // a whole.
                Err(error) if !error.is_retryable() && !is_atomic && count > 1 => {
                    alone = count;
                    continue;
                }
                Err(error) if !error.is_retryable() => note(batch, Err(error)),
                Err(error)
                    if error.kind() == ErrorKind::Unavailable && exported.transactions > 0 =>
                {
                    note(rest, Err(error));
                    return Ok(());
                }
                Err(error) => {
                    if error.kind() == ErrorKind::Indeterminate {
                        // If the next read finds it as desired, this write did it.
                        note(batch, Ok(true));
                    }
                    return Err(error);
                }
            }
            rest = behind;
            alone = alone.saturating_sub(1);
        }
        Ok(())
    }

    /// Returns how many of the steps fit in one transaction, at least one.
    fn fitting(&self, steps: &[Step]) -> usize {
        let limits = self.0.world.store.limits();
        let mut bytes = 4096;
        let fits = steps.iter().take_while(|step| {
            bytes += step.write.size() + step.compare.key().len() + 1100;
            bytes <= limits.bytes
        });
        // A new recipient needs a further write, and the fence a comparison.
        let most = (limits.count.saturating_sub(1) / 2).max(1);
        fits.take(most).count().max(1)
    }

    fn commit(&self, state: &mut State, batch: &[Step]) -> Result<Revision, Error> {
        let world = &self.0.world;
        let (mut compares, mut writes) = (vec![self.fence()], Vec::new());
        let mut recipients = BTreeSet::new();
        for step in batch {
            compares.push(step.compare.clone());
            writes.push(step.write.clone());
            if let Hosts::One(host) = &step.key.recipient
                && !state.recipients.contains(host)
                && recipients.insert(host.clone())
            {
                let record = world.keys.recipient(world.host(), host);
                writes.push(write(&record, Some(Vec::new()), None));
            }
        }
        match world.store.commit(&compares, &writes)? {
            Some(revision) => {
                state.recipients.extend(recipients);
                Ok(revision)
            }
            None => Err(self.stale()?),
        }
    }

    /// Returns why a transaction was stale: the session has lost its key, or another writer was
    /// first.
    pub(super) fn stale(&self) -> Result<Error, Error> {
        let (_, value) = lock(&self.0.current).clone();
        let entry = self.0.world.entry(&self.key())?;
        Ok(if entry.is_some_and(|it| it.value == value) {
            Error::new(ErrorKind::Conflict, "another writer was first")
        } else {
            Error::new(ErrorKind::LeaseEnded, "the session's lease has ended")
        })
    }

    pub(super) fn changes_all_the_time(&self) -> Error {
        let host = self.0.world.host();
        let message = format!("host {host}: its exports change all the time; try again");
        Error::new(ErrorKind::Conflict, message)
    }
}

//! A host's connection to the embedded store, with its access rights.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Clock, LIMITS, Shared};
use crate::{
    Access, Compare, Entry, Error, ErrorKind, LeaseId, Limits, Revision, Store, StoreEvent,
    StoreMember, StoreWatch, Write,
};

pub(super) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) access: Option<Access>,
}

impl Connection {
    fn check(&self, is_allowed: impl Fn(&Access) -> bool, what: &[u8]) -> Result<(), Error> {
        if self.access.as_ref().is_none_or(is_allowed) {
            return Ok(());
        }
        let message =
            format!("{}: the store's access control refuses it to this host", what.escape_ascii());
        Err(Error::new(ErrorKind::Denied, message))
    }

    fn check_read(&self, prefix: &[u8]) -> Result<(), Error> {
        self.check(|access| access.can_read(prefix), prefix)
    }
}

impl Store for Connection {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error> {
        self.check_read(prefix)?;
        self.shared.current()?.mvcc.read(prefix, at)
    }

    fn read_key(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        self.check_read(key)?;
        Ok(self.shared.current()?.mvcc.newest(key).cloned())
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error> {
        for compare in compares {
            self.check_read(compare.key())?;
        }
        for write in writes {
            self.check(|access| access.can_write(write.key()), write.key())?;
        }
        LIMITS.check_transaction(compares, writes)?;
        let mut state = self.shared.current()?;
        let Some(batch) = state.mvcc.prepare(compares, writes)? else {
            return Ok(None);
        };
        state.install(batch)?;
        self.shared.changed.notify_all();
        Ok(Some(state.mvcc.revision()))
    }

    fn limits(&self) -> Limits {
        LIMITS
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        self.check_read(prefix)?;
        let (shared, prefix) = (Arc::clone(&self.shared), prefix.to_vec());
        Ok(Box::new(EmbeddedWatch { shared, prefix, after, is_connected: false }))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        if ttl.is_zero() {
            let message = "a lease has no time to live; give at least a millisecond";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut state = self.shared.current()?;
        let (lease, batch) = state.mvcc.granted(ttl);
        state.install(batch)?;
        // A watch that sleeps until the next lease's end must recompute it.
        self.shared.changed.notify_all();
        Ok(lease)
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        self.shared.current()?.renew(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        let mut state = self.shared.current()?;
        for key in state.mvcc.keys_of(lease) {
            self.check(|access| access.can_write(key), key)?;
        }
        state.end_lease(lease)?;
        self.shared.changed.notify_all();
        Ok(())
    }

    fn members(&self) -> Result<Vec<StoreMember>, Error> {
        let state = self.shared.current()?;
        let size = match &state.durable {
            Some(durable) => durable.size(),
            None => Some(state.mvcc.size()),
        };
        let broken = state.broken.iter();
        Ok(vec![StoreMember {
            name: "embedded".into(),
            endpoints: Vec::new(),
            is_leader: Some(true),
            size,
            size_in_use: None,
            quota: None,
            faults: broken.map(Error::to_string).collect(),
        }])
    }
}

/// A watch on the log. A slow reader delays nothing.
struct EmbeddedWatch {
    shared: Arc<Shared>,
    prefix: Vec<u8>,
    after: Revision,
    is_connected: bool,
}

impl StoreWatch for EmbeddedWatch {
    fn next(&mut self, timeout: Duration) -> Result<Option<StoreEvent>, Error> {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.current()?;
        loop {
            let changes = state.mvcc.changes_after(&self.prefix, self.after)?;
            if !self.is_connected {
                self.is_connected = true;
                return Ok(Some(StoreEvent::Progress(self.after)));
            }
            if let Some((revision, changes)) = changes {
                self.after = revision;
                return Ok(Some(StoreEvent::Changes { revision, changes }));
            }
            if state.mvcc.revision() > self.after {
                self.after = state.mvcc.revision();
                return Ok(Some(StoreEvent::Progress(self.after)));
            }
            let now = Instant::now();
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Ok(None);
            }
            // Waits at most until the next lease ends, because no other call may come to end it.
            let lease = match state.clock {
                Clock::Monotonic(_) => state.mvcc.next_end(state.now()),
                Clock::Manual(_) => None,
            };
            let wait = lease.map_or(left, |lease| lease.min(left));
            let waited = self.shared.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.end_leases()? {
                self.shared.changed.notify_all();
            }
        }
    }
}

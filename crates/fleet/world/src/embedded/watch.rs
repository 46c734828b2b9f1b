//! A watch of the embedded store: it reads the log, so a slow reader holds up nothing.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Clock, Shared};
use crate::{Error, Revision, StoreEvent, StoreWatch};

pub(crate) struct EmbeddedWatch {
    shared: Arc<Shared>,
    prefix: Vec<u8>,
    after: Revision,
    is_connected: bool,
}

impl EmbeddedWatch {
    pub(crate) fn new(shared: Arc<Shared>, prefix: &[u8], after: Revision) -> EmbeddedWatch {
        EmbeddedWatch { shared, prefix: prefix.to_vec(), after, is_connected: false }
    }
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
            // Also until the next lease ends: maybe no call comes that would end it.
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

//! The embedded store: for one process, in memory or in a file.

mod connection;
mod durable;
mod mvcc;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::keys::Access;
use crate::{Error, ErrorKind, LeaseId, Limits, Revision, Store};
use connection::Connection;
use durable::Durable;
use mvcc::Mvcc;

/// The embedded store, for one process. It is in memory, or in a file that only one process opens.
///
/// It keeps the last 10,000 revisions, so that watches can resume. A file keeps only the newest. So
/// if a watch resumes after the file was opened again, it begins with a new snapshot, unless it had
/// seen everything. Leases go on while the file is closed, by the wall clock. After a crash, a
/// lease lasts up to half of its time longer. Clones are handles of the same store.
///
/// ```
/// use trueup_world::{Embedded, Store as _, Write};
///
/// # fn main() -> Result<(), trueup_world::Error> {
/// let store = Embedded::in_memory().connect();
/// store.commit(&[], &[Write::Put { key: b"/a".to_vec(), value: b"1".to_vec(), lease: None }])?;
/// let (_, entries) = store.read(b"/", None)?;
/// assert_eq!(entries[0].value, b"1");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Embedded(Arc<Shared>);

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified at each new revision, and when the clock is moved.
    changed: Condvar,
}

struct State {
    mvcc: Mvcc,
    durable: Option<Durable>,
    clock: Clock,
    /// The time when each lease's renewal was last written to the file.
    renewals: BTreeMap<LeaseId, Duration>,
    /// The error of a failed write to the file, whose content is unknown from then on.
    broken: Option<Error>,
}

/// The clock by which leases end.
enum Clock {
    Monotonic(Instant),
    Manual(Duration),
}

/// The limits of one transaction, which are those of etcd's defaults.
const LIMITS: Limits = Limits { count: 128, bytes: 1 << 20 };

impl Embedded {
    /// Makes an empty store in memory.
    pub fn in_memory() -> Embedded {
        Embedded::new(Mvcc::default(), None, Clock::Monotonic(Instant::now()))
    }

    /// Makes an empty store in memory whose leases end only by [`advance`](Self::advance). It is
    /// for tests and simulations.
    pub fn with_manual_clock() -> Embedded {
        Embedded::new(Mvcc::default(), None, Clock::Manual(Duration::ZERO))
    }

    /// Opens the store in a file. If the file does not exist, creates it, readable by its owner
    /// alone. An acknowledged commit survives a crash of the machine.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is open in another process, or is not such a store. Fails
    /// if a user other than root and our own can read it, or change its folder's content.
    pub fn open(path: impl AsRef<Path>) -> Result<Embedded, Error> {
        let (durable, mvcc) = Durable::open(path.as_ref())?;
        let clock = Clock::Monotonic(Instant::now());
        Ok(Embedded::new(mvcc, Some(durable), clock))
    }

    /// Opens the store like [`open`](Self::open), on the caller's storage, with a clock that
    /// [`advance`](Self::advance) moves.
    #[cfg(feature = "testing")]
    #[doc(hidden)]
    pub fn open_on(backend: impl redb::StorageBackend) -> Result<Embedded, Error> {
        let (durable, mvcc) = Durable::open_on(backend)?;
        let clock = Clock::Manual(Duration::ZERO);
        Ok(Embedded::new(mvcc, Some(durable), clock))
    }

    fn new(mvcc: Mvcc, durable: Option<Durable>, clock: Clock) -> Embedded {
        let state = State { mvcc, durable, clock, renewals: BTreeMap::new(), broken: None };
        Embedded(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Returns an operator's connection, which may read and write everything.
    pub fn connect(&self) -> Arc<dyn Store> {
        self.connection(None)
    }

    /// Returns a connection with the rights in `access`, such as a host's: [`Access::of_host`].
    pub fn connect_with(&self, access: Access) -> Arc<dyn Store> {
        self.connection(Some(access))
    }

    fn connection(&self, access: Option<Access>) -> Arc<dyn Store> {
        let shared = Arc::clone(&self.0);
        Arc::new(Connection { shared, access })
    }

    /// Forgets the state before a revision, which can then no longer be read or watched. A revision
    /// later than the newest one counts as the newest.
    pub fn compact(&self, before: Revision) {
        self.0.lock().mvcc.compact(before);
    }

    /// Moves the clock of a store that was made [with a manual one](Self::with_manual_clock). Ends
    /// the leases whose time is over. Does nothing on another store.
    pub fn advance(&self, by: Duration) {
        if let Clock::Manual(now) = &mut self.0.lock().clock {
            *now += by;
        }
        drop(self.0.current());
        self.0.changed.notify_all();
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded(..)")
    }
}

impl State {
    fn now(&self) -> Duration {
        match self.clock {
            Clock::Monotonic(start) => start.elapsed(),
            Clock::Manual(now) => now,
        }
    }

    /// Ends the leases whose time is over, each in a revision of its own. Returns true if there
    /// were any.
    fn end_leases(&mut self) -> Result<bool, Error> {
        let mut any = false;
        while let Some(lease) = self.mvcc.overdue(self.now()) {
            self.end_lease(lease)?;
            any = true;
        }
        Ok(any)
    }

    fn end_lease(&mut self, lease: LeaseId) -> Result<(), Error> {
        let batch = self.mvcc.ended(lease);
        self.renewals.remove(&lease);
        self.install(batch)
    }

    fn renew(&mut self, lease: LeaseId) -> Result<Duration, Error> {
        let now = self.now();
        let ttl = self.mvcc.renew(lease, now)?;
        let renewed = self.renewals.get(&lease);
        if let Some(durable) = &self.durable
            && renewed.is_none_or(|at| *at + ttl / durable::RENEWALS_IN_TTL <= now)
        {
            if let Some(error) = &self.broken {
                return Err(error.clone());
            }
            if let Err(error) = durable.note_alive(lease) {
                self.broken = Some(error.clone());
                return Err(error);
            }
            self.renewals.insert(lease, now);
        }
        Ok(ttl)
    }

    /// Writes to the file first, so that readers see only lasting state.
    fn install(&mut self, batch: mvcc::Batch) -> Result<(), Error> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if let Some(durable) = &self.durable
            && let Err(error) = durable.commit(&batch)
        {
            let message = format!("a write may have taken effect: {error}");
            self.broken = Some(error);
            return Err(Error::new(ErrorKind::Indeterminate, message));
        }
        let now = self.now();
        self.mvcc.install(batch, now);
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves the state either unchanged or complete, because `install`
        // does not fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current state, after the end of overdue leases.
    fn current(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        if state.end_leases()? {
            self.changed.notify_all();
        }
        Ok(state)
    }
}

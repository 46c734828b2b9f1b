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

/// The embedded store, for one process: in memory, or in a file that only one process opens.
///
/// It keeps the last 10,000 revisions, so that watches can resume; a file keeps the newest alone,
/// and a watch that resumes after the file was opened anew begins with a new snapshot, unless it
/// had seen all. Leases go on while the file is closed, by the wall clock; after a crash one lasts up
/// to half of its time longer. Clones are handles of the same store.
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
    /// When the renewals of leases were written to the file last.
    renewals: BTreeMap<LeaseId, Duration>,
    /// A failed write of the file: what it holds is unknown from then on.
    broken: Option<Error>,
}

/// The time by which leases end.
enum Clock {
    Monotonic(Instant),
    Manual(Duration),
}

/// The sizes of one transaction, those of etcd's defaults.
const LIMITS: Limits = Limits { count: 128, bytes: 1 << 20 };

impl Embedded {
    /// Makes an empty store in memory.
    pub fn in_memory() -> Embedded {
        Embedded::new(Mvcc::default(), None, Clock::Monotonic(Instant::now()))
    }

    /// Makes an empty store in memory whose leases end by [`advance`](Self::advance) alone: for
    /// tests and simulations.
    pub fn with_manual_clock() -> Embedded {
        Embedded::new(Mvcc::default(), None, Clock::Manual(Duration::ZERO))
    }

    /// Opens the store in a file, and creates the file, readable by its owner alone, if it does not
    /// exist. A commit that was acknowledged survives a crash of the machine.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is open in another process, or is no such store; when a user
    /// other than root and our own can read it, or change what is in its folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Embedded, Error> {
        let (durable, mvcc) = Durable::open(path.as_ref())?;
        let clock = Clock::Monotonic(Instant::now());
        Ok(Embedded::new(mvcc, Some(durable), clock))
    }

    /// The same on a storage of the caller, with a clock that [`advance`](Self::advance) moves.
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

    /// Returns a connection that may read and write everything: an operator's.
    pub fn connect(&self) -> Arc<dyn Store> {
        self.connection(None)
    }

    /// Returns a connection that may do what `access` grants, such as that of a host:
    /// [`Access::of_host`].
    pub fn connect_with(&self, access: Access) -> Arc<dyn Store> {
        self.connection(Some(access))
    }

    fn connection(&self, access: Option<Access>) -> Arc<dyn Store> {
        let shared = Arc::clone(&self.0);
        Arc::new(Connection { shared, access })
    }

    /// Forgets what was before a revision: older ones cannot be read or watched any more. A
    /// revision that is newer than the newest stands for that.
    pub fn compact(&self, before: Revision) {
        self.0.lock().mvcc.compact(before);
    }

    /// Moves the clock of a store that was made [with a manual one](Self::with_manual_clock).
    /// Leases whose time is over end. On another store it does nothing.
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

    /// Ends the leases whose time is over: each in a revision of its own.
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

    /// Writes to the file first: what is read has survived.
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
        // A panic under the lock leaves the state as it was, or as it should be: `install` does not
        // fail half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state as of now.
    fn current(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.lock();
        if state.end_leases()? {
            self.changed.notify_all();
        }
        Ok(state)
    }
}

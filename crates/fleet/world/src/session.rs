//! Sessions: a live host, with the lease of its exports.

mod acquire;
mod export;
mod keeper;
mod scheduling;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use acquire::acquire;

use crate::keys::check_part;
use crate::{Compare, Error, ErrorKind, LeaseId, ResourceKey, World};

pub(crate) use acquire::Mark;
pub use export::Exported;
pub use keeper::{Keeper, SessionEvent};

/// The session of a host. While it is alive, the host is a member, and its exports exist.
///
/// To keep a session alive, call [`renew`](Self::renew), or have a [`Keeper`] call it. If it is not
/// called for the time to live, the store deletes all keys with the lease. The next call then gets
/// another lease, exports everything again, and returns this. Clones are handles of the same
/// session.
///
/// ```
/// # #[cfg(feature = "embedded")]
/// # fn example() -> Result<(), trueup_world::Error> {
/// use std::time::Duration;
/// use trueup_world::{Embedded, Export, Session, World};
///
/// let store = Embedded::in_memory();
/// let world = World::new(store.connect(), "/trueup", "a")?;
/// let session = Session::begin(world.clone(), "machine 1", Duration::from_secs(5))?;
/// session.declare(&[Export::new("route", "pods", "10.20.1.0/24 via 10.0.0.11")])?;
/// assert_eq!((world.members()?.len(), world.exports()?.len()), (1, 1));
/// session.end()?;
/// assert!(world.exports()?.is_empty()); // they ended with it
/// # Ok(())
/// # }
/// # #[cfg(feature = "embedded")]
/// # example().unwrap();
/// ```
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    world: World,
    owner: String,
    ttl: Duration,
    /// Held while exports are written, but not while the lease is renewed.
    state: Mutex<State>,
    status: Mutex<SessionStatus>,
    /// The lease and the value of the session's key, as last written.
    current: Mutex<(LeaseId, Vec<u8>)>,
    /// True while the store may lack an export. The next renewal then exports all again.
    is_behind: AtomicBool,
}

#[derive(Default)]
struct State {
    /// This session's exports: the data, and true if it persists.
    exports: BTreeMap<ResourceKey, (Vec<u8>, bool)>,
    /// True once all exports were declared.
    is_declared: bool,
    /// The named recipients in the private record.
    recipients: BTreeSet<String>,
    /// The schedulers that the host offers itself to.
    offers: BTreeSet<String>,
}

/// The state of a session, as of its last call to the store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionStatus {
    /// The number of times that the lease has ended while the session went on.
    pub losses: u64,
    /// The time since when the store is unreachable. `None` if the last call reached it.
    pub cut_off_since: Option<SystemTime>,
    /// Why the session has ended for good: a newer one has replaced it. `None` if it has not.
    pub ended: Option<Error>,
}

/// The number of attempts if something changes in between.
const ATTEMPTS: usize = 8;

impl Session {
    /// Begins the session of the world's host.
    ///
    /// `owner` identifies the host's machine, for example by the machine's id. If a restarted
    /// process passes the same owner, it takes over the session and its lease, and the exports
    /// stay. `ttl` is the time that the host counts as alive without a sign. A store may round it
    /// up. A session that is taken over keeps its own.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) while another owner has a session of this host, and the
    /// store's errors.
    pub fn begin(world: World, owner: &str, ttl: Duration) -> Result<Session, Error> {
        check_part("an owner", owner.as_bytes())?;
        let (lease, value) = acquire(&world, owner, ttl, None)?;
        Ok(Session(Arc::new(Inner {
            world,
            owner: owner.to_owned(),
            ttl,
            state: Mutex::default(),
            status: Mutex::default(),
            current: Mutex::new((lease, value)),
            is_behind: AtomicBool::new(false),
        })))
    }

    /// Returns the world, with the connection that the session uses.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// Returns the time to live that the session was begun with.
    pub fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// Returns the state as of the last call to the store. It asks the store nothing.
    pub fn status(&self) -> SessionStatus {
        lock(&self.0.status).clone()
    }

    /// Returns the current lease, which may have ended.
    pub fn lease(&self) -> LeaseId {
        lock(&self.0.current).0
    }

    /// Renews the lease, and checks that the session's key is still this session's. If the lease
    /// has ended, gets another one. Returns the exports if all of them had to be made again,
    /// because the lease had ended or one had failed. Failed exports are retried by the next call,
    /// unless the store refuses them.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if another session has the host now, and the store's
    /// errors.
    pub fn renew(&self) -> Result<Option<Exported>, Error> {
        self.renew_and_check(true)
    }

    /// Renews like [`renew`](Self::renew). Checks the session's key only if `is_checked`.
    fn renew_and_check(&self, is_checked: bool) -> Result<Option<Exported>, Error> {
        let result = self.renew_once(is_checked);
        let mut status = lock(&self.0.status);
        match &result {
            Err(error) if is_cut_off(error) => {
                status.cut_off_since.get_or_insert_with(SystemTime::now);
            }
            _ => status.cut_off_since = None,
        }
        result
    }

    fn renew_once(&self, is_checked: bool) -> Result<Option<Exported>, Error> {
        if let Some(ended) = lock(&self.0.status).ended.clone() {
            return Err(ended);
        }
        let (lease, value) = lock(&self.0.current).clone();
        match self.0.world.store.renew(lease) {
            Ok(_) => {
                let is_behind = self.0.is_behind.load(Ordering::SeqCst);
                if !is_checked && !is_behind {
                    return Ok(None);
                }
                let entry = self.0.world.entry(&self.key())?;
                if entry.is_some_and(|it| it.value == value && it.lease == Some(lease)) {
                    return if is_behind { self.restore() } else { Ok(None) };
                }
            }
            Err(error) if error.kind() == ErrorKind::LeaseEnded => {}
            Err(error) => return Err(error),
        }
        {
            let _state = lock(&self.0.state);
            // An export may have done it meanwhile.
            if self.lease() == lease {
                self.acquire_again()?;
            }
        }
        self.restore()
    }

    fn restore(&self) -> Result<Option<Exported>, Error> {
        let mut state = lock(&self.0.state);
        self.sync_all(&mut state).map(Some)
    }

    /// Ends the session at once, with all its exports. If a session is only dropped, its lease ends
    /// later, so that a restarted process can take it over.
    ///
    /// # Errors
    ///
    /// The store's errors. The lease then ends by itself, unless it is renewed.
    pub fn end(&self) -> Result<(), Error> {
        let _state = lock(&self.0.state);
        let message = format!("the session of host {} was ended", self.0.world.host());
        lock(&self.0.status).ended = Some(Error::new(ErrorKind::Conflict, message));
        let (lease, value) = lock(&self.0.current).clone();
        let entry = self.0.world.entry(&self.key())?;
        if entry.is_some_and(|it| it.value == value) {
            self.0.world.store.revoke(lease)?;
        }
        Ok(())
    }

    fn key(&self) -> Vec<u8> {
        self.0.world.keys.of_host(self.0.world.host(), "session")
    }

    /// Returns the comparison that the session's key is this session's.
    pub(crate) fn fence(&self) -> Compare {
        let (_, value) = lock(&self.0.current).clone();
        Compare::Value(self.key(), value)
    }

    /// Gets another lease, after the last one was lost.
    fn acquire_again(&self) -> Result<(), Error> {
        let inner = &*self.0;
        let (_, value) = lock(&inner.current).clone();
        match acquire(&inner.world, &inner.owner, inner.ttl, Some(&value)) {
            Ok(current) => {
                *lock(&inner.current) = current;
                inner.is_behind.store(true, Ordering::SeqCst);
                lock(&inner.status).losses += 1;
                Ok(())
            }
            Err(error) => {
                // The same owner's session is newer: this session must not overwrite it.
                let is_replaced = error.kind() == ErrorKind::Conflict
                    && inner.world.entry(&self.key()).is_ok_and(|entry| {
                        entry
                            .and_then(|it| Mark::parse(&it))
                            .is_some_and(|it| it.owner == inner.owner)
                    });
                if is_replaced {
                    lock(&inner.status).ended = Some(error.clone());
                }
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("Session");
        it.field("host", &self.0.world.host()).finish_non_exhaustive()
    }
}

/// Returns true if the error says that the store was not reached.
pub(crate) fn is_cut_off(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

/// Locks data that no panic leaves half-way changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

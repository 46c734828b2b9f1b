//! Sessions: a host that is alive, with the lease that its exports go with.

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

/// The session of a host: while it is alive, the host is a member, and its exports are there.
///
/// A session lives by [`renew`](Self::renew), which a [`Keeper`] calls. If it is not called for the
/// time to live, the store deletes all that goes with the lease. The next call then grants another
/// lease, exports all again, and says so. Clones are handles of the same session.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    world: World,
    owner: String,
    ttl: Duration,
    /// Held while exports are written, and not while the lease is renewed.
    state: Mutex<State>,
    status: Mutex<SessionStatus>,
    /// The lease and the value of the session's key, as they were written last.
    current: Mutex<(LeaseId, Vec<u8>)>,
    /// True while the store may lack an export: the next renewal exports all again.
    is_behind: AtomicBool,
}

#[derive(Default)]
struct State {
    /// What this session exports: data, and whether it persists.
    exports: BTreeMap<ResourceKey, (Vec<u8>, bool)>,
    /// True once all exports were declared.
    is_declared: bool,
    /// The named recipients that the private record has.
    recipients: BTreeSet<String>,
    /// The schedulers that the host offers itself to.
    offers: BTreeSet<String>,
}

/// What is known of a session.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionStatus {
    /// How often the lease has ended although the session had not.
    pub losses: u64,
    /// Since when the store has not been reached; none if the last call reached it.
    pub cut_off_since: Option<SystemTime>,
    /// Why the session has ended for good: a newer one has replaced it.
    pub ended: Option<Error>,
}

/// How often a step is tried anew because something changed in between.
const ATTEMPTS: usize = 8;

impl Session {
    /// Begins the session of the world's host.
    ///
    /// `owner` says which machine the host is: a process that is started again gives the same one,
    /// such as the machine's id, and takes the session over with its lease, so that what is
    /// exported stays. `ttl` is for how long the host counts as alive without a sign: a store may
    /// round it up, and a session that is taken over keeps its own.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) while another owner has a session of this host; those of
    /// the store.
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

    /// Returns the world.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// Returns the time to live that it was begun with.
    pub fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// Returns what is known of it.
    pub fn status(&self) -> SessionStatus {
        lock(&self.0.status).clone()
    }

    /// Returns the lease of now.
    pub fn lease(&self) -> LeaseId {
        lock(&self.0.current).0
    }

    /// Renews the lease, and checks that the session's key is still this session's. If the lease
    /// has ended, grants another one. Returns the exports if it had to make all of them again, since
    /// the lease had ended or one had failed. Unless one is refused, the next call tries it again.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if another session has the host now; those of the store.
    pub fn renew(&self) -> Result<Option<Exported>, Error> {
        self.renew_and_check(true)
    }

    /// As [`renew`](Self::renew); the session's key is checked if this is true.
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

    /// Ends the session, and with it what it exported, at once. A session that is only dropped
    /// leaves that to its lease, so that a process that is started again finds it.
    ///
    /// # Errors
    ///
    /// Those of the store: the lease then ends by itself, unless it is renewed.
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

    /// The comparison that the session's key is this session's.
    pub(crate) fn fence(&self) -> Compare {
        let (_, value) = lock(&self.0.current).clone();
        Compare::Value(self.key(), value)
    }

    /// Takes another lease, after the last one was lost.
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
                // The same owner's session is a newer one: this one must not overwrite it.
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

/// True if an error says that the store was not reached.
pub(crate) fn is_cut_off(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

/// No lock of a session is held where a panic could leave it half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

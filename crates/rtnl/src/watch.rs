//! The subscription: a monitor that the driver polls, and that passes ask what became doubtful since the last.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use trueup_diff::{Kind, Kinds};
use trueup_netlink::Namespace;
use trueup_observe::{DirtySet, Monitor, WatchScope};
use trueup_reconcile::{Drained, Subscription};

use crate::Error;
use crate::region::Region;

/// What keeps hints coming from a namespace: its multicast groups. Dropped, it ends them.
#[derive(Debug)]
pub struct Watch {
    descriptor: OwnedFd,
    ear: Arc<Mutex<Ear>>,
}

impl Subscription<Error> for Watch {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        lock(&self.ear).drain()
    }
}

impl Watch {
    pub(crate) fn open(scope: &Namespace) -> Result<(Watch, Listening), Error> {
        let monitor = Monitor::open(scope)?;
        // Before Linux 5.14 a namespace cannot be told from its successor.
        let cookie = monitor.cookie().ok();
        let descriptor = monitor.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(Error::descriptor)?;
        let ear = Arc::new(Mutex::new(Ear {
            monitor,
            interest: None,
            left: DirtySet::default(),
            untold: Drained::Nothing,
        }));
        let listening = Listening {
            ear: Arc::downgrade(&ear),
            cookie,
        };
        Ok((Watch { descriptor, ear }, listening))
    }
}

/// The source's side of a subscription, for as long as the driver keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    ear: Weak<Mutex<Ear>>,
    /// Of the namespace that is listened to.
    cookie: Option<u64>,
}

impl Listening {
    /// The cookie of the namespace that is listened to, if one is, and if this kernel tells.
    pub(crate) fn cookie(&self) -> Option<u64> {
        self.cookie.filter(|_| self.ear.strong_count() > 0)
    }

    /// What became doubtful until now; nothing can be said where the subscription has ended.
    pub(crate) fn take(&self) -> Option<DirtySet> {
        let ear = self.ear.upgrade()?;
        let mut ear = lock(&ear);
        // The driver meets an error itself.
        ear.hear().ok()?;
        // What the driver has yet to be told is taken as well: this pass is the answer to it.
        ear.untold = match ear.untold {
            Drained::Lost => Drained::Lost,
            Drained::Hint | Drained::Nothing => Drained::Nothing,
        };
        let mut doubtful = std::mem::take(&mut ear.left);
        doubtful.extend(ear.monitor.take_dirty());
        Some(doubtful)
    }

    /// What comes back is our own writes, for as long as the answer is kept, from the port that it is told of.
    pub(crate) fn writing(&self) -> Echo {
        Echo(self.clone())
    }

    /// A region is looked at from now on: what was heard of it so far needs no other look.
    pub(crate) fn looking(&self, region: &Region) {
        let Some(ear) = self.ear.upgrade() else {
            return;
        };
        let mut ear = lock(&ear);
        if ear.hear().is_err() {
            // The driver meets the error itself.
            return;
        }
        let heard = ear.monitor.take_dirty();
        let outside = region.outside(heard);
        if !outside.is_empty() {
            ear.left.extend(outside);
            ear.tell(Drained::Hint);
        }
    }

    /// Sees to it that what is to be looked at is heard of from before the look.
    pub(crate) fn widen(&self, kinds: Kinds, protocol: u8) {
        let Some(ear) = self.ear.upgrade() else {
            return;
        };
        let mut ear = lock(&ear);
        let covers = |interest: &WatchScope| {
            let missing = |kind: &Kind| kinds.contains(*kind) && !interest.kinds.contains(*kind);
            interest.protocol == protocol && !Kind::ALL.iter().any(missing)
        };
        if ear
            .interest
            .as_ref()
            .is_some_and(|interest| !covers(interest))
        {
            ear.attach(WatchScope::new(kinds, protocol));
        }
    }

    /// What matters from now on, as of the look that has just been.
    pub(crate) fn attach(&self, interest: WatchScope) {
        let Some(ear) = self.ear.upgrade() else {
            return;
        };
        let mut ear = lock(&ear);
        let Some(before) = &ear.interest else {
            // So far everything was told.
            return ear.attach(interest);
        };
        if *before == interest {
            return;
        }
        let unheard = |kind: &Kind| {
            interest.any_protocol.contains(*kind) && !before.any_protocol.contains(*kind)
        };
        let unheard = Kind::ALL.iter().any(unheard);
        ear.attach(interest);
        if unheard {
            // What happened to those since the look was left out.
            ear.left = DirtySet::everything();
            ear.tell(Drained::Hint);
        }
    }
}

/// A port whose messages are the echo of our own writes. Once our socket is closed it may be another's.
#[derive(Debug)]
pub(crate) struct Echo(Listening);

/// The events of fewer writes are read, and passed over, rather than left out by the kernel.
const MANY: usize = 64;

impl Echo {
    /// So many writes are made from a port.
    pub(crate) fn is_from(&self, port: u32, writes: usize) {
        if let Some(ear) = self.0.ear.upgrade() {
            // Where it fails, an echo costs a pass.
            let _ = lock(&ear)
                .monitor
                .ignore_own_writes(Some(port), writes >= MANY);
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let Some(ear) = self.0.ear.upgrade() else {
            return;
        };
        let mut ear = lock(&ear);
        // What the kernel tells of a write it has told by the time it answers. The driver meets an error itself.
        if let Ok(heard) = ear.hear() {
            ear.tell(heard);
        }
        let _ = ear.monitor.ignore_own_writes(None, false);
    }
}

#[derive(Debug)]
struct Ear {
    monitor: Monitor,
    interest: Option<WatchScope>,
    /// What a pass heard and did not look at.
    left: DirtySet,
    /// What the driver is yet to hear of what a pass heard.
    untold: Drained,
}

impl Ear {
    fn attach(&mut self, interest: WatchScope) {
        // Where the kernel does not take the filter, what mattered before matters on, and a whole pass finds the rest.
        if self.monitor.set_scope(interest.clone()).is_ok() {
            self.interest = Some(interest);
        }
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let heard = self.hear()?;
        self.tell(heard);
        Ok(std::mem::replace(&mut self.untold, Drained::Nothing))
    }

    /// Takes in what there is to hear.
    fn hear(&mut self) -> Result<Drained, Error> {
        let drained = self.monitor.drain()?;
        if drained.lost {
            self.untold = Drained::Lost;
        }
        Ok(match drained.is_dirty {
            true => Drained::Hint,
            false => Drained::Nothing,
        })
    }

    fn tell(&mut self, heard: Drained) {
        if self.untold == Drained::Nothing {
            self.untold = heard;
        }
    }
}

fn lock(ear: &Mutex<Ear>) -> MutexGuard<'_, Ear> {
    // Nothing that can panic halfway runs under the lock.
    ear.lock().unwrap_or_else(PoisonError::into_inner)
}

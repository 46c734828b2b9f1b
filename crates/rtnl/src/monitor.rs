//! The subscription: a monitor that the driver polls, and that says what became dirty since the
//! last pass.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use trueup_diff::{Kind, Kinds};
use trueup_netlink::Namespace;
use trueup_observe::{DirtySet, Monitor, WatchScope};
use trueup_reconcile::{Drained, Subscription};

use crate::Error;
use crate::dirty_part::DirtyPart;

/// A subscription to what changes in a namespace: its multicast groups. Dropped, it ends.
#[derive(Debug)]
pub struct Watch {
    descriptor: OwnedFd,
    state: Arc<Mutex<MonitorState>>,
}

impl Subscription<Error> for Watch {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.descriptor.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        lock(&self.state).drain_for_driver()
    }
}

impl Watch {
    pub(crate) fn open(scope: &Namespace) -> Result<(Watch, MonitorHandle), Error> {
        let monitor = Monitor::open(scope)?;
        // Before Linux 5.14 a namespace has no cookie, and looks like its successor.
        let cookie = monitor.cookie().ok();
        let descriptor = monitor.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(Error::descriptor)?;
        let state = Arc::new(Mutex::new(MonitorState {
            monitor,
            scope: None,
            unread: DirtySet::default(),
            undelivered: Drained::Nothing,
        }));
        let handle = MonitorHandle {
            state: Arc::downgrade(&state),
            cookie,
        };
        Ok((Watch { descriptor, state }, handle))
    }
}

/// The source's side of a subscription, for as long as the driver keeps it.
#[derive(Clone, Debug)]
pub(crate) struct MonitorHandle {
    state: Weak<Mutex<MonitorState>>,
    /// The cookie of the namespace.
    cookie: Option<u64>,
}

impl MonitorHandle {
    /// Returns the cookie of the namespace, while it is subscribed to, and if the kernel has one.
    pub(crate) fn cookie(&self) -> Option<u64> {
        self.cookie.filter(|_| self.state.strong_count() > 0)
    }

    /// Takes what became dirty until now; `None` where the subscription has ended.
    pub(crate) fn take_dirty(&self) -> Option<DirtySet> {
        let state = self.state.upgrade()?;
        let mut state = lock(&state);
        // The driver gets an error itself.
        state.drain().ok()?;
        // A hint that the driver has not got yet is taken as well: this pass answers it.
        state.undelivered = match state.undelivered {
            Drained::Lost => Drained::Lost,
            Drained::Hint | Drained::Nothing => Drained::Nothing,
        };
        let mut dirty = std::mem::take(&mut state.unread);
        dirty.extend(state.monitor.take_dirty());
        Some(dirty)
    }

    /// Ignores our own writes for as long as the returned value lives.
    pub(crate) fn expect_own_writes(&self) -> OwnWrites {
        OwnWrites(self.clone())
    }

    /// Notes that a pass begins to read a part, or everything: what became dirty in it so far needs
    /// no other pass.
    pub(crate) fn begin_read(&self, part: Option<&DirtyPart>) {
        let Some(state) = self.state.upgrade() else {
            return;
        };
        let mut state = lock(&state);
        if state.drain().is_err() {
            // The driver gets the error itself.
            return;
        }
        let dirty = state.monitor.take_dirty();
        let outside = part.map(|part| part.outside(dirty)).unwrap_or_default();
        if !outside.is_empty() {
            state.unread.extend(outside);
            state.deliver(Drained::Hint);
        }
    }

    /// Makes sure that changes of what a pass is to read are reported from before the read.
    pub(crate) fn cover(&self, kinds: Kinds, protocol: u8) {
        let Some(state) = self.state.upgrade() else {
            return;
        };
        let mut state = lock(&state);
        let covers = |scope: &WatchScope| {
            let missing = |kind: &Kind| kinds.contains(*kind) && !scope.kinds.contains(*kind);
            scope.protocol == protocol && !Kind::ALL.iter().any(missing)
        };
        if state.scope.as_ref().is_some_and(|scope| !covers(scope)) {
            state.set_scope(WatchScope::new(kinds, protocol));
        }
    }

    /// Sets what is to be reported from now on, as of the read that has just been.
    pub(crate) fn set_scope(&self, scope: WatchScope) {
        let Some(state) = self.state.upgrade() else {
            return;
        };
        let mut state = lock(&state);
        let Some(before) = &state.scope else {
            // So far everything was reported.
            return state.set_scope(scope);
        };
        if *before == scope {
            return;
        }
        let is_unreported = |kind: &Kind| {
            scope.any_protocol.contains(*kind) && !before.any_protocol.contains(*kind)
        };
        let is_unreported = Kind::ALL.iter().any(is_unreported);
        state.set_scope(scope);
        if is_unreported {
            // What happened to those since the read was not reported.
            state.unread = DirtySet::everything();
            state.deliver(Drained::Hint);
        }
    }
}

/// Has the monitor ignore what comes from the port of our socket. Once that is closed, the port may
/// be another's.
#[derive(Debug)]
pub(crate) struct OwnWrites(MonitorHandle);

/// The events of fewer writes are read and ignored, rather than filtered in the kernel.
const MANY: usize = 64;

impl OwnWrites {
    /// Begins with so many writes from a port.
    pub(crate) fn begin(&self, port: u32, writes: usize) {
        if let Some(state) = self.0.state.upgrade() {
            // Where it fails, our own writes cost a pass.
            let _ = lock(&state)
                .monitor
                .ignore_own_writes(Some(port), writes >= MANY);
        }
    }
}

impl Drop for OwnWrites {
    fn drop(&mut self) {
        let Some(state) = self.0.state.upgrade() else {
            return;
        };
        let mut state = lock(&state);
        // The kernel announces a write before it answers it. The driver gets an error itself.
        if let Ok(drained) = state.drain() {
            state.deliver(drained);
        }
        let _ = state.monitor.ignore_own_writes(None, false);
    }
}

#[derive(Debug)]
struct MonitorState {
    monitor: Monitor,
    scope: Option<WatchScope>,
    /// What became dirty during a pass that did not read it.
    unread: DirtySet,
    /// What a pass has drained and the driver has not got yet.
    undelivered: Drained,
}

impl MonitorState {
    fn set_scope(&mut self, scope: WatchScope) {
        // Where the kernel does not take the filter, the former one stays, and a pass over
        // everything finds the rest.
        if self.monitor.set_scope(scope.clone()).is_ok() {
            self.scope = Some(scope);
        }
    }

    fn drain_for_driver(&mut self) -> Result<Drained, Error> {
        let drained = self.drain()?;
        self.deliver(drained);
        Ok(std::mem::replace(&mut self.undelivered, Drained::Nothing))
    }

    /// Drains the monitor.
    fn drain(&mut self) -> Result<Drained, Error> {
        let drained = self.monitor.drain()?;
        if drained.lost {
            self.undelivered = Drained::Lost;
        }
        Ok(match drained.is_dirty {
            true => Drained::Hint,
            false => Drained::Nothing,
        })
    }

    fn deliver(&mut self, drained: Drained) {
        if self.undelivered == Drained::Nothing {
            self.undelivered = drained;
        }
    }
}

fn lock(state: &Mutex<MonitorState>) -> MutexGuard<'_, MonitorState> {
    // Nothing that can panic halfway runs under the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

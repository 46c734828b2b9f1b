//! The subscription: a monitor that the driver polls, and that says what became dirty since the
//! last pass.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use trueup_net::{Kind, Kinds};
use trueup_netlink::{Namespace, NamespaceId};
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
        let scope = scope.pinned()?;
        let namespace = scope.id()?;
        let monitor = Monitor::open(&scope)?;
        let descriptor = monitor.as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(Error::descriptor)?;
        let state = Arc::new(Mutex::new(MonitorState {
            monitor,
            scope: None,
            unread: DirtySet::default(),
            undelivered: Drained::Nothing,
        }));
        let handle = MonitorHandle { state: Arc::downgrade(&state), namespace };
        Ok((Watch { descriptor, state }, handle))
    }
}

/// The source's side of a subscription, for as long as the driver keeps it.
#[derive(Clone, Debug)]
pub(crate) struct MonitorHandle {
    state: Weak<Mutex<MonitorState>>,
    namespace: NamespaceId,
}

impl MonitorHandle {
    /// Returns the namespace, while it is subscribed to.
    pub(crate) fn namespace(&self) -> Option<NamespaceId> {
        (self.state.strong_count() > 0).then_some(self.namespace)
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

    /// Ignores what comes from the port of our socket from now on. Once the socket is closed, the
    /// port may be another's: then `None`.
    pub(crate) fn ignore_own_writes(&self, port: Option<u32>) {
        if let Some(state) = self.state.upgrade() {
            // Where it fails, our own writes cost a pass.
            let _ = lock(&state).monitor.ignore_own_writes(port);
        }
    }

    /// Notes that a pass begins to read a part, or everything: what became dirty in it so far needs
    /// no other pass. Returns what became dirty.
    pub(crate) fn begin_read(&self, part: Option<&DirtyPart>) -> DirtySet {
        let Some(state) = self.state.upgrade() else {
            return DirtySet::everything();
        };
        let mut state = lock(&state);
        if state.drain().is_err() {
            // The driver gets the error itself.
            return DirtySet::everything();
        }
        let dirty = state.monitor.take_dirty();
        let outside = part.map(|part| part.outside(dirty.clone()));
        let outside = outside.unwrap_or_default();
        if !outside.is_empty() {
            state.unread.extend(outside);
            state.deliver(Drained::Hint);
        }
        dirty
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

    /// Sets what is to be reported from now on, as of the read that has just been. Unless the pass
    /// was quiet, whatever happens may be what an undone op waits for. Returns false if that is not
    /// what is reported: the subscription has ended, or the kernel does not take the filter.
    pub(crate) fn set_scope(&self, quiet: WatchScope, is_quiet: bool) -> bool {
        let Some(state) = self.state.upgrade() else {
            return false;
        };
        let mut state = lock(&state);
        let is_unheard = state.scope.as_ref().is_some_and(|before| {
            grows(&before.devices, &quiet.devices)
                || grows(&before.route_devices, &quiet.route_devices)
                || grows(&before.route_sources, &quiet.route_sources)
                || grows(&before.gateways, &quiet.gateways)
        });
        let mut scope = quiet;
        if !is_quiet {
            (scope.devices, scope.nexthops) = (None, None);
            (scope.route_devices, scope.route_sources) = (None, None);
        }
        let Some(before) = &state.scope else {
            // So far everything was reported.
            return state.set_scope(scope);
        };
        if *before == scope {
            return true;
        }
        let is_unreported = |kind: &Kind| {
            scope.any_protocol.contains(*kind) && !before.any_protocol.contains(*kind)
        };
        let is_unreported = is_unheard || Kind::ALL.iter().any(is_unreported);
        let is_set = state.set_scope(scope);
        if is_unreported {
            // What happened to those since the read was not reported.
            state.unread = DirtySet::everything();
            state.deliver(Drained::Hint);
        }
        is_set
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
    /// Returns false if the kernel does not take the filter. Then the former one stays, and a pass
    /// over everything finds the rest.
    fn set_scope(&mut self, scope: WatchScope) -> bool {
        let is_set = self.monitor.set_scope(scope.clone()).is_ok();
        if is_set {
            self.scope = Some(scope);
        }
        is_set
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

/// Returns true if a list names what a former one left out; `None` is a list of all.
fn grows<T: Ord>(before: &Option<BTreeSet<T>>, now: &Option<BTreeSet<T>>) -> bool {
    let lists = before.as_ref().zip(now.as_ref());
    lists.is_some_and(|(before, now)| !now.is_subset(before))
}

fn lock(state: &Mutex<MonitorState>) -> MutexGuard<'_, MonitorState> {
    // Nothing that can panic halfway runs under the lock.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

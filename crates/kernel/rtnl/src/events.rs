//! The events of a subscribed source: a monitor, polled by the driver, which records dirty objects
//! since the last pass.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, BorrowedFd};

use trueup_net::{Action, Kind, Kinds, Object, ObjectKey, Plan};
use trueup_netlink::{Namespace, NamespaceId};
use trueup_observe::{DirtySet, Monitor, WatchScope};
use trueup_reconcile::Drained;

use crate::Error;
use crate::dirty_part::DirtyPart;

/// A namespace's events, from its multicast groups.
#[derive(Debug)]
pub(crate) struct Events {
    monitor: Monitor,
    namespace: NamespaceId,
    scope: Option<WatchScope>,
    /// Objects that became dirty during a pass, without being read by it.
    unread: DirtySet,
    /// Events drained by a pass and not delivered to the driver yet.
    undelivered: Drained,
}

impl Events {
    pub(crate) fn open(scope: &Namespace) -> Result<Events, Error> {
        let pinned = scope.pinned()?;
        Ok(Events {
            namespace: pinned.id()?,
            monitor: Monitor::open(&pinned)?,
            scope: None,
            unread: DirtySet::default(),
            undelivered: Drained::Nothing,
        })
    }

    /// Returns the events' namespace.
    pub(crate) fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }

    /// Drains the waiting events into a summary for the driver.
    pub(crate) fn drain(&mut self) -> Result<Drained, Error> {
        let drained = self.drain_monitor()?;
        self.deliver(drained);
        Ok(std::mem::replace(&mut self.undelivered, Drained::Nothing))
    }

    /// Takes the objects that became dirty so far.
    pub(crate) fn take_dirty(&mut self) -> DirtySet {
        if self.drain_monitor().is_err() {
            // The driver receives the error itself.
            return DirtySet::everything();
        }
        // Also take a hint that the driver has not received: this pass answers it.
        self.undelivered = match self.undelivered {
            Drained::Lost => Drained::Lost,
            Drained::Hint | Drained::Nothing => Drained::Nothing,
        };
        let mut dirty = std::mem::take(&mut self.unread);
        dirty.extend(self.monitor.take_dirty());
        dirty
    }

    /// Ignores changes from our socket's port from now on. `None` once the socket is closed, since
    /// another program may get the port.
    pub(crate) fn ignore_own_writes(&mut self, port: Option<u32>) {
        // On failure, our own writes only cost a pass.
        let _ = self.monitor.ignore_own_writes(port);
    }

    /// Records the start of a pass's read of a part, or of everything. Objects that are dirty in it
    /// so far need no other pass. Returns the dirty objects.
    pub(crate) fn begin_read(&mut self, part: Option<&DirtyPart>) -> DirtySet {
        if self.drain_monitor().is_err() {
            // The driver receives the error itself.
            return DirtySet::everything();
        }
        let mut dirty = self.monitor.take_dirty();
        // The read settles older ones, too.
        let earlier = std::mem::take(&mut self.unread);
        if let Some(part) = part {
            self.unread = part.outside(earlier.clone());
            let outside = part.outside(dirty.clone());
            if !outside.is_empty() {
                self.unread.extend(outside);
                self.deliver(Drained::Hint);
            }
        }
        dirty.extend(earlier);
        dirty
    }

    /// Ignores the announcements so far of a plan's own writes, after which the objects in `there`
    /// exist: the kernel announces some without the writer's port. All others are left to the next
    /// pass.
    pub(crate) fn forget_own(&mut self, done: &Plan, there: &[Object]) {
        let mut dirty = match self.drain_monitor() {
            Ok(_) => self.monitor.take_dirty(),
            // The driver receives the error itself.
            Err(_) => DirtySet::everything(),
        };
        if dirty.is_empty() {
            return;
        }
        let there: BTreeMap<ObjectKey, &Object> =
            there.iter().map(|object| (object.key(), object)).collect();
        let deleted: BTreeSet<ObjectKey> = done
            .ops
            .iter()
            .filter(|op| op.action == Action::Delete)
            .map(|op| op.object.key())
            .collect();
        let DirtySet { objects, removed, .. } = &mut dirty;
        objects.retain(|key, object| {
            let is_own = match (object, there.get(key)) {
                (Some(object), Some(there)) => {
                    there.protocol() == object.protocol() && there.agrees_on(object, &done.devices)
                }
                (None, None) => deleted.contains(key),
                _ => false,
            };
            if is_own {
                removed.remove(key);
            }
            !is_own
        });
        if !dirty.is_empty() {
            self.unread.extend(dirty);
            self.deliver(Drained::Hint);
        }
    }

    /// Ensures that changes to the objects of a coming read are reported from before the read.
    pub(crate) fn cover(&mut self, kinds: Kinds, protocol: u8) {
        if let Some(scope) = &self.scope
            && (scope.protocol != protocol || has_more(scope.kinds, kinds))
        {
            self.set_filter(WatchScope::new(kinds, protocol));
        }
    }

    /// Sets the changes to report from now on, based on the last read. After a pass that was not
    /// quiet everything is reported, since an undone op may wait for any change. Returns false if
    /// the kernel refuses the filter.
    pub(crate) fn set_scope(&mut self, quiet: WatchScope, is_quiet: bool) -> bool {
        // Without a scope, everything was reported so far.
        let is_unreported = self.scope.as_ref().is_some_and(|before| {
            grows(&before.devices, &quiet.devices)
                || grows(&before.route_devices, &quiet.route_devices)
                || grows(&before.route_sources, &quiet.route_sources)
                || grows(&before.gateways, &quiet.gateways)
                || has_more(before.any_protocol, quiet.any_protocol)
        });
        let mut scope = quiet;
        if !is_quiet {
            (scope.devices, scope.nexthops) = (None, None);
            (scope.route_devices, scope.route_sources) = (None, None);
        }
        if self.scope.as_ref() == Some(&scope) {
            return true;
        }
        let is_set = self.set_filter(scope);
        if is_unreported {
            // Changes to these since the read were not reported.
            self.unread = DirtySet::everything();
            self.deliver(Drained::Hint);
        }
        is_set
    }

    /// Returns false if the kernel refuses the filter. Then the former filter stays, and a full
    /// pass finds the rest.
    fn set_filter(&mut self, scope: WatchScope) -> bool {
        let is_set = self.monitor.set_scope(scope.clone()).is_ok();
        if is_set {
            self.scope = Some(scope);
        }
        is_set
    }

    /// Drains the monitor.
    fn drain_monitor(&mut self) -> Result<Drained, Error> {
        let drained = self.monitor.drain()?;
        if drained.lost {
            self.undelivered = Drained::Lost;
        }
        Ok(if drained.is_dirty { Drained::Hint } else { Drained::Nothing })
    }

    fn deliver(&mut self, drained: Drained) {
        if self.undelivered == Drained::Nothing {
            self.undelivered = drained;
        }
    }
}

/// Returns true if `now` has kinds that `before` lacks.
fn has_more(before: Kinds, now: Kinds) -> bool {
    Kind::ALL.iter().any(|kind| now.contains(*kind) && !before.contains(*kind))
}

/// Returns true if `now` has items that `before` lacks. `None` is a list of all.
fn grows<T: Ord>(before: &Option<BTreeSet<T>>, now: &Option<BTreeSet<T>>) -> bool {
    let lists = before.as_ref().zip(now.as_ref());
    lists.is_some_and(|(before, now)| !now.is_subset(before))
}

//! The events of a subscribed source: a monitor that the driver polls, and that says what became
//! dirty since the last pass.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, BorrowedFd};

use trueup_net::{Kind, Kinds};
use trueup_netlink::{Namespace, NamespaceId};
use trueup_observe::{DirtySet, Monitor, WatchScope};
use trueup_reconcile::Drained;

use crate::Error;
use crate::dirty_part::DirtyPart;

/// The events of a namespace, from its multicast groups.
#[derive(Debug)]
pub(crate) struct Events {
    monitor: Monitor,
    namespace: NamespaceId,
    scope: Option<WatchScope>,
    /// What became dirty during a pass that did not read it.
    unread: DirtySet,
    /// What a pass has drained and the driver has not got yet.
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

    /// Returns the namespace that they are of.
    pub(crate) fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }

    /// Returns what the events that wait mean to the driver.
    pub(crate) fn drain(&mut self) -> Result<Drained, Error> {
        let drained = self.drain_monitor()?;
        self.deliver(drained);
        Ok(std::mem::replace(&mut self.undelivered, Drained::Nothing))
    }

    /// Takes what became dirty until now.
    pub(crate) fn take_dirty(&mut self) -> DirtySet {
        if self.drain_monitor().is_err() {
            // The driver gets the error itself.
            return DirtySet::everything();
        }
        // A hint that the driver has not got yet is taken as well: this pass answers it.
        self.undelivered = match self.undelivered {
            Drained::Lost => Drained::Lost,
            Drained::Hint | Drained::Nothing => Drained::Nothing,
        };
        let mut dirty = std::mem::take(&mut self.unread);
        dirty.extend(self.monitor.take_dirty());
        dirty
    }

    /// Ignores what comes from the port of our socket from now on. Once the socket is closed, the
    /// port may be another's: then `None`.
    pub(crate) fn ignore_own_writes(&mut self, port: Option<u32>) {
        // Where it fails, our own writes cost a pass.
        let _ = self.monitor.ignore_own_writes(port);
    }

    /// Notes that a pass begins to read a part, or everything: what became dirty in it so far needs
    /// no other pass. Returns what became dirty.
    pub(crate) fn begin_read(&mut self, part: Option<&DirtyPart>) -> DirtySet {
        if self.drain_monitor().is_err() {
            // The driver gets the error itself.
            return DirtySet::everything();
        }
        let dirty = self.monitor.take_dirty();
        let outside = part.map(|part| part.outside(dirty.clone())).unwrap_or_default();
        if !outside.is_empty() {
            self.unread.extend(outside);
            self.deliver(Drained::Hint);
        }
        dirty
    }

    /// Makes sure that changes of what a pass is to read are reported from before the read.
    pub(crate) fn cover(&mut self, kinds: Kinds, protocol: u8) {
        if let Some(scope) = &self.scope
            && (scope.protocol != protocol || has_more(scope.kinds, kinds))
        {
            self.set_filter(WatchScope::new(kinds, protocol));
        }
    }

    /// Sets what is to be reported from now on, as of the read that has just been. Unless the pass
    /// was quiet, whatever happens may be what an undone op waits for. Returns false if that is not
    /// what is reported: the kernel does not take the filter.
    pub(crate) fn set_scope(&mut self, quiet: WatchScope, is_quiet: bool) -> bool {
        // If there is no scope, everything was reported so far.
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
            // What happened to those since the read was not reported.
            self.unread = DirtySet::everything();
            self.deliver(Drained::Hint);
        }
        is_set
    }

    /// Returns false if the kernel does not take the filter. Then the former one stays, and a pass
    /// over everything finds the rest.
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

/// Returns true if there are kinds now that were not there before.
fn has_more(before: Kinds, now: Kinds) -> bool {
    Kind::ALL.iter().any(|kind| now.contains(*kind) && !before.contains(*kind))
}

/// Returns true if a list names what a former one left out; `None` is a list of all.
fn grows<T: Ord>(before: &Option<BTreeSet<T>>, now: &Option<BTreeSet<T>>) -> bool {
    let lists = before.as_ref().zip(now.as_ref());
    lists.is_some_and(|(before, now)| !now.is_subset(before))
}

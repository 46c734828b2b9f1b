//! [`Monitor`]: turns the kernel's events into a [`DirtySet`].
//!
//! An event is never taken for state: it names what to read again. What the kernel removes without
//! an event (routes, when a link goes down, or an address or a nexthop object is deleted) is named
//! by what it depends on. Where an event cannot be read, or events were lost, everything is dirty.
//!
//! A socket filter drops the events outside of the scope in the kernel ([`mod@filter`]), so that
//! they neither wake the reader nor fill the queue.

mod filter;
mod kinds;
mod links;
mod watch_scope;
mod watched;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use trueup_netlink::{Error, ErrorKind, Multicast, Namespace};

use crate::dirty_set::DirtySet;
use crate::listener::listen;
pub use watch_scope::WatchScope;
use watched::EventReader;

/// The receive queue that a monitor asks for, in bytes as the kernel accounts for them: some 1,200
/// events. Without `CAP_NET_ADMIN` in the first user namespace the kernel gives at most
/// twice `net.core.rmem_max`, without an error.
pub const RECEIVE_BUFFER: usize = 1 << 20;

/// The limit of reads of one [`Monitor::drain`], each of up to 1,024 events.
const READS: usize = 16;
/// The limit of [`Monitor::writers`].
const WRITERS: usize = 16;

/// Listens to the events of one namespace. Its descriptor is for polling: when it is readable or in
/// error, call [`drain`](Self::drain).
#[derive(Debug)]
pub struct Monitor {
    events: Multicast,
    reader: EventReader,
    scope: WatchScope,
    /// The port whose events are ignored.
    own_port: Option<u32>,
    dirty: DirtySet,
    writers: BTreeSet<u32>,
    /// Events were lost, and the queue has not been empty since. Until it is, the kernel loses more
    /// without an error (`NETLINK_S_CONGESTED` in net/netlink/af_netlink.c).
    congested: bool,
}

/// The result of [`Monitor::drain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSummary {
    /// The number of events.
    pub events: usize,
    /// An event made something dirty.
    pub is_dirty: bool,
    /// Events were lost, and everything is dirty. Set once for each loss.
    pub lost: bool,
}

impl Monitor {
    /// Begins to listen to everything, until [`set_scope`](Self::set_scope). Asks for a receive
    /// queue of [`RECEIVE_BUFFER`]; [`receive_buffer`](Self::receive_buffer) returns what it got.
    ///
    /// # Errors
    ///
    /// As [`Multicast::open`].
    pub fn open(namespace: &Namespace) -> Result<Monitor, Error> {
        let mut events = listen(namespace)?;
        // A smaller queue is no error: a burst of events is then a loss, which is reported.
        if events.receive_buffer()? < RECEIVE_BUFFER {
            let _obtained = events.set_receive_buffer(RECEIVE_BUFFER);
        }
        Ok(Monitor {
            events,
            reader: EventReader::default(),
            scope: WatchScope::everything(),
            own_port: None,
            dirty: DirtySet::default(),
            writers: BTreeSet::new(),
            congested: false,
        })
    }

    /// Returns the cookie of the namespace, as [`Multicast::netns_cookie`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn cookie(&self) -> Result<u64, Error> {
        self.events.netns_cookie()
    }

    /// Sets the scope from now on. Read afterwards what is new in the scope: its earlier events
    /// were not read, or were dropped by the filter.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) when the kernel does not take the filter; the scope is then as before.
    pub fn set_scope(&mut self, scope: WatchScope) -> Result<(), Error> {
        if scope != self.scope {
            self.events.set_filter(&filter::program(&scope, self.own_port))?;
            self.scope = scope;
        }
        Ok(())
    }

    /// Ignores the events of the caller's own writes from now on, which carry the port id of the
    /// writing socket ([`Socket::port_id`](trueup_netlink::Socket::port_id)); `None` ends it.
    ///
    /// Some events do not carry it: those of links, IPv6 addresses and deleted neighbours, and of
    /// what the kernel derives from a write. And of what a write removes without an event, the
    /// caller must read the state itself.
    ///
    /// The socket filter drops them in the kernel. Those that it does not drop, because they are
    /// queued already, have to be [read](Self::drain) before `None`.
    ///
    /// # Errors
    ///
    /// As [`set_scope`](Self::set_scope).
    pub fn ignore_own_writes(&mut self, port: Option<u32>) -> Result<(), Error> {
        // The kernel's own events bear 0.
        let own_port = port.filter(|port| *port != 0);
        if own_port != self.own_port {
            self.events.set_filter(&filter::program(&self.scope, own_port))?;
            self.own_port = own_port;
        }
        Ok(())
    }

    /// Reads the queued events without waiting, some thousands at most; if there are more, the
    /// descriptor stays readable. Read the namespace after this call, not before it: after a loss
    /// the kernel loses more events until its queue is empty.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) when the socket cannot be read. Then everything is dirty.
    pub fn drain(&mut self) -> Result<EventSummary, Error> {
        let mut drained = EventSummary::default();
        for _ in 0..READS {
            let mut found = DirtySet::default();
            let Monitor { events, reader, scope, own_port, writers, .. } = self;
            let mut count = 0;
            let read = events.receive(Duration::ZERO, |message| {
                count += 1;
                let port = message.header.port;
                if *own_port == Some(port) {
                    return;
                }
                if reader.read(&message, scope, &mut found) && port != 0 && writers.len() < WRITERS
                {
                    writers.insert(port);
                }
            });
            drained.events += count;
            match read {
                Ok(0) => {
                    if std::mem::take(&mut self.congested) {
                        self.mark_everything_dirty();
                    }
                    break;
                }
                Ok(_) => {}
                Err(error) if error.is_loss() => {
                    drained.lost = true;
                    self.congested |= error.kind() == ErrorKind::Overrun;
                    self.mark_everything_dirty();
                }
                // The event could have named anything.
                Err(error) if error.kind() == ErrorKind::Malformed => self.mark_everything_dirty(),
                Err(error) => {
                    self.mark_everything_dirty();
                    return Err(error);
                }
            }
            drained.is_dirty |= !found.is_empty();
            self.dirty.extend(found);
        }
        drained.is_dirty |= self.dirty.everything;
        if self.congested {
            // The queue never was empty: later losses are reported by the next call.
            self.mark_everything_dirty();
        }
        Ok(drained)
    }

    /// Returns and clears the dirty set.
    pub fn take_dirty(&mut self) -> DirtySet {
        self.writers.clear();
        std::mem::take(&mut self.dirty)
    }

    /// Returns the port ids of the writers whose changes are in the dirty set, as far as the events
    /// carry them, up to a limit. The first netlink socket of a process has the process's id.
    pub fn writers(&self) -> &BTreeSet<u32> {
        &self.writers
    }

    /// Returns the size of the receive queue, as [`Multicast::receive_buffer`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive_buffer(&self) -> Result<usize, Error> {
        self.events.receive_buffer()
    }

    /// Sets the size of the receive queue, as [`Multicast::set_receive_buffer`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_receive_buffer(&mut self, bytes: usize) -> Result<usize, Error> {
        self.events.set_receive_buffer(bytes)
    }

    fn mark_everything_dirty(&mut self) {
        self.reader.forget();
        self.dirty = DirtySet::everything();
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

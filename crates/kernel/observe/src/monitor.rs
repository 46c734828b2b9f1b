//! [`Monitor`]: turns the kernel's events into a [`DirtySet`].
//!
//! An event names objects to read again. Only of a few kinds it also brings the object's state,
//! which a reader may use if it knows all others ([`DirtySet::objects`]). The kernel silently
//! removes routes when a link goes down, or an address or nexthop object is deleted. Such routes
//! are named by the object they depend on. If an event cannot be read, or events were lost,
//! everything is dirty.
//!
//! A socket filter drops events outside the scope in the kernel ([`mod@filter`]), so that they
//! neither wake the reader nor fill the queue.

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

/// The receive queue that a monitor requests, in bytes as the kernel accounts for them: about 1,200
/// events. Without `CAP_NET_ADMIN` in the first user namespace, the kernel silently gives at most
/// twice `net.core.rmem_max`.
pub const RECEIVE_BUFFER: usize = 1 << 20;

/// The limit of reads of one [`Monitor::drain`], each of up to 1,024 events.
const READS: usize = 16;
/// The limit of [`Monitor::writers`].
const WRITERS: usize = 16;

/// Listens to the events of one namespace. Poll its descriptor: if it is readable or in error, call
/// [`drain`](Self::drain).
///
/// ```
/// use std::os::fd::AsFd as _;
/// use trueup_netlink::Namespace;
/// use trueup_observe::Monitor;
///
/// let here = Namespace::current();
/// # let here = trueup_testkit::model::Kernel::new().namespace();
/// let mut monitor = Monitor::open(&here)?;
/// // ... wait until the descriptor is readable ...
/// let _ = monitor.as_fd();
/// if monitor.drain()?.is_dirty {
///     println!("to read again: {:?}", monitor.take_dirty());
/// }
/// # Ok::<(), trueup_netlink::Error>(())
/// ```
#[derive(Debug)]
pub struct Monitor {
    events: Multicast,
    reader: EventReader,
    scope: WatchScope,
    /// The port whose events are ignored.
    own_port: Option<u32>,
    dirty: DirtySet,
    writers: BTreeSet<u32>,
    /// True if events were lost and the queue has not been empty since. Until it is, the kernel
    /// loses more without an error (`NETLINK_S_CONGESTED` in net/netlink/af_netlink.c).
    congested: bool,
}

/// The effect of the events that one [`Monitor::drain`] read.
///
/// ```
/// use trueup_observe::EventSummary;
///
/// let quiet = EventSummary::default();
/// assert!(quiet.events == 0 && !quiet.is_dirty && !quiet.lost);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSummary {
    /// The number of events read in this call; 0 if none was queued.
    pub events: usize,
    /// True if an event made something dirty.
    pub is_dirty: bool,
    /// True if events were lost, so that everything is dirty. Set once for each loss.
    pub lost: bool,
}

impl Monitor {
    /// Begins to listen to everything, until [`set_scope`](Self::set_scope). Requests a receive
    /// queue of [`RECEIVE_BUFFER`]; [`receive_buffer`](Self::receive_buffer) returns its actual
    /// size.
    ///
    /// # Errors
    ///
    /// The same as [`Multicast::open`].
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

    /// Returns the cookie of the namespace, like [`Multicast::netns_cookie`].
    ///
    /// # Errors
    ///
    /// The same as [`Multicast::netns_cookie`].
    pub fn cookie(&self) -> Result<u64, Error> {
        self.events.netns_cookie()
    }

    /// Sets the scope from now on. Then read the objects new in the scope: their earlier events
    /// were not read, or were dropped by the filter.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if the kernel refuses the filter. The scope is then unchanged.
    pub fn set_scope(&mut self, scope: WatchScope) -> Result<(), Error> {
        if scope != self.scope {
            self.events.set_filter(&filter::program(&scope, self.own_port))?;
            self.scope = scope;
        }
        Ok(())
    }

    /// Ignores events of the caller's own writes from now on, recognised by the writing socket's
    /// port id ([`Socket::port_id`](trueup_netlink::Socket::port_id)). `None` ends it.
    ///
    /// Some events lack the port id: those of links, IPv6 addresses and deleted neighbours, and of
    /// objects that the kernel derives from a write. The caller must also read objects that a write
    /// removes silently.
    ///
    /// The socket filter drops the events in the kernel. Events already queued are not dropped, and
    /// must be [read](Self::drain) before `None`.
    ///
    /// # Errors
    ///
    /// The same as [`set_scope`](Self::set_scope).
    pub fn ignore_own_writes(&mut self, port: Option<u32>) -> Result<(), Error> {
        // The kernel's own events have port 0.
        let own_port = port.filter(|port| *port != 0);
        if own_port != self.own_port {
            self.events.set_filter(&filter::program(&self.scope, own_port))?;
            self.own_port = own_port;
        }
        Ok(())
    }

    /// Reads the queued events without waiting, a few thousand at most. If there are more, the
    /// descriptor stays readable. Read the namespace after this call, not before it: after a loss
    /// the kernel loses more events until its queue is empty.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if the socket cannot be read. Then everything is dirty.
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
            // The queue never was empty: the next call reports later losses.
            self.mark_everything_dirty();
        }
        Ok(drained)
    }

    /// Returns and clears the dirty set.
    ///
    /// ```
    /// use trueup_netlink::Namespace;
    /// use trueup_observe::Monitor;
    ///
    /// let here = Namespace::current();
    /// # let here = trueup_testkit::model::Kernel::new().namespace();
    /// let mut monitor = Monitor::open(&here)?;
    /// monitor.drain()?;
    /// let dirty = monitor.take_dirty();
    /// assert!(monitor.take_dirty().is_empty()); // the first call has cleared it
    /// # let _ = dirty;
    /// # Ok::<(), trueup_netlink::Error>(())
    /// ```
    pub fn take_dirty(&mut self) -> DirtySet {
        self.writers.clear();
        std::mem::take(&mut self.dirty)
    }

    /// Returns the port ids of the writers whose changes are in the dirty set, up to a limit, if
    /// the events have them. The first netlink socket of a process has the process's id.
    pub fn writers(&self) -> &BTreeSet<u32> {
        &self.writers
    }

    /// Returns the size of the receive queue, like [`Multicast::receive_buffer`].
    ///
    /// # Errors
    ///
    /// The same as [`Multicast::receive_buffer`].
    pub fn receive_buffer(&self) -> Result<usize, Error> {
        self.events.receive_buffer()
    }

    /// Sets the size of the receive queue, like [`Multicast::set_receive_buffer`].
    ///
    /// # Errors
    ///
    /// The same as [`Multicast::set_receive_buffer`].
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

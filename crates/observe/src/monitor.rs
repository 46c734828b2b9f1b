//! What becomes doubtful, learnt from the kernel's events.
//!
//! An event is never taken for state: it names what to look at. What the kernel takes along without a word (routes, when a
//! link goes down, an address is deleted, or a nexthop object) is named by what it goes with. Where nothing can be concluded,
//! because an event could not be read or events were lost, everything is named.
//!
//! What is of no interest is left out by the kernel already ([`mod@filter`]), so that it wakes nobody and overruns nothing.

mod event;
mod filter;
mod interest;

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use trueup_netlink::{Error, ErrorKind, Multicast, Namespace};

use crate::doubtful::DirtySet;
use crate::events::listen;
use event::Reader;
pub use interest::WatchScope;

/// How large a receive queue a monitor asks for, in bytes as the kernel accounts for them: some
/// 1,200 events. Without `CAP_NET_ADMIN` in the first user namespace the kernel gives no more than
/// twice `net.core.rmem_max`, and says nothing.
pub const RECEIVE_BUFFER: usize = 1 << 20;

/// How many reads one [`Monitor::drain`] makes at the most, each of up to 1,024 events.
const READS: usize = 16;
/// How many strangers are kept by name.
const WRITERS: usize = 16;

/// Listens to the events of one namespace. Its descriptor is for polling: readable, or in error, means
/// [`attend`](Self::drain).
#[derive(Debug)]
pub struct Monitor {
    events: Multicast,
    reader: Reader,
    interest: WatchScope,
    own: Option<u32>,
    /// The kernel leaves that out by itself.
    spared: Option<u32>,
    doubtful: DirtySet,
    writers: BTreeSet<u32>,
    /// Events were lost, and the queue has not been seen empty since. As long as it has not, the kernel loses more without
    /// a word (`NETLINK_S_CONGESTED` in net/netlink/af_netlink.c).
    congested: bool,
}

/// What a look at the events brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// How many there were.
    pub events: usize,
    /// Whether any of them makes something doubtful.
    pub is_dirty: bool,
    /// Events were lost: everything is doubtful. Told once for each time.
    pub lost: bool,
}

impl Monitor {
    /// Begins to listen, to everything at first: see [`set_scope`](Self::set_scope). It asks for a
    /// receive queue of [`RECEIVE_BUFFER`]; what it got is in
    /// [`receive_buffer`](Self::receive_buffer).
    ///
    /// # Errors
    ///
    /// As [`Multicast::open`].
    pub fn open(namespace: &Namespace) -> Result<Monitor, Error> {
        let mut events = listen(namespace)?;
        // As much as is allowed: where it stays as it was, a burst of events is a loss, which is
        // reported, and no error.
        if events.receive_buffer()? < RECEIVE_BUFFER {
            let _obtained = events.set_receive_buffer(RECEIVE_BUFFER);
        }
        Ok(Monitor {
            events,
            reader: Reader::default(),
            interest: WatchScope::everything(),
            own: None,
            spared: None,
            doubtful: DirtySet::default(),
            writers: BTreeSet::new(),
            congested: false,
        })
    }

    /// The cookie of the namespace, as [`Multicast::netns_cookie`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn cookie(&self) -> Result<u64, Error> {
        self.events.netns_cookie()
    }

    /// Sets what matters from now on. Read what is new in it afterwards: the events of it that came before are not told any
    /// more, and may have been left out already.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) when the kernel does not take the filter; what mattered before matters on.
    pub fn set_scope(&mut self, interest: WatchScope) -> Result<(), Error> {
        if interest != self.interest {
            self.events
                .set_filter(&filter::program(&interest, self.spared))?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Leaves out the events of our own writes from now on, which bear the port id of the socket that made them
    /// ([`Socket::port_id`](trueup_netlink::Socket::port_id)); `None`: no longer.
    ///
    /// Not all bear it: events of links, IPv6 addresses and deleted neighbours, and of what the kernel makes of a write, do
    /// not. And what a write takes along in silence is for the writer to look at.
    ///
    /// Of `many` writes the kernel is asked to leave the events out, so that they do not fill the queue. It compiles a program for
    /// that, which takes longer than to read the events of a few; those have to be [read](Self::drain) before they are no longer
    /// one's own.
    ///
    /// # Errors
    ///
    /// As [`set_scope`](Self::set_scope).
    pub fn ignore_own_writes(&mut self, port: Option<u32>, many: bool) -> Result<(), Error> {
        // The kernel's own events bear 0.
        let port = port.filter(|port| *port != 0);
        let spared = port.filter(|_| many || self.spared == port);
        if spared != self.spared {
            self.events
                .set_filter(&filter::program(&self.interest, spared))?;
            self.spared = spared;
        }
        self.own = port;
        Ok(())
    }

    /// Reads the events that are there, without waiting, some thousands at the most; if there are more, the descriptor stays
    /// readable. After a loss all are read, for the kernel goes on to lose until its queue is empty; so look at the namespace
    /// after this, not before.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) when the socket cannot be read. What was read before it is in
    /// [`take`](Self::take), and what was not is unknown.
    pub fn drain(&mut self) -> Result<Drained, Error> {
        let mut drained = Drained::default();
        for _ in 0..READS {
            let mut found = DirtySet::default();
            let Monitor {
                events,
                reader,
                interest,
                own,
                writers,
                ..
            } = self;
            let mut count = 0;
            let read = events.receive(Duration::ZERO, |message| {
                count += 1;
                let port = message.header.port;
                if *own == Some(port) {
                    return;
                }
                if reader.read(&message, interest, &mut found)
                    && port != 0
                    && writers.len() < WRITERS
                {
                    writers.insert(port);
                }
            });
            drained.events += count;
            match read {
                Ok(0) => {
                    if std::mem::take(&mut self.congested) {
                        self.doubt_everything();
                    }
                    break;
                }
                Ok(_) => {}
                Err(error) if error.is_loss() => {
                    drained.lost = true;
                    self.congested |= error.kind() == ErrorKind::Overrun;
                    self.doubt_everything();
                }
                // Nobody knows what it was to say.
                Err(error) if error.kind() == ErrorKind::Malformed => self.doubt_everything(),
                Err(error) => {
                    self.doubt_everything();
                    return Err(error);
                }
            }
            drained.is_dirty |= !found.is_empty();
            self.doubtful.extend(found);
        }
        drained.is_dirty |= self.doubtful.everything;
        if self.congested {
            // There is no end of it: what was lost since is told at the next look.
            self.doubt_everything();
        }
        Ok(drained)
    }

    /// What became doubtful since this was last asked.
    pub fn take(&mut self) -> DirtySet {
        self.writers.clear();
        std::mem::take(&mut self.doubtful)
    }

    /// The port ids of those who made something doubtful since [`take`](Self::take), as far as the kernel told, some of
    /// them where they are many. The first netlink socket of a process has the process's id.
    pub fn writers(&self) -> &BTreeSet<u32> {
        &self.writers
    }

    /// As [`Multicast::receive_buffer`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive_buffer(&self) -> Result<usize, Error> {
        self.events.receive_buffer()
    }

    /// As [`Multicast::set_receive_buffer`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn set_receive_buffer(&mut self, bytes: usize) -> Result<usize, Error> {
        self.events.set_receive_buffer(bytes)
    }

    fn doubt_everything(&mut self) {
        self.reader.forget();
        self.doubtful = DirtySet::everything();
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

//! [`Observer`]: the sockets through which snapshots are read.

use trueup_netlink::{Error, Namespace, Socket};

use crate::listener::{ChangeListener, ObservedChange, barrier};

/// Reads snapshots of one namespace.
///
/// Beside the socket for requests an observer has a listening socket, to notice another writer's
/// changes during a read. The caller's own writes do not count if they end before the read begins.
///
/// ```
/// use trueup_netlink::Namespace;
/// use trueup_observe::{Observer, ReadScope};
///
/// let here = Namespace::current();
/// # let here = trueup_testkit::model::Kernel::new().namespace();
/// let mut observer = Observer::open(&here)?;
/// let snapshot = observer.snapshot(&ReadScope::whole())?;
/// for link in &snapshot.observed.links {
///     println!("{}: {:?}", link.name, link.mtu);
/// }
/// # Ok::<(), trueup_netlink::Error>(())
/// ```
#[derive(Debug)]
pub struct Observer {
    pub(crate) namespace: Namespace,
    pub(crate) socket: Socket,
    pub(crate) listener: ChangeListener,
    pub(crate) alternate_sockets: AlternateSockets,
}

impl Observer {
    /// Opens the sockets in a namespace.
    ///
    /// # Errors
    ///
    /// The same as [`Socket::open`] and [`Multicast::open`](trueup_netlink::Multicast::open).
    pub fn open(namespace: &Namespace) -> Result<Observer, Error> {
        let mut observer = Observer::open_lazily(namespace)?;
        observer.listener.open()?;
        Ok(observer)
    }

    /// Opens only the socket for requests. The listening one is opened when a dump comes in several
    /// parts: then the dump starts again, and [`socket`](Self::socket) is another. This saves a
    /// third of the cost of a single small read.
    ///
    /// Do not use it beside a [`Monitor`](crate::Monitor): it may read a row whose deletion has
    /// already been announced.
    ///
    /// ```
    /// use trueup_netlink::Namespace;
    /// use trueup_observe::{Observer, ReadScope};
    ///
    /// // One socket, for a process that reads once.
    /// let here = Namespace::current();
    /// # let here = trueup_testkit::model::Kernel::new().namespace();
    /// let mut observer = Observer::open_lazily(&here)?;
    /// println!("{} routes", observer.snapshot(&ReadScope::whole())?.observed.routes.len());
    /// # Ok::<(), trueup_netlink::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open).
    pub fn open_lazily(namespace: &Namespace) -> Result<Observer, Error> {
        let pinned = namespace.pinned()?;
        Ok(Observer {
            socket: Socket::open(&pinned)?,
            listener: ChangeListener::new(pinned.clone()),
            alternate_sockets: AlternateSockets::new(pinned.clone()),
            namespace: pinned,
        })
    }

    /// Replaces the socket for requests, since the kernel continues a broken-off dump as long as
    /// its socket is read.
    pub(crate) fn replace_socket(&mut self) -> Result<(), Error> {
        let timeout = self.socket.timeout();
        self.socket = Socket::open(&self.namespace)?;
        self.socket.set_timeout(timeout);
        Ok(())
    }

    /// Returns the socket for requests, for use between two reads.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Makes the kernel queue no events until the next read, after any time.
    pub fn rest(&mut self) {
        self.listener.rest();
    }

    /// Records up to `limit` changes that the kernel announces from now on, until
    /// [`take_changes`](Self::take_changes).
    pub fn record_changes(&mut self, limit: usize) {
        self.listener.record_changes(limit);
    }

    /// Marks the caller's own writes as done. Changes announced up to now count as concurrent with
    /// them, later ones as after them ([`ObservedChange::is_after_writes`]).
    pub fn mark_writes_done(&mut self) {
        self.listener.mark_writes_done();
    }

    /// Ends [`record_changes`](Self::record_changes) and returns all changes in their order, or
    /// `None` if some may be missing. The kernel announces no proxy entries.
    pub fn take_changes(&mut self) -> Option<Vec<ObservedChange>> {
        // The kernel makes and announces most changes under one lock.
        barrier(&mut self.socket);
        self.listener.take_changes()
    }
}

/// The sizes of the parts in bytes. The kernel's own choice is about 32 KiB. It loses rows at the
/// borders of parts, so other sizes lose other rows.
const PART_SIZES: [usize; 3] = [20 * 1024, 28 * 1024, 12 * 1024];

/// Sockets for repeated dumps, each opened when first needed.
#[derive(Debug)]
pub(crate) struct AlternateSockets {
    namespace: Namespace,
    sockets: [Option<Socket>; PART_SIZES.len()],
}

impl AlternateSockets {
    /// The number of sockets.
    pub(crate) const COUNT: usize = PART_SIZES.len();

    pub(crate) fn new(namespace: Namespace) -> AlternateSockets {
        AlternateSockets { namespace, sockets: Default::default() }
    }

    /// Opens a socket that is not kept, with the timeout of `like`.
    pub(crate) fn open_another(&self, like: &Socket) -> Result<Socket, Error> {
        let mut socket = Socket::open(&self.namespace)?;
        socket.set_timeout(like.timeout());
        Ok(socket)
    }

    /// Returns the socket at an index, if it can be opened. It has the timeout of `like`.
    pub(crate) fn get(&mut self, at: usize, like: &Socket) -> Option<&mut Socket> {
        let slot = self.sockets.get_mut(at)?;
        if slot.is_none() {
            let size = *PART_SIZES.get(at)?;
            let mut socket = Socket::open_with_parts(&self.namespace, size).ok()?;
            socket.set_timeout(like.timeout());
            *slot = Some(socket);
        }
        slot.as_mut()
    }
}

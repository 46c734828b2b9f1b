//! A small model of the kernel for simulations: rtnetlink in memory, without privileges, clock,
//! threads or chance. The same messages always give the same answers.
//!
//! An object is a key and a bag of attributes. The model knows which requests create, replace,
//! append and delete, which objects go along with others, the announcements, and the errno of each
//! refused request. It knows links, addresses, neighbours, forwarding entries, nexthop objects,
//! routes and rules. Tests compare it with the running kernel (`tests/differential`).
//!
//! It does not know the policies of attributes, the kernel's error texts, or the kernel's handling
//! of malformed requests: test those on real kernels. It does not forward, resolve or learn,
//! lifetimes do not run, and addresses have no duplicate address detection.
//!
//! [`Kernel::namespace`] stands for a network namespace in trueup's crates, so an agent built on
//! them runs on the model unchanged:
//!
//! ```
//! use trueup_netlink::Socket;
//! use trueup_testkit::model::Kernel;
//!
//! let kernel = Kernel::new();
//! let mut socket = Socket::open(&kernel.namespace())?;
//! socket.check_privilege()?;
//! # Ok::<(), trueup_netlink::Error>(())
//! ```
//!
//! For judges of a simulation, [`Kernel::objects`] lists everything with its [`Origin`]: the
//! writers that created an object and changed it last. A writer is the user of one namespace from
//! [`Kernel::namespace_of`].

mod address;
mod address4;
mod address6;
mod bag;
mod derived4;
mod derived6;
mod dispatch;
mod dump;
mod forwarding;
mod link;
mod lookup;
mod mailbox;
mod neighbour;
mod nexthop;
mod numbers;
mod request;
mod route;
mod route4;
mod route6;
mod route_events;
mod routes;
mod rule;
mod socket;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use trueup_netlink::Namespace;

use crate::message::{Kind, RawMessage};

use address::Addresses;
use forwarding::Forwarding;
use link::Links;
use mailbox::Mailbox;
use neighbour::Neighbours;
use nexthop::Nexthops;
use request::Request;
use routes::Routes;
use rule::Rules;
use socket::Access;

/// The kernel version that the model imitates: Linux 6.18.
pub const VERSION: (u32, u32) = (6, 18);

/// A model of one network namespace. Clones share it; [`copy`](Self::copy) makes another.
///
/// ```
/// use trueup_testkit::model::Kernel;
///
/// let kernel = Kernel::new();
/// let before = kernel.revision();
/// let copy = kernel.copy(); // another namespace with the same objects
/// assert_eq!(copy.rows(), kernel.rows());
/// assert_eq!(kernel.revision(), before); // reading changes nothing
/// ```
#[derive(Clone)]
pub struct Kernel {
    state: Arc<Mutex<State>>,
    cookie: u64,
}

/// The identity of an object, and the writers that created and last changed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Unique among the namespace's objects, present and past. A route that replaces another is a
    /// new object.
    pub id: u64,
    /// The writer whose request created it, directly or as a consequence.
    pub created_by: u32,
    /// The writer whose request changed it last.
    pub changed_by: u32,
}

/// A rule of the kernel that the model can break, to prove the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// An IPv6 route without a metric keeps 0 instead of becoming 1024.
    Ipv6MetricStaysZero,
    /// IPv4 routes survive their link going down.
    Ipv4RoutesSurviveLinkDown,
    /// A route delete ignores the protocol.
    DeleteIgnoresProtocol,
    /// An address replaced without a lifetime keeps the one it had.
    AddressKeepsLifetime,
    /// A rule that already exists can be added again.
    RuleTwice,
    /// A neighbour replaced without `NDA_PROTOCOL` loses it.
    NeighbourLosesProtocol,
    /// A group keeps a deleted nexthop object.
    GroupsOutliveTheirNexthops,
    /// A destination appended to a forwarding entry replaces the others.
    AppendReplaces,
    /// A link accepts any MTU.
    MtuUnchecked,
}

impl Kernel {
    /// Makes a namespace in the state that [`quiet_netns`](crate::quiet_netns) leaves: `lo` is up,
    /// and addresses are usable at once. Its cookie is unique in this process.
    pub fn new() -> Self {
        static COOKIES: AtomicU64 = AtomicU64::new(1 << 32);
        Self::with_cookie(COOKIES.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes a namespace like [`new`](Self::new), with this cookie, for reproducible runs.
    pub fn with_cookie(cookie: u64) -> Self {
        let mut state = State::default();
        state.create_default_rules();
        state.create_loopback();
        Self { state: Arc::new(Mutex::new(state)), cookie }
    }

    /// Makes a namespace with one of the kernel's rules broken, for tests that must notice it.
    pub fn flawed(flaw: Flaw) -> Self {
        let kernel = Self::new();
        kernel.lock().flaw = Some(flaw);
        kernel
    }

    /// Returns another namespace with the same objects, the same cookie, and no sockets.
    #[must_use]
    pub fn copy(&self) -> Self {
        let mut state = self.lock().clone();
        state.mailboxes.clear();
        Self { state: Arc::new(Mutex::new(state)), cookie: self.cookie }
    }

    /// Returns a stand-in for the namespace: sockets opened in it reach this model, with
    /// `CAP_NET_ADMIN`. Its writer is 0.
    pub fn namespace(&self) -> Namespace {
        self.namespace_of(0)
    }

    /// Returns the same as [`namespace`](Self::namespace), for another writer.
    pub fn namespace_of(&self, writer: u32) -> Namespace {
        self.access(writer, true)
    }

    /// Returns the same as [`namespace`](Self::namespace), without `CAP_NET_ADMIN`: it can read
    /// everything and change nothing.
    pub fn namespace_unprivileged(&self) -> Namespace {
        self.access(0, false)
    }

    fn access(&self, writer: u32, is_admin: bool) -> Namespace {
        Namespace::through(Arc::new(Access { kernel: self.clone(), writer, is_admin }))
    }

    /// Returns the rows of all objects, as in dumps, with their writers, in a fixed order: links,
    /// addresses, neighbours, forwarding entries, nexthop objects, routes, rules. Each next hop of
    /// an IPv6 route is an object of its own.
    pub fn objects(&self) -> Vec<(RawMessage, Origin)> {
        let state = self.lock();
        let mut all = Vec::new();
        for kind in Kind::ALL {
            state.each(kind, &mut |row, origin| all.push((row, origin)));
        }
        all
    }

    /// Returns the rows of all [`objects`](Self::objects).
    pub fn rows(&self) -> Vec<RawMessage> {
        self.objects().into_iter().map(|(row, _)| row).collect()
    }

    /// Returns the number of requests so far that may have changed something. While it stays the
    /// same, so do the [`objects`](Self::objects).
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Sets `net.ipv6.route.skip_notify_on_dev_down`: if on, the IPv6 routes of a link that goes
    /// down are deleted without an announcement.
    pub fn skip_notify_on_link_down(&self, on: bool) {
        self.lock().routes.go_silently = on;
    }

    /// Ignores poisoning: a test thread's panic must not be hidden by another thread's panic on the
    /// lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "model kernel {}", self.cookie)
    }
}

/// Everything in the namespace. Each kind has a file with its part and its `impl State`; the files
/// reach each other only through the methods of `State`.
#[derive(Clone, Debug, Default)]
struct State {
    links: Links,
    addresses4: Addresses,
    addresses6: Addresses,
    /// The links with IPv6, by index; true if the link was ever up with a carrier since it was set
    /// up.
    ready6: BTreeMap<u32, bool>,
    forwarding: Forwarding,
    neighbours: Neighbours,
    nexthops: Nexthops,
    routes: Routes,
    rules: Rules,
    flaw: Option<Flaw>,
    /// The writer of the current request.
    writer: u32,
    created: u64,
    revision: u64,
    mailboxes: Vec<Weak<Mailbox>>,
    ports: u32,
}

/// The request that caused an announcement, which then has its sender and sequence number. `None`
/// for consequences, which the kernel announces in its own name.
type By<'a, 'b> = Option<&'a Request<'b>>;

impl State {
    fn has_flaw(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Returns the origin of a new object.
    fn new_origin(&mut self) -> Origin {
        self.created += 1;
        Origin { id: self.created, created_by: self.writer, changed_by: self.writer }
    }

    /// Returns the new origin of an object that the request changes.
    fn changed(&self, origin: Origin) -> Origin {
        Origin { changed_by: self.writer, ..origin }
    }

    fn has_carrier(&self, index: u32) -> bool {
        self.links.get(index).is_some_and(|link| link.carrier)
    }

    fn is_up(&self, index: u32) -> bool {
        self.links.get(index).is_some_and(|link| link.is_up())
    }

    fn is_loopback(&self, index: u32) -> bool {
        self.links.get(index).is_some_and(|link| link.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{framed, push_attribute};

    fn rule(namespace: &Namespace, sequence: u32, priority: u32) {
        let mut body = vec![0; Kind::Rule.header_len()];
        (body[0], body[7]) = (2, 1);
        push_attribute(&mut body, 6, &priority.to_ne_bytes());
        let message = framed(32, 0x401, sequence, 0, &body);
        namespace.connect().unwrap().send(&message).unwrap();
    }

    #[test]
    fn each_object_has_its_writers_and_a_copy_goes_its_own_way() {
        let kernel = Kernel::with_cookie(7);
        let before = kernel.objects();
        assert!(before.iter().all(|(_, origin)| origin.created_by == 0));
        rule(&kernel.namespace_of(5), 1, 10);
        let new = |kernel: &Kernel| -> Vec<_> {
            let objects = kernel.objects().into_iter();
            objects.filter(|object| !before.contains(object)).collect()
        };
        let copy = kernel.copy();
        assert_eq!(kernel.revision(), copy.revision());
        rule(&copy.namespace_of(6), 1, 11);
        assert_eq!(new(&copy).len(), 2);
        let [(_, origin)] = &new(&kernel)[..] else {
            panic!("one rule was created");
        };
        assert_eq!((origin.created_by, origin.changed_by), (5, 5));
        let cookie = |kernel: &Kernel| kernel.namespace().connect().unwrap().netns_cookie();
        assert_eq!(cookie(&kernel).unwrap(), cookie(&copy).unwrap());
    }
}

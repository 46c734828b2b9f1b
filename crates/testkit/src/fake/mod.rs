//! A fake kernel that tells the truth: rtnetlink at the level of its messages, in memory, without privileges.
//!
//! It keeps the identity of objects, the defaults, the silent losses, the ownership markers and the errors of the real
//! one, for links, addresses, neighbours, nexthop objects, routes and rules. That it does is not promised but tested:
//! random sequences of raw messages go to it and to the running kernel, and every reply, every dump and every
//! announcement has to agree (`tests/differential`).
//!
//! [`Kernel::namespace`] gives what stands for a network namespace in trueup's crates, so an agent built on them runs on
//! the fake unchanged:
//!
//! ```
//! use trueup_netlink::Socket;
//! use trueup_testkit::fake::Kernel;
//!
//! let kernel = Kernel::new();
//! let mut socket = Socket::open(&kernel.namespace())?;
//! socket.check_privilege()?;
//! # Ok::<(), trueup_netlink::Error>(())
//! ```
//!
//! What it does not do: forward, resolve, learn, or let time pass by itself. Lifetimes do not run, and duplicate
//! address detection, where `accept_dad` asks for it, lasts until [`Kernel::finish_duplicate_detection`].
//!
//! A dump is always whole. The real kernel makes its parts as large as what the socket has received with before, on a
//! fresh one less than a page, and a first row that does not fit (an IPv4 route of some 240 next hops) ends the dump: empty,
//! and by what its end says without an error.
//!
//! One file an object, each with what it holds, its three requests and its part of what links do to it:
//! `State` is where they meet.

mod address4;
mod address6;
mod client;
mod dispatch;
mod fdb;
mod link;
mod metrics;
mod neighbour;
mod nexthop;
mod policy;
mod request;
mod route4;
mod route6;
mod rule;
mod state;
mod sysctl;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trueup_netlink::{Connect, Namespace, Transport};

use client::Client;
pub use state::Flaw;
pub(crate) use state::State;

/// The kernel that the fake is compared with, and does as: Linux 6.18.
pub const VERSION: (u32, u32) = (6, 18);

/// A fake kernel: one network namespace. Clones are the same one.
#[derive(Clone)]
pub struct Kernel {
    state: Arc<Mutex<State>>,
}

impl Kernel {
    /// A namespace as [`quiet_netns`](crate::quiet_netns) makes it: `lo` is up, and addresses are usable at once.
    pub fn new() -> Self {
        Self::over(State::new())
    }

    /// One with a rule of the real kernel broken, for tests that must notice.
    pub fn flawed(flaw: Flaw) -> Self {
        let mut state = State::new();
        state.flaw = Some(flaw);
        Self::over(state)
    }

    fn over(state: State) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// What stands for the namespace: sockets opened in it speak to this kernel, with `CAP_NET_ADMIN`.
    pub fn namespace(&self) -> Namespace {
        self.access(true)
    }

    /// As [`namespace`](Self::namespace), without `CAP_NET_ADMIN`: everything can be read and nothing changed.
    pub fn namespace_unprivileged(&self) -> Namespace {
        self.access(false)
    }

    fn access(&self, admin: bool) -> Namespace {
        Namespace::through(Arc::new(Access {
            kernel: self.clone(),
            admin,
        }))
    }

    /// Writes a setting below `/proc/sys`, such as `net.ipv6.conf.v0.disable_ipv6`; the name of a device may hold dots
    /// if the parts are separated by slashes, as sysctl(8) has it.
    ///
    /// # Errors
    ///
    /// The name, when the fake knows no such setting or not that value.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), String> {
        self.lock().sysctl(name, value)
    }

    /// Ends duplicate address detection, without a finding: IPv6 addresses that were tentative can be used. The real kernel
    /// takes a second or two.
    ///
    /// Only links with `accept_dad` (and a carrier) detect at all; [`new`](Self::new) makes a namespace without.
    pub fn finish_duplicate_detection(&self) {
        self.lock().finish_duplicate_detection();
    }

    /// A panic of one test thread must not be hidden by another's on the lock.
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
        f.write_str("fake kernel")
    }
}

/// A way into a fake kernel.
#[derive(Debug)]
struct Access {
    kernel: Kernel,
    admin: bool,
}

impl Connect for Access {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(Client::open(&self.kernel, self.admin)?))
    }
}

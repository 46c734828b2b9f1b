//! Passes that are refused a socket, at the start or for a dump in several parts, or a dump.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trueup_net::{Desired, IfName, Route, RouteType};
use trueup_netlink::wire::{Header, NLM_F_DUMP};
use trueup_netlink::{Connect, Group, Transport};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{Kind, ip_batch};

use crate::support::{converge, ours, rows};

const EMFILE: i32 = 24;
const THEIRS: u8 = 4;

/// Allows this many sockets, and is then out of descriptors.
#[derive(Debug)]
struct Scarce(AtomicUsize);

impl Connect for Scarce {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        take(&self.0)?;
        Namespace::current().connect().map_err(io::Error::other)
    }
}

/// Allows this many dump requests, and is then out of descriptors.
#[derive(Debug)]
struct Failing(Arc<AtomicUsize>);

impl Connect for Failing {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let inner = Namespace::current().connect().map_err(io::Error::other)?;
        Ok(Box::new(FailingSocket { inner, left: Arc::clone(&self.0) }))
    }
}

struct FailingSocket {
    inner: Box<dyn Transport>,
    left: Arc<AtomicUsize>,
}

impl Transport for FailingSocket {
    fn port(&self) -> u32 {
        self.inner.port()
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.inner.prepare_requests()
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        self.inner.join(group)
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        self.inner.receive_buffer()
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        self.inner.set_receive_buffer(bytes)
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        self.inner.netns_cookie()
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        if Header::read(datagram).is_some_and(|header| header.flags & NLM_F_DUMP == NLM_F_DUMP) {
            take(&self.left)?;
        }
        self.inner.send(datagram)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.inner.receive(buffer)
    }
}

impl AsFd for FailingSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Uses up one of the remaining number.
fn take(left: &AtomicUsize) -> io::Result<()> {
    let order = Ordering::Relaxed;
    let taken = left.fetch_update(order, order, |left| left.checked_sub(1));
    taken.map(drop).map_err(|_| io::Error::from_raw_os_error(EMFILE))
}

fn desired(numbers: Range<u32>) -> Desired {
    let blackhole = |n| {
        let dst = format!("fd60:0:{n:x}::/64").parse().unwrap();
        Route::<IfName>::of_type(RouteType::Blackhole, dst)
    };
    Desired::default().with_routes(numbers.map(blackhole).collect::<Vec<_>>())
}

/// Enough routes for several parts of a dump.
const MANY: u32 = 7_000;

/// Deletes all routes but the last five, through a namespace that allows a little more each time,
/// until the pass converges. Returns the number of passes that could not run, and of those that
/// could not verify.
fn with_too_little(namespace: impl Fn(usize) -> Namespace) -> (usize, usize) {
    let foreign = || rows(Kind::Route, |row, _| row.protocol() == Some(THEIRS));
    let few = desired(MANY - 5..MANY);
    let (mut refused, mut unverified) = (0, 0);
    loop {
        let made = converge(&desired(0..MANY), &MemoryLedger::default());
        let (before, theirs) = (ours(Kind::Route), foreign());
        assert_eq!((before.len(), theirs.len()), (MANY as usize, 1));
        let scarce = namespace(refused + unverified);
        let mut ledger = made.ledger().clone();
        let passed =
            Rtnl::new().reconcile(PassInput::new(&scarce, &few, &mut ledger, &Options::default()));
        assert_eq!(foreign(), theirs);
        match passed {
            Err(error) => {
                assert_eq!(error.errno(), Some(EMFILE), "{error}");
                assert_eq!(ours(Kind::Route), before, "{error}");
                refused += 1;
            }
            Ok(report) => {
                assert_eq!(ours(Kind::Route).len(), 5);
                if report.converged() {
                    return (refused, unverified);
                }
                assert!(report.trouble().is_some(), "{report:?}");
                unverified += 1;
            }
        }
    }
}

// invariant 2
// invariant 6
pub(crate) fn a_pass_without_a_socket_for_its_dump_deletes_nothing_and_says_so() {
    ip_batch(["route add blackhole fd60:0:7:1::/64 protocol static"]);
    let scarce = |left| Namespace::through(Arc::new(Scarce(AtomicUsize::new(left))));
    // One at the start, one to replace a broken dump's, and one that listens during its repetition.
    // The remaining routes come in one part.
    assert_eq!(with_too_little(scarce), (3, 0));
}

// invariant 2
// invariant 6
pub(crate) fn a_pass_whose_verifying_dump_fails_has_not_converged() {
    ip_batch(["route add blackhole fd60:0:7:1::/64 protocol static"]);
    let failing = |left| Namespace::through(Arc::new(Failing(Arc::new(AtomicUsize::new(left)))));
    let (refused, unverified) = with_too_little(failing);
    assert!(refused > 0 && unverified > 0, "{refused}, {unverified}");
}

//! Passes that are refused a socket: those at the begin, and those that are opened anew for a dump
//! in several parts.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trueup_net::{Desired, IfName, Route, RouteType};
use trueup_netlink::{Connect, Transport};
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{Kind, ip_batch};

use crate::support::{converge, ours, rows};

const EMFILE: i32 = 24;
const WORDS: &str = "cannot open a netlink socket: ";
const THEIRS: u8 = 4;

/// Opens so many sockets, and is out of descriptors then.
#[derive(Debug)]
struct Scarce(AtomicUsize);

impl Connect for Scarce {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let left = |left: usize| left.checked_sub(1);
        let order = Ordering::Relaxed;
        match self.0.fetch_update(order, order, left) {
            Ok(_) => Namespace::current().connect().map_err(io::Error::other),
            Err(_) => Err(io::Error::from_raw_os_error(EMFILE)),
        }
    }
}

fn desired(numbers: Range<u32>) -> Desired {
    let blackhole = |n| {
        let dst = format!("fd60:0:{n:x}::/64").parse().unwrap();
        Route::<IfName>::of_type(RouteType::Blackhole, dst)
    };
    Desired::default().with_routes(numbers.map(blackhole).collect::<Vec<_>>())
}

/// As many as fill several parts of a dump, and as many deletes as close the socket that listens.
const MANY: u32 = 7_000;

/// Deletes all but the last `kept` routes, with one more socket each time until it converges.
/// Returns how many passes could not run, and how many could not verify.
fn with_too_few_sockets(kept: u32) -> (usize, usize) {
    let foreign = || rows(Kind::Route, |row, _| row.protocol() == Some(THEIRS));
    let few = desired(MANY - kept..MANY);
    let (mut refused, mut unverified) = (0, 0);
    loop {
        let made = converge(&desired(0..MANY), &MemoryLedger::default());
        let (before, theirs) = (ours(Kind::Route), foreign());
        assert_eq!((before.len(), theirs.len()), (MANY as usize, 1));
        let sockets = Scarce(AtomicUsize::new(refused + unverified));
        let scarce = Namespace::through(Arc::new(sockets));
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
                assert_eq!(ours(Kind::Route).len(), kept as usize);
                if report.converged() {
                    return (refused, unverified);
                }
                let trouble = report.trouble().unwrap_or_default();
                assert!(trouble.contains(WORDS), "{trouble:?}");
                unverified += 1;
            }
        }
    }
}

// invariant 2
// invariant 6
pub(crate) fn a_pass_without_a_socket_for_its_dump_deletes_nothing_and_says_so() {
    ip_batch(["route add blackhole fd60:0:7:1::/64 protocol static"]);
    // With few routes: one at the begin, one in place of that of a dump that was broken off, and
    // one that listens while it is repeated. All that is left comes in one part.
    assert_eq!(with_too_few_sockets(5), (3, 0));
    // With many: both at the begin. That which listens is closed for the deletes, so that the dump
    // that verifies is broken off and repeated as well.
    assert_eq!(with_too_few_sockets(2_000), (2, 2));
}

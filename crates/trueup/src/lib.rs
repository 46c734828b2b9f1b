//! Makes the Linux kernel's network state agree with a declared one, deletes only what it owns, and
//! says why for every change.
//!
//! This crate only re-exports: each module below is a crate of its own, to be had alone, and what
//! the example needs is here at the top as well.
//!
//! | module | take this when |
//! |---|---|
//! | [`diff`] | you have both states as data and want the ops between them |
//! | [`netlink`] | you speak rtnetlink yourself |
//! | [`observe`] | you want to see a namespace as typed objects, and how sure that is |
//! | [`apply`] | you have a plan and want it carried out, with one outcome an op |
//! | [`rtnl`] | you want a whole pass: look, compare, change, look again, report |
//! | [`sysctl`] | you want values under `/proc/sys` to hold as well |
//! | [`reconcile`] | you have another subsystem to put under the same loop |
//! | [`journal`] | you want what is ours, or what is under way, to survive a crash |
//! | [`driver`] | you want passes again and again: by timer, by hint, on demand |
//!
//! One pass over the namespace `blue`:
//!
//! ```standalone_crate
//! # trueup_testkit::example();
//! # let _blue = trueup_testkit::named_netns("blue");
//! use trueup::{Address, Desired, Link, LinkKind, Namespace, NextHop, NextHops, Options, Route};
//! use trueup::{MemoryLedger, Report as _, Rtnl, Source as _};
//!
//! let desired = Desired {
//!     links: Some(vec![Link { up: Some(true), ..Link::new("ifb0".parse()?, LinkKind::Ifb) }]),
//!     addresses: Some(vec![Address::new("ifb0".parse()?, "10.1.0.1/24".parse()?)]),
//!     routes: Some([Route::new("10.2.0.0/16".parse()?, NextHops::One(NextHop::via([10, 1, 0, 9].into())))].into()),
//!     ..Desired::default()                // no opinion on neighbours and rules
//! };
//! let namespace: Namespace = "blue".parse()?;
//! let mut ledger = MemoryLedger::default(); // what proves links to be ours; `journal` has one that outlives us
//! let report = Rtnl::new().reconcile(&namespace, &desired, &mut ledger, &Options::default())?;
//! for (done, why) in report.failed() {
//!     eprintln!("{:?} {:?}: {why}", done.op.action, done.op.object.key());
//! }
//! println!("converged: {}", report.converged());
//! # assert!(report.converged() && ledger != MemoryLedger::default());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub use trueup_apply as apply;
pub use trueup_diff as diff;
pub use trueup_journal as journal;
pub use trueup_loop as driver;
pub use trueup_netlink as netlink;
pub use trueup_observe as observe;
pub use trueup_reconcile as reconcile;
pub use trueup_rtnl as rtnl;
pub use trueup_sysctl as sysctl;

pub use trueup_diff::{
    Address, Desired, Link, LinkKind, Neighbour, NextHop, NextHops, Route, RouteType, Rule,
};
pub use trueup_reconcile::{MemoryLedger, Report, Source};
pub use trueup_rtnl::{Namespace, Options, Rtnl};

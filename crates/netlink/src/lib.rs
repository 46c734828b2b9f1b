//! The wire room of trueup: blocking rtnetlink in a network namespace.
//!
//! - [`Namespace`] names a namespace, opens it, runs code in it; [`boot_id`] names the boot;
//! - [`Socket`] makes requests, dumps ([`Socket::dump`]) and batches ([`Socket::send_batch`]);
//! - [`Multicast`] listens to events, and [`filter`] has the kernel leave out those of no interest;
//! - [`markers`] tells which objects' markers the kernel keeps;
//! - [`Error`] and [`KernelError`] keep the kernel's errno and its own words;
//! - [`Transport`] and [`Connect`] are what they speak through, for those who put something between;
//! - [`wire`] is the byte level for those who read and write messages themselves.
//!
//! Its rules: every wait is bounded; nothing is ever cut short in silence; each message of a batch
//! has exactly one outcome, and a lost answer is never taken for success; a dump says whether it
//! is whole. It does not decide what to change, and needs no async runtime.
//!
//! ```standalone_crate
//! # trueup_testkit::example();
//! # let _blue = trueup_testkit::named_netns("blue");
//! use trueup_netlink::wire::MessageWriter;
//! use trueup_netlink::{Namespace, Socket};
//!
//! const RTM_DELLINK: u16 = 17;
//! const IFLA_IFNAME: u16 = 3;
//!
//! let mut socket = Socket::open(&"blue".parse::<Namespace>()?)?;
//! let mut request = Vec::new();
//! let mut message = MessageWriter::begin(&mut request, RTM_DELLINK, 0);
//! message.body(&[0; 16]);
//! message.attr_string(IFLA_IFNAME, b"veth0");
//! message.finish()?;
//! if let Err(error) = socket.request(&request) {
//!     eprintln!("{error}"); // No such device (ENODEV 19)
//! #   assert_eq!(error.to_string(), "No such device (ENODEV 19)");
//! }
//! # Ok::<(), trueup_netlink::Error>(())
//! ```

mod batch;
mod boot_id;
mod channel;
pub mod codec;
mod dump;
mod error;
mod extack;
pub mod filter;
mod group;
mod kernel_error;
mod kernel_socket;
mod markers;
mod multicast;
mod netns;
mod socket;
mod socket_options;
mod transport;
pub mod wire;

pub use batch::{BATCH_BYTES, BATCH_MESSAGES, Batch, Outcome, Push};
pub use boot_id::boot_id;
pub use dump::{DUMP_ATTEMPTS, Dump, DumpStep};
pub use error::{Error, ErrorKind, is_transient};
pub use group::Group;
pub use kernel_error::{Attribute, KernelError, Missing, Policy};
pub use markers::{Marker, Markers, markers};
pub use multicast::Multicast;
pub use netns::Namespace;
pub use socket::{DEFAULT_TIMEOUT, Socket};
pub use transport::{Connect, Transport};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/netlink.md")]
struct ContractPage;

#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]
mod batch;
mod boot_id;
mod channel;
pub mod codec;
mod dump;
mod error;
mod extack;
pub mod filter;
mod kernel_error;
mod markers;
mod multicast;
mod netns;
#[cfg(feature = "packet")]
#[cfg_attr(docsrs, doc(cfg(feature = "packet")))]
pub mod packet;
mod socket;
mod socket_options;
mod transport;
pub mod wire;

pub use batch::{BATCH_BYTES, BATCH_MESSAGES, Batch};
pub use boot_id::boot_id;
pub use dump::{DUMP_ATTEMPTS, Dump, DumpStep};
pub use error::{Error, ErrorKind, is_transient};
pub use kernel_error::{Answer, KernelError};
pub use markers::marker;
pub use multicast::Multicast;
pub use netns::{Connect, Namespace, NamespaceId};
pub use socket::{DEFAULT_TIMEOUT, Socket};
pub use transport::{Group, Transport};

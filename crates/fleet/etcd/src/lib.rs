#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod administrator;
mod config;
mod endpoints;
mod exposure;
mod failure;
mod lease;
mod members;
mod read;
mod runtime;
mod store;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
#[expect(clippy::disallowed_methods, reason = "for tests: in folders that it makes itself")]
pub mod testing;
mod watch;

pub use administrator::Administrator;
pub use config::{Config, User, read_password};
pub use exposure::Exposure;
pub use store::EtcdStore;

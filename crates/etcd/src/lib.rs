#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod administrator;
mod config;
mod endpoints;
mod failure;
mod lease;
mod members;
mod read;
mod runtime;
mod store;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;
mod watch;

pub use administrator::Administrator;
pub use config::{Config, User, read_password};
pub use store::EtcdStore;

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod administrator;
mod config;
mod endpoints;
mod failure;
mod lease;
mod members;
mod read;
mod runtime;
mod store;
mod watch;

pub use administrator::{Administrator, Exposure};
pub use config::{Config, User, read_password};
pub use store::EtcdStore;

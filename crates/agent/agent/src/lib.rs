#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod core_dumps;
#[doc(hidden)]
pub mod declared;
#[doc(hidden)]
pub mod desired_file;
#[doc(hidden)]
pub mod graph;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod observe;
mod options;
#[doc(hidden)]
pub mod state;
#[doc(hidden)]
pub mod status;
#[doc(hidden)]
pub mod target;
#[doc(hidden)]
pub mod verdict;
#[doc(hidden)]
pub mod watch;
#[doc(hidden)]
pub mod words;
#[doc(hidden)]
pub mod world;

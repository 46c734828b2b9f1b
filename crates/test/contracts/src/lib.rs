#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "control")]
#[cfg_attr(docsrs, doc(cfg(feature = "control")))]
pub mod control;
#[cfg(feature = "etcd")]
#[cfg_attr(docsrs, doc(cfg(feature = "etcd")))]
pub mod etcd;
#[cfg(feature = "keyed")]
#[cfg_attr(docsrs, doc(cfg(feature = "keyed")))]
pub mod keyed;
#[cfg(feature = "world")]
#[cfg_attr(docsrs, doc(cfg(feature = "world")))]
pub mod world;

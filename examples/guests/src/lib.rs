#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod action;
pub mod agent;
pub mod backend;
pub mod backup;
mod devices;
mod events;
pub mod file;
mod firmware;
pub mod guest;
pub mod host;
pub mod key;
pub mod objects;
pub mod overlay;
pub mod qmp;
pub mod snapshot;
mod start;
pub mod task;

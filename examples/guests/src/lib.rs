#![doc = include_str!("../README.md")]

pub mod file;
mod firmware;
pub mod guest;
pub mod host;
pub mod key;
pub mod qmp;
pub mod task;

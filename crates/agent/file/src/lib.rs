#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod collect;
mod domain;
mod element;
mod error;
mod fields;
mod file;
mod file_keys;
mod graph;
mod json;
mod kinds;
mod location;
mod order_check;
mod parse;
mod read;
mod section;
mod settings;
mod suggest;
mod sysctl;
mod tables;
mod toml;
mod value;
mod world;
mod write;

pub use error::{Diagnostic, Error};
pub use file::{File, OwnElement};
pub use graph::{Exec, FileContent, ManagedFile, NodeRef};
pub use location::{Location, Locations};
pub use settings::Settings;
pub use suggest::nearest;
pub use tables::TableNames;
pub use world::{Export, World, exported_route};
pub use write::{to_json, to_toml};

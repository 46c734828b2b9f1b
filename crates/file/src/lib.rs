#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod collect;
mod domain;
mod error;
mod fields;
mod file;
mod file_keys;
mod graph;
mod json;
mod kinds;
mod list;
mod location;
mod parse;
mod section;
mod settings;
mod suggest;
mod sysctl;
mod tables;
mod toml;
mod value;
mod world;
mod write;

pub use error::{Diagnostic, Error, ErrorKind};
pub use file::File;
pub use graph::{Exec, FileContent, ManagedFile, NodeRef, Owner, Semaphore};
pub use location::{Location, Locations};
pub use settings::Settings;
pub use tables::TableNames;
pub use world::{
    Acceptance, Accepted, Certificate, Collect, Credentials, Export, Hosts, Origin, Overlap,
    Partition, Refused, Resource, StoreAddress, World, accept,
};
pub use write::{to_json, to_toml};

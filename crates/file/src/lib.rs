//! The desired-state file: from TOML or JSON to the objects it declares, and back.
//!
//! Everything that can be wrong with a file is found here, without asking the kernel, and reported
//! with line, column and what to write instead. What only the kernel or the links that exist can
//! tell (an unknown device, a gateway out of reach) comes later; [`Places`] keeps where each
//! object was written, so that it can be reported as well. The keys are in `docs/file.md`.
//!
//! A file is read object by object: it may have a million routes.

#![forbid(unsafe_code)]

mod collect;
mod error;
mod fields;
mod file;
mod file_keys;
mod json;
mod kinds;
mod parse;
mod place;
mod settings;
mod suggest;
mod sysctl;
mod tables;
mod toml;
mod value;
mod write;

pub use error::{Error, ErrorKind, Problem};
pub use file::File;
pub use place::{Place, Places};
pub use settings::Settings;
pub use tables::Tables;
pub use write::{to_json, to_toml};

#![doc = include_str!("../README.md")]
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

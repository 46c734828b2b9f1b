#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod folder;
mod names;
mod ours;
mod place;
mod replacement;
mod users;
mod walk;

pub use error::{Error, ErrorKind};
pub use folder::Folder;
pub use ours::{Readers, open_any, read};
pub use place::Place;
pub use replacement::Replacement;
pub use users::{Control, TrustedUsers};

#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod control;
mod error;
mod folder;
mod names;
mod place;
mod program;
mod read;
mod remove;
mod replacement;
mod users;
mod walk;

pub use control::Control;
pub use error::{Error, ErrorKind};
pub use folder::Folder;
pub use place::Place;
pub use read::{Readers, open_any, read};
pub use replacement::Replacement;
pub use users::TrustedUsers;

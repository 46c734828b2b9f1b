//! Vertices for what most agents need.

mod at_path;
mod command;
mod created;
mod exec;
mod file;
mod inherited;
mod predecessor;
mod source;
mod watch_file;

pub use exec::Exec;
pub use file::{File, Places};
pub use source::SourceVertex;

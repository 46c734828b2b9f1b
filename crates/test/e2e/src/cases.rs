//! Random cases: desired states, another writer's acts between two passes, and the resulting state
//! expected of the kernel.

pub mod author;
pub mod expect;
mod links;
mod objects;
pub mod other_writer;
mod route;
pub mod spec;

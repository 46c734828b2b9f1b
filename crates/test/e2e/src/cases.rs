//! Random cases: desired states, what another writer does between two passes, and what the kernel
//! has to hold afterwards.

pub mod author;
pub mod expect;
mod links;
mod objects;
pub mod other_writer;
mod route;
pub mod spec;

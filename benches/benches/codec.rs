//! The diff alone.
fn main() {}

//! Attacks by another user of the host. As root, the tests give the other user's folders to user
//! 4242. As an ordinary user, the caller's own folders count as another user's, because the library
//! runs as if for user 4242.

#![allow(clippy::unwrap_used)]

mod folders;
mod race;
mod read;
mod stage;
mod write;

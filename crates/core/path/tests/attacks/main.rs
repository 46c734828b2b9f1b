//! What another user of the host tries. As root, the other user's folders are given to user 4242;
//! as an ordinary user, the caller's own folders are those of another user, since the library runs
//! as if for user 4242.

#![allow(clippy::unwrap_used)]

mod folders;
mod race;
mod read;
mod stage;
mod write;

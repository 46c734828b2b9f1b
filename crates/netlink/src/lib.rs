//! The wire room of trueup: blocking rtnetlink sockets and the bytes that go through them.

pub mod wire;

//! IPv4 addresses (`net/ipv4/devinet.c`).

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Addresses4 {}

impl State {
    pub(crate) fn new_address4(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_address4(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_addresses4(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn addresses4_up(&mut self, _index: u32) {}

    pub(crate) fn addresses4_gone(&mut self, _index: u32) {}

    pub(crate) fn addresses4_mtu(&mut self, _index: u32) {}

    pub(crate) fn addresses4_renamed(&mut self, _index: u32, _before: &[u8]) {}
}

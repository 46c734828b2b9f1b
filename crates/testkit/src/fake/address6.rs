//! IPv6 addresses (`net/ipv6/addrconf.c`).

use crate::message::RawMessage;

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Addresses6 {}

impl State {
    pub(crate) fn new_address6(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_address6(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_addresses6(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn get_address6(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn addresses6_registered(&mut self, _index: u32) {}

    pub(crate) fn addresses6_up(&mut self, _index: u32) {}

    pub(crate) fn addresses6_down(&mut self, _index: u32) {}

    pub(crate) fn addresses6_carrier(&mut self, _index: u32, _on: bool) {}

    pub(crate) fn addresses6_gone(&mut self, _index: u32) {}

    pub(crate) fn addresses6_mtu(&mut self, _index: u32) {}
}

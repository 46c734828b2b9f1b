//! IPv6 routes (`net/ipv6/route.c`, `ip6_fib.c`).

use crate::message::RawMessage;

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Routes6 {}

impl State {
    pub(crate) fn new_route6(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_route6(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_routes6(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn get_route6(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn routes6_down(&mut self, _index: u32) {}

    pub(crate) fn routes6_carrier(&mut self, _index: u32, _on: bool) {}

    pub(crate) fn routes6_gone(&mut self, _index: u32) {}

    pub(crate) fn routes6_mtu(&mut self, _index: u32, _before: u32) {}
}

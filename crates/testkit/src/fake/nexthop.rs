//! Nexthop objects (`net/ipv4/nexthop.c`).

use crate::message::RawMessage;

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Nexthops {}

impl State {
    pub(crate) fn new_nexthop(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_nexthop(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_nexthops(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn get_nexthop(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn nexthops_down(&mut self, _index: u32) {}

    pub(crate) fn nexthops_gone(&mut self, _index: u32) {}
}

//! Neighbours of both families, proxies and forwarding entries (`net/core/neighbour.c`, `net/bridge/br_fdb.c`).

use crate::message::RawMessage;

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Neighbours {}

impl State {
    pub(crate) fn new_neighbour(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_neighbour(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_neighbours(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn get_neighbour(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn neighbours_down(&mut self, _index: u32) {}

    pub(crate) fn neighbours_carrier(&mut self, _index: u32, _on: bool) {}

    pub(crate) fn neighbours_gone(&mut self, _index: u32) {}

    pub(crate) fn neighbours_hardware_address(&mut self, _index: u32) {}
}

//! Rules (`net/core/fib_rules.c`).

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Rules {}

impl State {
    pub(crate) fn new_rule(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_rule(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_rules(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn rules_at_birth(&mut self) {}

    pub(crate) fn rules_device_registered(&mut self, _index: u32) {}

    pub(crate) fn rules_device_gone(&mut self, _index: u32) {}

    pub(crate) fn rules_device_renamed(&mut self, _index: u32, _before: &[u8]) {}
}

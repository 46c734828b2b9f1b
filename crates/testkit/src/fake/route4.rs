//! IPv4 routes (`net/ipv4/fib_frontend.c`, `fib_semantics.c`, `fib_trie.c`).

use crate::message::RawMessage;

use super::address4::Address4;
use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// What there is.
#[derive(Default)]
pub(crate) struct Routes4 {}

impl State {
    pub(crate) fn new_route4(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_route4(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_routes4(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn get_route4(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn routes4_up(&mut self, _index: u32) {}

    pub(crate) fn routes4_down(&mut self, _index: u32) {}

    pub(crate) fn routes4_carrier(&mut self, _index: u32, _on: bool) {}

    pub(crate) fn routes4_gone(&mut self, _index: u32) {}

    pub(crate) fn routes4_mtu(&mut self, _index: u32, _before: u32) {}

    /// `fib_inetaddr_event`, `NETDEV_UP`: an address has come; it is in the list already.
    pub(crate) fn routes4_address_added(&mut self, _index: u32, _address: &Address4) {}

    /// `fib_inetaddr_event`, `NETDEV_DOWN`: an address has left the list.
    pub(crate) fn routes4_address_removed(&mut self, _index: u32, _address: &Address4) {}

    /// `fib_add_ifaddr` alone.
    pub(crate) fn routes4_primary_added(&mut self, _index: u32, _address: &Address4) {}

    /// `fib_del_ifaddr` of a secondary address whose primary one has gone.
    pub(crate) fn routes4_secondary_removed(
        &mut self,
        _index: u32,
        _address: &Address4,
        _primary: &Address4,
    ) {
    }
}

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

    /// An address's own route in table local, without a metric.
    pub(crate) fn routes6_local_added(&mut self, _index: u32, _address: [u8; 16]) {}

    pub(crate) fn routes6_local_removed(&mut self, _index: u32, _address: [u8; 16]) {}

    /// `addrconf_prefix_route`; a metric of 0 is 256, and a lifetime is in seconds.
    pub(crate) fn routes6_prefix_added(
        &mut self,
        _index: u32,
        _prefix: [u8; 16],
        _length: u8,
        _metric: u32,
        _lifetime: Option<u32>,
    ) {
    }

    /// `cleanup_prefix_route`: the prefix route that the kernel made, or one that looks like it.
    pub(crate) fn routes6_prefix_removed(&mut self, _index: u32, _prefix: [u8; 16], _length: u8) {}

    /// `addrconf_add_mroute`: `ff00::/8` in table local.
    pub(crate) fn routes6_multicast_added(&mut self, _index: u32) {}

    /// `rt6_remove_prefsrc`: no route prefers an address that is not there.
    pub(crate) fn routes6_source_removed(&mut self, _index: u32, _address: [u8; 16]) {}
}

//! Links (`net/core/rtnetlink.c`).

use std::collections::BTreeMap;

use crate::message::RawMessage;

use super::dispatch::Answer;
use super::request::{EOPNOTSUPP, Refusal, Request};
use super::state::State;

/// All links, by index.
#[derive(Default)]
pub(crate) struct Links {
    pub(crate) all: BTreeMap<u32, Link>,
}

/// One link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: Vec<u8>,
    /// `IFF_*` as set by whoever owns it; `IFF_UP` is in it, status flags are not.
    pub(crate) flags: u32,
    /// Whether the other end, or the lower device, is there and up.
    pub(crate) carrier: bool,
    /// `ARPHRD_*`.
    pub(crate) arp_type: u16,
    pub(crate) mtu: u32,
    pub(crate) address: Vec<u8>,
    pub(crate) broadcast: Vec<u8>,
    /// `IFLA_INFO_KIND`; empty for `lo`.
    pub(crate) kind: &'static str,
    /// `IFLA_LINK`: the lower device, or the other end of a pair.
    pub(crate) below: Option<u32>,
    pub(crate) master: Option<u32>,
    pub(crate) group: u32,
    pub(crate) alias: Vec<u8>,
}

pub(crate) const IFF_UP: u32 = 0x1;
pub(crate) const IFF_LOOPBACK: u32 = 0x8;
pub(crate) const IFF_NOARP: u32 = 0x80;

impl Link {
    pub(crate) fn is_up(&self) -> bool {
        self.flags & IFF_UP != 0
    }

    pub(crate) fn is_loopback(&self) -> bool {
        self.flags & IFF_LOOPBACK != 0
    }
}

impl Links {
    pub(crate) fn get(&self, index: u32) -> Option<&Link> {
        self.all.get(&index)
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<&Link> {
        self.all.values().find(|link| link.name == name)
    }
}

impl State {
    pub(crate) fn new_link(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn del_link(&mut self, _request: &Request<'_>) -> Result<(), Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn dump_links(&mut self, _request: &Request<'_>) -> Result<Answer, Refusal> {
        Ok(Answer::Dump {
            rows: Vec::new(),
            flags: 0,
        })
    }

    pub(crate) fn get_link(&mut self, _request: &Request<'_>) -> Result<RawMessage, Refusal> {
        Err(EOPNOTSUPP.into())
    }

    pub(crate) fn links_at_birth(&mut self) {}
}

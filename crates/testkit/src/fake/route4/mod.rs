//! IPv4 routes (`net/ipv4/fib_frontend.c`, `fib_semantics.c`, `fib_trie.c`).
//!
//! What the kernel does with them, not to packets: what is there, what it shares, what it loses and when. Limits: tunnels
//! (`RTA_ENCAP`) are refused with `EOPNOTSUPP`, no device is a VRF, and `ignore_routes_with_linkdown` is off, so a carrier
//! that goes leaves routes with a flag alone.

mod address;
mod config;
mod dump;
mod event;
mod gateway;
mod get;
mod info;
mod row;
mod table;

use std::collections::BTreeMap;

use super::request::{EACCES, EAGAIN, EHOSTUNREACH, EINVAL, ESRCH, Refusal, Request};
use super::state::State;
use config::Config;
pub(crate) use config::Gateway;
pub(crate) use dump::Filter;
use info::Info;
pub(crate) use info::{Leg, RTNH_F_ONLINK};
use table::{Alias, Key};

const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_IIF: u16 = 3;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_FLOW: u16 = 11;
const RTA_TABLE: u16 = 15;
const RTA_MARK: u16 = 16;
const RTA_VIA: u16 = 18;
const RTA_ENCAP_TYPE: u16 = 21;
const RTA_ENCAP: u16 = 22;
const RTA_UID: u16 = 25;
const RTA_IP_PROTO: u16 = 27;
const RTA_SPORT: u16 = 28;
const RTA_DPORT: u16 = 29;
const RTA_NH_ID: u16 = 30;

const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_BROADCAST: u8 = 3;
const RTN_MULTICAST: u8 = 5;
const RTN_BLACKHOLE: u8 = 6;
const RTN_MAX: u8 = 11;

pub(crate) const SCOPE_LINK: u8 = 253;
pub(crate) const SCOPE_HOST: u8 = 254;
const SCOPE_NOWHERE: u8 = 255;

const TABLE_DEFAULT: u32 = 253;
pub(crate) const TABLE_MAIN: u32 = 254;
pub(crate) const TABLE_LOCAL: u32 = 255;

const INET: u8 = 2;

/// What there is.
#[derive(Default)]
pub(crate) struct Routes4 {
    /// The routes to each destination, in the kernel's order: falling TOS, rising metric.
    tables: BTreeMap<Key, Vec<Alias>>,
    infos: BTreeMap<u64, Info>,
    next_info: u64,
    /// Whether rules were ever changed: from then on `local` is a table of its own, and rules are looked at.
    split: bool,
    /// The links in the order in which they came to be.
    births: Vec<u32>,
    /// The link whose addresses all go, as it goes itself.
    dying: Option<u32>,
}

/// What a lookup tells of a route that leads nowhere (`fib_props`).
fn errors(kind: u8) -> Option<i32> {
    match kind {
        6 | 10 | 11 => Some(EINVAL),
        7 => Some(EHOSTUNREACH),
        8 => Some(EACCES),
        9 => Some(EAGAIN),
        _ => None,
    }
}

/// The widest scope of a route (`fib_props`).
fn scope_of(kind: u8) -> u8 {
    match kind {
        2 => SCOPE_HOST,
        3 | 4 => SCOPE_LINK,
        0 | 10.. => SCOPE_NOWHERE,
        _ => 0,
    }
}

impl State {
    /// `inet_rtm_newroute`.
    pub(crate) fn new_route4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let config = Config::parse(request)?;
        // The table comes to be even when the route does not.
        self.rules.make_table(INET, config.table);
        self.insert_route4(&config, Some(request))
    }

    /// `inet_rtm_delroute`.
    pub(crate) fn del_route4(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let config = Config::parse(request)?;
        if config.nexthop != 0 && self.nexthops.get(config.nexthop).is_none() {
            return Err(config::refused("Nexthop id does not exist"));
        }
        if !self.rules.has_table(INET, config.table) {
            return Err(Refusal::errno(ESRCH).because("FIB table does not exist"));
        }
        self.delete_route4(&config, Some(request))
    }

    /// Rules are about to change (`fib_unmerge`).
    pub(crate) fn routes4_rules_change(&mut self) {
        self.routes4.split = true;
    }
}

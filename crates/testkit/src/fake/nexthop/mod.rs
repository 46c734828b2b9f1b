//! Nexthop objects (`net/ipv4/nexthop.c`): single ones, blackholes, those of forwarding entries, and groups by threshold.
//!
//! Limits: tunnels (`NHA_ENCAP`) and resilient groups are refused with `EOPNOTSUPP`. Who asks for statistics
//! (`NHA_OP_FLAGS`, `NHA_HW_STATS_ENABLE`) is heard, and gets none.

mod config;
mod inet6;
mod row;
mod suit;

use std::collections::BTreeMap;

use crate::message::{Action, RawMessage};

use super::dispatch::Dump;
use super::request::{EEXIST, ENETDOWN, ENOENT, NLM_F_CREATE, NLM_F_REPLACE, Refusal, Request};
use super::route4::{Gateway, Leg, SCOPE_LINK, TABLE_MAIN};
use super::state::{Flaw, State, group};
use config::{Config, Entry, refused};

const INET: u8 = 2;
const INET6: u8 = 10;
const LOOPBACK: u32 = 1;

/// What there is, by id.
#[derive(Default)]
pub(crate) struct Nexthops {
    all: BTreeMap<u32, Nexthop>,
    /// The last id that was given to one without.
    last: u32,
}

/// One nexthop object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nexthop {
    protocol: u8,
    /// `RTNH_F_*`.
    flags: u8,
    body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Single {
        family: u8,
        leg: Leg,
        blackhole: bool,
        forwarding: bool,
    },
    Group {
        entries: Vec<Entry>,
        forwarding: bool,
    },
}

impl Nexthop {
    fn is_group(&self) -> bool {
        matches!(self.body, Body::Group { .. })
    }

    /// For forwarding entries alone (`NHA_FDB`).
    pub(crate) fn is_forwarding(&self) -> bool {
        match self.body {
            Body::Single { forwarding, .. } | Body::Group { forwarding, .. } => forwarding,
        }
    }

    fn is_reject(&self) -> bool {
        matches!(
            self.body,
            Body::Single {
                blackhole: true,
                ..
            }
        )
    }

    /// The address family, 0 of a group.
    pub(crate) fn family(&self) -> u8 {
        match self.body {
            Body::Single { family, .. } => family,
            Body::Group { .. } => 0,
        }
    }

    fn entries(&self) -> &[Entry] {
        match &self.body {
            Body::Single { .. } => &[],
            Body::Group { entries, .. } => entries,
        }
    }

    fn device(&self) -> Option<u32> {
        match &self.body {
            Body::Single { leg, .. } => leg.device,
            Body::Group { .. } => None,
        }
    }
}

impl Nexthops {
    pub(crate) fn get(&self, id: u32) -> Option<&Nexthop> {
        self.all.get(&id)
    }

    /// The ways out, with their weights.
    pub(crate) fn legs(&self, id: u32) -> Vec<Leg> {
        match self.get(id).map(|nexthop| &nexthop.body) {
            None => Vec::new(),
            Some(Body::Single { leg, .. }) => vec![leg.clone()],
            Some(Body::Group { entries, .. }) => entries
                .iter()
                .filter_map(|entry| match &self.get(entry.id)?.body {
                    Body::Single { leg, .. } => Some(Leg {
                        weight: entry.weight,
                        ..leg.clone()
                    }),
                    Body::Group { .. } => None,
                })
                .collect(),
        }
    }

    /// Whether packets end here: a blackhole, or a group of one alone.
    pub(crate) fn is_blackhole(&self, id: u32) -> bool {
        let Some(nexthop) = self.get(id) else {
            return false;
        };
        match nexthop.entries() {
            [entry] => self.get(entry.id).is_some_and(Nexthop::is_reject),
            _ => nexthop.is_reject(),
        }
    }

    fn groups_with(&self, id: u32) -> Vec<u32> {
        let with = |nexthop: &Nexthop| nexthop.entries().iter().any(|entry| entry.id == id);
        let groups = self.all.iter().filter(|(_, nexthop)| with(nexthop));
        groups.map(|(group, _)| *group).collect()
    }

    /// `nh_find_unused_id`.
    fn unused_id(&mut self) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && !self.all.contains_key(&self.last) {
                return self.last;
            }
        }
    }
}

impl State {
    /// `rtm_new_nexthop`.
    pub(crate) fn new_nexthop(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let config = Config::parse(request)?;
        if request.has(NLM_F_REPLACE) && config.id == 0 {
            return Err(refused("Replace requires nexthop id"));
        }
        self.check_nexthop_parts(&config)?;
        let id = if config.id == 0 {
            self.nexthops.unused_id()
        } else {
            config.id
        };
        let new = self.create_nexthop(&config)?;
        if let Some(old) = self.nexthops.get(id) {
            if !request.has(NLM_F_REPLACE) {
                return Err(EEXIST.into());
            }
            let old = old.clone();
            self.check_replace(id, &old, &new)?;
            let new = if new.is_group() {
                // A quirk: a group keeps the protocol that it was made with.
                Nexthop {
                    protocol: old.protocol,
                    flags: old.flags,
                    ..new
                }
            } else {
                new
            };
            self.nexthops.all.insert(id, new);
            self.announce_nexthop(id, Action::New, Some(request));
            for id in [vec![id], self.nexthops.groups_with(id)].concat() {
                self.routes4_nexthop_replaced(id, request);
                self.routes6_nexthop_replaced(id, request);
            }
            return Ok(());
        }
        if request.has(NLM_F_REPLACE) && !request.has(NLM_F_CREATE) {
            return Err(Refusal::errno(ENOENT)
                .because("Replace specified without create and no entry exists"));
        }
        self.nexthops.all.insert(id, new);
        self.announce_nexthop(id, Action::New, Some(request));
        Ok(())
    }

    /// `rtm_to_nh_config_rtnl`: what a request names has to be there.
    fn check_nexthop_parts(&self, config: &Config) -> Result<(), Refusal> {
        if let Some(entries) = &config.entries {
            return self.check_entries(entries, config.forwarding);
        }
        let Some(device) = config.device else {
            return Ok(());
        };
        let absent = refused("Invalid device index");
        let link = self.links.get(device).ok_or(absent)?;
        let down = |words| Err(Refusal::errno(ENETDOWN).because(words));
        if !link.is_up() {
            return down("Nexthop device is not up");
        }
        if !link.carrier {
            return down("Carrier for nexthop device is down");
        }
        Ok(())
    }

    /// `nexthop_create`, `nexthop_create_group`.
    fn create_nexthop(&self, config: &Config) -> Result<Nexthop, Refusal> {
        let mut nexthop = Nexthop {
            protocol: config.protocol,
            flags: config.flags,
            body: Body::Group {
                entries: Vec::new(),
                forwarding: config.forwarding,
            },
        };
        if let Some(entries) = &config.entries {
            nexthop.body = Body::Group {
                entries: entries.clone(),
                forwarding: config.forwarding,
            };
            return Ok(nexthop);
        }
        let mut leg = Leg {
            oif: config.device.unwrap_or(0),
            gateway: config.gateway,
            flags: config.flags,
            scope: SCOPE_LINK,
            weight: 1,
            ..Leg::default()
        };
        if config.blackhole {
            leg.oif = LOOPBACK;
        }
        if config.forwarding {
            // Neither device nor gateway are looked at; one of IPv6 always has a gateway.
            if config.family == INET6 && leg.gateway == Gateway::None {
                leg.gateway = Gateway::V6([0; 16]);
            }
        } else if config.family == INET {
            self.check_leg(&mut leg, TABLE_MAIN, 0)?;
            nexthop.flags = leg.flags;
        } else {
            let gateway = match config.gateway {
                Gateway::V6(gateway) => Some(gateway),
                _ => None,
            };
            let device = self.check_nexthop6(gateway, leg.oif, config.flags.into())?;
            leg.device = Some(device);
            leg.oif = device;
        }
        nexthop.body = Body::Single {
            family: config.family,
            leg,
            blackhole: config.blackhole,
            forwarding: config.forwarding,
        };
        Ok(nexthop)
    }

    /// `rtm_del_nexthop`.
    pub(crate) fn del_nexthop(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let id = config::id_alone(request, &config::DELETE)?;
        if self.nexthops.get(id).is_none() {
            return Err(ENOENT.into());
        }
        self.remove_nexthop(id, Some(request));
        Ok(())
    }

    /// `remove_nexthop`: its routes follow, groups lose it, a group that loses its last one follows. Without a request
    /// nobody is told.
    fn remove_nexthop(&mut self, id: u32, by: Option<&Request<'_>>) {
        if self.nexthops.get(id).is_none() {
            return;
        }
        if by.is_some() {
            self.announce_nexthop(id, Action::Del, by);
        }
        self.routes4_nexthop_gone(id);
        self.routes6_nexthop_gone(id);
        let kept = self.is(Flaw::GroupsOutliveTheirNexthops);
        for group in self.nexthops.groups_with(id) {
            let Some(Body::Group { entries, .. }) =
                self.nexthops.all.get_mut(&group).map(|g| &mut g.body)
            else {
                continue;
            };
            if kept {
                continue;
            }
            if entries.len() == 1 {
                self.remove_nexthop(group, by);
                continue;
            }
            entries.retain(|entry| entry.id != id);
            if by.is_some() {
                self.announce_nexthop(group, Action::New, by);
            }
        }
        self.nexthops.all.remove(&id);
    }

    fn announce_nexthop(&mut self, id: u32, action: Action, by: Option<&Request<'_>>) {
        if let Some(nexthop) = self.nexthops.get(id) {
            let row = nexthop.row(id, action);
            // `nexthop_notify`: with the flags of the request.
            let flags = by.map_or(0, |by| by.flags);
            self.announce_with(flags, group::NEXTHOP, &row, by);
        }
    }

    /// `rtm_get_nexthop`.
    pub(crate) fn get_nexthop(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let id = config::id_alone(request, &config::GET)?;
        let nexthop = self.nexthops.get(id).ok_or(ENOENT)?;
        Ok(nexthop.row(id, Action::New))
    }

    /// `rtm_dump_nexthop`: strict whatever the socket asked for.
    pub(crate) fn dump_nexthops(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let filter = config::Filter::parse(request)?;
        let shown = |nexthop: &Nexthop| {
            if filter.groups && !nexthop.is_group() {
                return false;
            }
            if filter.device == 0 && filter.master == 0 && filter.family == 0 {
                return true;
            }
            let device = nexthop.device().and_then(|index| self.links.get(index));
            !nexthop.is_group()
                && (filter.family == 0 || filter.family == nexthop.family())
                && (filter.device == 0 || device.is_some_and(|link| link.index == filter.device))
                && (filter.master == 0
                    || device.is_some_and(|link| link.master == Some(filter.master)))
        };
        let all = self.nexthops.all.iter();
        let rows = all
            .filter(|(_, nexthop)| shown(nexthop))
            .map(|(id, nexthop)| nexthop.row(*id, Action::New));
        Ok(Dump {
            rows: rows.collect(),
            ..Dump::default()
        })
    }

    /// `nexthop_flush_dev`: those over the link go, without a word, when it is set down or loses its carrier.
    pub(crate) fn nexthops_down(&mut self, index: u32) {
        self.flush_nexthops(index, false);
    }

    /// The same when the link goes; blackholes, which sit on `lo`, survive it down.
    pub(crate) fn nexthops_gone(&mut self, index: u32) {
        self.flush_nexthops(index, true);
    }

    fn flush_nexthops(&mut self, index: u32, rejects: bool) {
        let over = |nexthop: &Nexthop| {
            nexthop.device() == Some(index) && (rejects || !nexthop.is_reject())
        };
        let all = self.nexthops.all.iter();
        let gone: Vec<_> = all.filter(|(_, n)| over(n)).map(|(id, _)| *id).collect();
        for id in gone {
            self.remove_nexthop(id, None);
        }
    }
}

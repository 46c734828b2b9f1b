//! Nexthop objects (`net/ipv4/nexthop.c`): single ones, blackholes, and groups by hash threshold.
//! Objects for forwarding entries and resilient groups are refused with `EOPNOTSUPP`.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::bag::{Bag, ip, width};
use super::numbers::*;
use super::request::{Refusal, Request, refuse_if};
use super::route::{Gateway, Leg};
use super::{By, Flaw, Origin, State};

/// In a row's `NHA_OP_FLAGS`: the kernel understands weights above 256.
const RESP_GRP_RESVD_0: u32 = 1 << 31;

/// All nexthop objects, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Nexthops {
    all: BTreeMap<u32, Nexthop>,
    /// The last id assigned to an object without one.
    last: u32,
}

#[derive(Clone, Debug)]
struct Nexthop {
    origin: Origin,
    family: u8,
    protocol: u8,
    flags: u8,
    leg: Leg,
    /// All attributes except device and gateway. For a group, `NHA_GROUP` has the members.
    attrs: Bag,
}

impl Nexthop {
    /// Reads a request; refuses anything outside the model with `EOPNOTSUPP`.
    fn read(request: &Request<'_>) -> Result<Self, Refusal> {
        let (family, flags) = (request.family(), request.header[4]);
        let attrs = &request.attrs;
        refuse_if(
            attrs.has(NHA_FDB) || attrs.u16(NHA_GROUP_TYPE).is_some_and(|kind| kind != 0),
            EOPNOTSUPP,
        )?;
        let device = match attrs.u32(NHA_OIF) {
            None if attrs.has(NHA_BLACKHOLE) => LOOPBACK,
            None if !attrs.has(NHA_GROUP) => return Err(EINVAL.into()),
            device => device.unwrap_or(0),
        };
        let gateway = attrs.get(NHA_GATEWAY);
        let mut read = Self {
            origin: Origin::default(),
            family,
            protocol: request.header[2],
            flags,
            leg: Leg {
                flags,
                scope: SCOPE_LINK,
                gateway: gateway.and_then(|gateway| Gateway::of(family, ip(gateway))),
                ..Leg::to_device(device)
            },
            attrs: attrs.clone(),
        };
        read.attrs.remove(&[NHA_OIF, NHA_GATEWAY]);
        if read.is_group() {
            read.attrs.set(NHA_GROUP_TYPE, [0; 2]);
            read.attrs.set_u32(NHA_OP_FLAGS, RESP_GRP_RESVD_0);
        }
        Ok(read)
    }

    fn is_group(&self) -> bool {
        self.attrs.has(NHA_GROUP)
    }

    fn is_blackhole(&self) -> bool {
        self.attrs.has(NHA_BLACKHOLE)
    }

    /// Returns the ids of a group's members, with their weights.
    fn members(&self) -> Vec<(u32, u16)> {
        let group = self.attrs.get(NHA_GROUP).unwrap_or(&[]);
        group
            .chunks_exact(8)
            .map(|entry| {
                let weight = u16::from_be_bytes([entry[5], entry[4]]);
                (u32_at(entry, 0), weight.wrapping_add(1))
            })
            .collect()
    }

    fn has_member(&self, id: u32) -> bool {
        self.members().iter().any(|(member, _)| *member == id)
    }

    fn row(&self, id: u32, action: Action) -> RawMessage {
        let mut attrs = self.attrs.clone();
        attrs.set_u32(NHA_ID, id);
        let mut scope = 0;
        if !self.is_group() && !self.is_blackhole() {
            scope = self.leg.scope;
            attrs.set_u32(NHA_OIF, self.leg.device);
            if let Some(gateway) = self.leg.gateway {
                attrs.set(NHA_GATEWAY, &gateway.ip[..width(gateway.family)]);
            }
        }
        let mut header = vec![self.family, scope, self.protocol, 0];
        header.extend(u32::from(self.flags).to_ne_bytes());
        attrs.row(Kind::Nexthop, action, header)
    }
}

impl State {
    fn nexthop(&self, id: u32) -> Option<&Nexthop> {
        self.nexthops.all.get(&id)
    }

    pub(super) fn has_nexthop(&self, id: u32) -> bool {
        self.nexthop(id).is_some()
    }

    pub(super) fn is_group(&self, id: u32) -> bool {
        self.nexthop(id).is_some_and(Nexthop::is_group)
    }

    /// Returns a nexthop object's legs, with their weights.
    pub(super) fn legs_of_nexthop(&self, id: u32) -> Vec<Leg> {
        let Some(nexthop) = self.nexthop(id) else {
            return Vec::new();
        };
        if !nexthop.is_group() {
            return vec![nexthop.leg.clone()];
        }
        nexthop
            .members()
            .into_iter()
            .filter_map(|(id, weight): (u32, u16)| {
                let leg = self.nexthop(id)?.leg.clone();
                Some(Leg { weight, ..leg })
            })
            .collect()
    }

    /// Returns true for a blackhole, and for a group whose only member is one.
    pub(super) fn is_blackhole(&self, id: u32) -> bool {
        self.nexthop(id).is_some_and(|nexthop| match nexthop.members()[..] {
            [(member, _)] => self.nexthop(member).is_some_and(Nexthop::is_blackhole),
            _ => nexthop.is_blackhole(),
        })
    }

    fn groups_with(&self, id: u32) -> Vec<u32> {
        let all = self.nexthops.all.iter();
        let groups = all.filter(|(_, nexthop)| nexthop.has_member(id));
        groups.map(|(group, _)| *group).collect()
    }

    pub(super) fn new_nexthop(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut new = Nexthop::read(request)?;
        let replaces = request.has(NLM_F_REPLACE);
        let mut id = request.attrs.u32(NHA_ID).unwrap_or(0);
        refuse_if(replaces && id == 0, EINVAL)?;
        self.check_nexthop(&mut new)?;
        while id == 0 || request.attrs.u32(NHA_ID).is_none() && self.has_nexthop(id) {
            self.nexthops.last = self.nexthops.last.wrapping_add(1);
            id = self.nexthops.last;
        }
        if let Some(old) = self.nexthop(id) {
            refuse_if(!replaces, EEXIST)?;
            self.check_replace(id, old, &new)?;
            if new.is_group() {
                // A quirk: a replaced group keeps its first protocol.
                (new.protocol, new.flags) = (old.protocol, old.flags);
            }
            new.origin = self.changed(old.origin);
            self.nexthops.all.insert(id, new);
            self.announce_nexthop(id, Action::New, Some(request));
            for id in [vec![id], self.groups_with(id)].concat() {
                self.announce_routes_of_nexthop(id, request);
            }
            return Ok(());
        }
        refuse_if(replaces && !request.has(NLM_F_CREATE), ENOENT)?;
        new.origin = self.new_origin();
        self.nexthops.all.insert(id, new);
        self.announce_nexthop(id, Action::New, Some(request));
        Ok(())
    }

    /// Checks that everything the object refers to exists and is reachable.
    fn check_nexthop(&self, new: &mut Nexthop) -> Result<(), Refusal> {
        if new.is_group() {
            return self.check_members(new);
        }
        if !new.is_blackhole() {
            let link = self.links.get(new.leg.device).ok_or(EINVAL)?;
            refuse_if(!link.is_running(), ENETDOWN)?;
        }
        if new.family == INET {
            self.check_leg4(&mut new.leg, TABLE_MAIN, 0)?;
            new.flags = new.leg.flags;
        } else {
            new.leg.device = self.check_leg6(&new.leg, 0, None)?;
        }
        Ok(())
    }

    fn check_members(&self, group: &Nexthop) -> Result<(), Refusal> {
        let members = group.members();
        refuse_if(
            members.iter().any(|(id, _): &(u32, u16)| {
                let member = self.nexthop(*id);
                member.is_none_or(|it| it.is_group() || it.is_blackhole() && members.len() > 1)
            }),
            EINVAL,
        )
    }

    /// `replace_nexthop`: checks that the object's routes suit the new one.
    fn check_replace(&self, id: u32, old: &Nexthop, new: &Nexthop) -> Result<(), Refusal> {
        for user in [vec![id], self.groups_with(id)].concat() {
            let user_is_many = self.nexthop(user).is_some_and(|it| it.members().len() > 1);
            refuse_if(user != id && new.is_blackhole() && user_is_many, EINVAL)?;
            for (key, route) in self.routes.with_nexthop(user) {
                self.check_nexthop_suits(new, key.family, route.scope)?;
            }
        }
        refuse_if(old.is_group() != new.is_group(), EINVAL)
    }

    /// `fib_check_nexthop` and `fib6_check_nexthop`: checks that a route of this family, and for
    /// IPv4 of this scope, may use the object.
    pub(super) fn nexthop_suits(&self, id: u32, family: u8, scope: u8) -> Result<(), Refusal> {
        self.check_nexthop_suits(self.nexthop(id).ok_or(EINVAL)?, family, scope)
    }

    fn check_nexthop_suits(&self, it: &Nexthop, family: u8, scope: u8) -> Result<(), Refusal> {
        let members: Vec<_> =
            it.members().into_iter().filter_map(|(id, _)| self.nexthop(id)).collect();
        let single = members.first().unwrap_or(&it);
        let is_bad = if family == INET {
            scope == SCOPE_HOST && (it.is_group() || single.leg.gateway.is_some())
                || scope >= SCOPE_LINK && single.leg.has(RTNH_F_ONLINK)
        } else {
            it.family == INET || members.iter().any(|member| member.family == INET)
        };
        refuse_if(is_bad, EINVAL)
    }

    pub(super) fn del_nexthop(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let id = id(request)?;
        refuse_if(!self.has_nexthop(id), ENOENT)?;
        self.remove_nexthop(id, Some(request));
        Ok(())
    }

    /// `remove_nexthop`: deletes an object with its routes. Groups lose it; a group without members
    /// is deleted too. Without a request there is no announcement.
    fn remove_nexthop(&mut self, id: u32, by: By<'_, '_>) {
        if by.is_some() {
            self.announce_nexthop(id, Action::Del, by);
        }
        self.remove_routes_of_nexthop(id);
        for group in self.groups_with(id) {
            if self.has_flaw(Flaw::GroupsOutliveTheirNexthops) {
                break;
            }
            let Some(nexthop) = self.nexthops.all.get_mut(&group) else {
                continue;
            };
            if nexthop.members().len() == 1 {
                self.remove_nexthop(group, by);
                continue;
            }
            let entries = nexthop.attrs.get(NHA_GROUP).unwrap_or(&[]).chunks_exact(8);
            let rest: Vec<_> = entries.filter(|entry| u32_at(entry, 0) != id).collect();
            let rest = rest.concat();
            nexthop.attrs.set(NHA_GROUP, rest);
            nexthop.origin.changed_by = self.writer;
            if by.is_some() {
                self.announce_nexthop(group, Action::New, by);
            }
        }
        self.nexthops.all.remove(&id);
    }

    /// Announces an object with the request's flags.
    fn announce_nexthop(&mut self, id: u32, action: Action, by: By<'_, '_>) {
        if let Some(nexthop) = self.nexthop(id) {
            let row = nexthop.row(id, action);
            let flags = by.map_or(0, |by| by.flags);
            self.announce_with(flags, &row, by);
        }
    }

    pub(super) fn get_nexthop(&self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let id = id(request)?;
        Ok(self.nexthop(id).ok_or(ENOENT)?.row(id, Action::New))
    }

    pub(super) fn each_nexthop(&self, add: &mut dyn FnMut(RawMessage, Origin)) {
        for (id, nexthop) in &self.nexthops.all {
            add(nexthop.row(*id, Action::New), nexthop.origin);
        }
    }

    /// `nexthop_flush_dev`: deletes the objects over a link that is set down, loses its carrier or
    /// is deleted, without announcements. Blackholes are on `lo` and go only with
    /// `takes_blackholes`.
    pub(super) fn nexthops_down(&mut self, index: u32, takes_blackholes: bool) {
        let is_over = |nexthop: &Nexthop| {
            nexthop.leg.device == index
                && !nexthop.is_group()
                && (takes_blackholes || !nexthop.is_blackhole())
        };
        let over = self.nexthops.all.iter().filter(|(_, nexthop)| is_over(nexthop));
        let gone: Vec<_> = over.map(|(id, _)| *id).collect();
        for id in gone {
            self.remove_nexthop(id, None);
        }
    }
}

/// Returns the id in a request for one object.
fn id(request: &Request<'_>) -> Result<u32, Refusal> {
    let id = request.attrs.u32(NHA_ID).filter(|id| *id != 0);
    id.ok_or(EINVAL.into())
}

//! What nexthop objects suit: groups their members, routes their objects, replacements the users of the old one.

use super::super::request::{EINVAL, Refusal};
use super::super::route4::{Gateway, RTNH_F_ONLINK, SCOPE_HOST, SCOPE_LINK};
use super::super::state::State;
use super::config::{Entry, refused};
use super::{Body, INET, Nexthop};

impl State {
    /// `nh_check_attr_group_rtnl`.
    pub(super) fn check_entries(&self, entries: &[Entry], forwarding: bool) -> Result<(), Refusal> {
        let mut family = 0;
        for entry in entries {
            let absent = refused("Invalid nexthop id");
            let nexthop = self.nexthops.get(entry.id).ok_or(absent)?;
            if nexthop.is_group() {
                return Err(refused(
                    "Hash-threshold group can not be a nexthop within a group",
                ));
            }
            if nexthop.is_reject() && entries.len() > 1 {
                return Err(refused(
                    "Blackhole nexthop can not be used in a group with more than 1 path",
                ));
            }
            if forwarding && !nexthop.is_forwarding() {
                return Err(refused("FDB nexthop group can only have fdb nexthops"));
            }
            if forwarding && family != 0 && family != nexthop.family() {
                return Err(refused(
                    "FDB nexthop group cannot have mixed family nexthops",
                ));
            }
            if !forwarding && nexthop.is_forwarding() {
                return Err(refused("Non FDB nexthop group cannot have fdb nexthops"));
            }
            family = nexthop.family();
        }
        Ok(())
    }

    /// `replace_nexthop`: the routes that have it must suit the new one.
    pub(super) fn check_replace(
        &self,
        id: u32,
        old: &Nexthop,
        new: &Nexthop,
    ) -> Result<(), Refusal> {
        self.check_replace_for(id, new)?;
        for group in self.nexthops.groups_with(id) {
            let paths = self.nexthops.get(group).map_or(0, |g| g.entries().len());
            if new.is_reject() && paths > 1 {
                return Err(refused(
                    "Blackhole nexthop can not be a member of a group with more than one path",
                ));
            }
            self.check_replace_for(group, new)?;
        }
        match (old.is_group(), new.is_group()) {
            (true, false) => Err(refused("Can not replace a nexthop group with a nexthop.")),
            (false, true) => Err(refused("Can not replace a nexthop with a nexthop group.")),
            (false, false)
                if old.is_forwarding() != new.is_forwarding()
                    && !self.nexthops.groups_with(id).is_empty() =>
            {
                Err(refused("Cannot change nexthop FDB status while in a group"))
            }
            _ => Ok(()),
        }
    }

    fn check_replace_for(&self, user: u32, new: &Nexthop) -> Result<(), Refusal> {
        for scope in self.routes4_nexthop_scopes(user) {
            self.nexthop_suits_scope(new, scope)?;
        }
        if self.routes6_has_nexthop(user) {
            self.nexthop_suits6(new)?;
        }
        Ok(())
    }

    /// `fib_check_nexthop`: whether an IPv4 route of a scope may have it.
    pub(crate) fn nexthop_suits_scope(&self, nexthop: &Nexthop, scope: u8) -> Result<(), Refusal> {
        if nexthop.is_forwarding() {
            return Err(refused("Route cannot point to a fdb nexthop"));
        }
        let single = match nexthop.entries().first() {
            Some(_) if scope == SCOPE_HOST => {
                return Err(refused(
                    "Route with host scope can not have multiple nexthops",
                ));
            }
            Some(first) => self.nexthops.get(first.id),
            None => Some(nexthop),
        };
        let Some(Body::Single { leg, .. }) = single.map(|single| &single.body) else {
            return Err(EINVAL.into());
        };
        if scope == SCOPE_HOST && leg.gateway != Gateway::None {
            return Err(refused("Route with host scope can not have a gateway"));
        }
        if leg.flags & RTNH_F_ONLINK != 0 && scope >= SCOPE_LINK {
            return Err(refused("Scope mismatch with nexthop"));
        }
        Ok(())
    }

    /// `fib6_check_nexthop`: whether an IPv6 route may have it.
    pub(crate) fn nexthop_suits6(&self, nexthop: &Nexthop) -> Result<(), Refusal> {
        let v4 = |nexthop: &Nexthop| nexthop.family() == INET;
        let mut entries = nexthop.entries().iter();
        let inside = entries.any(|entry| self.nexthops.get(entry.id).is_some_and(v4));
        if v4(nexthop) || inside {
            return Err(refused("IPv6 routes can not use an IPv4 nexthop"));
        }
        if nexthop.is_forwarding() {
            return Err(refused("Route cannot point to a fdb nexthop"));
        }
        Ok(())
    }
}

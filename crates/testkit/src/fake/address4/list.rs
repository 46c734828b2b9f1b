//! IPv4 addresses that come, change and go: what each does to the list of its link, and what becomes of the secondary
//! addresses of a subnet. Not for the reading of requests, nor for what links do.

use crate::message::Action;

use super::super::request::{Attributes, EEXIST, EINVAL, Refusal, Request};
use super::super::state::{Flaw, State, group};
use super::{
    Address4, IFA_CACHEINFO, IFA_F_DADFAILED, IFA_F_HOMEADDRESS, IFA_F_MANAGETEMPADDR, IFA_F_NODAD,
    IFA_F_OPTIMISTIC, IFA_F_SECONDARY, IFA_F_STABLE_PRIVACY, IFA_F_TENTATIVE, Lifetime,
};

const IPV6ONLY_FLAGS: u32 = IFA_F_NODAD
    | IFA_F_OPTIMISTIC
    | IFA_F_DADFAILED
    | IFA_F_HOMEADDRESS
    | IFA_F_TENTATIVE
    | IFA_F_MANAGETEMPADDR
    | IFA_F_STABLE_PRIVACY;

impl State {
    /// All that a replace changes: metric, protocol and lifetime.
    pub(super) fn replace_address4(
        &mut self,
        index: u32,
        at: usize,
        new: &Address4,
        lifetime: Lifetime,
        attrs: Attributes<'_>,
        request: &Request<'_>,
    ) {
        let Some(old) = self.addresses4.of(index).get(at).cloned() else {
            return;
        };
        if old.metric != new.metric {
            self.routes4_metric_changed(index, &old, new.metric);
        }
        let keeps = self.is(Flaw::AddressKeepsLifetime) && attrs.get(IFA_CACHEINFO).is_none();
        let list = self.addresses4.all.entry(index).or_default();
        let Some(address) = list.get_mut(at) else {
            return;
        };
        address.metric = new.metric;
        address.protocol = new.protocol;
        if !keeps {
            address.set_lifetime(lifetime);
        }
        let address = address.clone();
        self.announce_address4(index, &address, Action::New, Some(request));
    }

    /// `__inet_insert_ifa`.
    pub(super) fn insert_address4(
        &mut self,
        index: u32,
        mut new: Address4,
        by: Option<&Request<'_>>,
    ) -> Result<(), Refusal> {
        new.flags &= !(IFA_F_SECONDARY | IPV6ONLY_FLAGS);
        let list = self.addresses4.all.entry(index).or_default();
        let mut after_primary = 0;
        for (at, old) in list.iter().enumerate() {
            if !old.is_secondary() && new.scope <= old.scope {
                after_primary = at + 1;
            }
            if new.same_subnet(old) {
                if old.local == new.local {
                    return Err(EEXIST.into());
                }
                if old.scope != new.scope {
                    let words = "ipv4: Invalid scope value";
                    return Err(Refusal::errno(EINVAL).because(words));
                }
                new.flags |= IFA_F_SECONDARY;
            }
        }
        let at = if new.is_secondary() {
            list.len()
        } else {
            after_primary
        };
        list.insert(at, new.clone());
        self.announce_address4(index, &new, Action::New, by);
        self.routes4_address_added(index, &new);
        Ok(())
    }

    /// With the port id and the sequence number of the request, which the promotion of another address bears, too.
    pub(super) fn announce_address4(
        &mut self,
        index: u32,
        address: &Address4,
        action: Action,
        by: Option<&Request<'_>>,
    ) {
        self.announce(group::IPV4_IFADDR, &address.row(index, action), by);
    }

    /// `__inet_del_ifa`: with a primary address its secondary ones go, or the first of them takes its place.
    pub(super) fn delete_address4(&mut self, index: u32, at: usize, by: Option<&Request<'_>>) {
        let Some(gone) = self.addresses4.of(index).get(at).cloned() else {
            return;
        };
        let mut promoted = None;
        if !gone.is_secondary() {
            let secondary = |other: &Address4| other.is_secondary() && gone.same_subnet(other);
            while let Some(other) = self.position4(index, at + 1, &secondary) {
                if self.addresses4.promotes(index) {
                    promoted = Some(other);
                    break;
                }
                self.remove_address4(index, other, by);
            }
        }
        if let Some(promoted) = promoted {
            let all: Vec<_> = self.addresses4.of(index)[promoted..].to_vec();
            for other in all.iter().filter(|other| gone.same_subnet(other)) {
                self.routes4_secondary_removed(index, other, &gone);
            }
        }
        self.remove_address4(index, at, by);
        if let Some(promoted) = promoted {
            self.promote_address4(index, promoted - 1, &gone, by);
        }
    }

    pub(super) fn remove_address4(&mut self, index: u32, at: usize, by: Option<&Request<'_>>) {
        if let Some(list) = self.addresses4.all.get_mut(&index) {
            let gone = list.remove(at);
            self.announce_address4(index, &gone, Action::Del, by);
            self.routes4_address_removed(index, &gone);
        }
    }

    /// The second half of `__inet_del_ifa`: a secondary address becomes the primary one of its subnet.
    fn promote_address4(
        &mut self,
        index: u32,
        at: usize,
        gone: &Address4,
        by: Option<&Request<'_>>,
    ) {
        let Some(list) = self.addresses4.all.get_mut(&index) else {
            return;
        };
        if at >= list.len() {
            return;
        }
        let mut promoted = list.remove(at);
        promoted.flags &= !IFA_F_SECONDARY;
        let rest: Vec<_> = list.get(at..).unwrap_or(&[]).to_vec();
        let place = list
            .iter()
            .rposition(|other| !other.is_secondary() && gone.scope <= other.scope)
            .map_or(0, |last| last + 1);
        list.insert(place, promoted.clone());
        self.announce_address4(index, &promoted, Action::New, by);
        self.routes4_address_added(index, &promoted);
        for other in rest.iter().filter(|other| gone.same_subnet(other)) {
            self.routes4_primary_added(index, other);
        }
    }

    fn position4(
        &self,
        index: u32,
        from: usize,
        test: &dyn Fn(&Address4) -> bool,
    ) -> Option<usize> {
        let rest = self.addresses4.of(index).get(from..)?;
        rest.iter().position(test).map(|at| from + at)
    }
}

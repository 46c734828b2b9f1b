//! What links and settings do to IPv4 addresses (`inetdev_event`, `net.ipv4.conf`), and the one the kernel makes by
//! itself: 127.0.0.1.

use crate::message::Action;

use super::super::state::State;
use super::{Address4, IFA_F_PERMANENT, INFINITY};

const RT_SCOPE_HOST: u8 = 254;
/// Below it a link has no IPv4 (`inetdev_valid_mtu`).
const IPV4_MIN_MTU: u32 = 68;

impl State {
    pub(crate) fn addresses4_registered(&mut self, index: u32) {
        self.addresses4.all.entry(index).or_default();
        let promote = self.addresses4.promote_default;
        self.addresses4.promote.insert(index, promote);
    }

    /// `inetdev_event`, `NETDEV_UP`: a loopback has 127.0.0.1.
    pub(crate) fn addresses4_up(&mut self, index: u32) {
        let Some(link) = self.links.get(index) else {
            return;
        };
        if link.mtu < IPV4_MIN_MTU || !link.is_loopback() || !self.addresses4.is_on(index) {
            return;
        }
        let one = Address4 {
            local: [127, 0, 0, 1],
            peer: [127, 0, 0, 1],
            length: 8,
            scope: RT_SCOPE_HOST,
            flags: IFA_F_PERMANENT,
            label: link.name.clone(),
            preferred: INFINITY,
            valid: INFINITY,
            ..Address4::default()
        };
        let _there_already = self.insert_address4(index, one, None);
    }

    /// `inetdev_destroy`: one after another, without a promotion.
    pub(crate) fn addresses4_gone(&mut self, index: u32) {
        while !self.addresses4.of(index).is_empty() {
            self.remove_address4(index, 0, None);
        }
        self.addresses4.all.remove(&index);
        self.addresses4.promote.remove(&index);
    }

    pub(crate) fn addresses4_mtu(&mut self, index: u32) {
        let valid = self
            .links
            .get(index)
            .is_some_and(|link| link.mtu >= IPV4_MIN_MTU);
        match (valid, self.addresses4.is_on(index)) {
            (false, true) => self.addresses4_gone(index),
            (true, false) => self.addresses4_registered(index),
            _ => {}
        }
    }

    /// `inetdev_changename`: the first address gets the new name as its label, the others keep their suffix or get one.
    pub(crate) fn addresses4_renamed(&mut self, index: u32, _before: &[u8]) {
        const LABEL: usize = 15;
        let Some(link) = self.links.get(index) else {
            return;
        };
        let name = link.name.clone();
        let list = self.addresses4.all.entry(index).or_default();
        for (position, address) in list.iter_mut().enumerate() {
            let old = std::mem::replace(&mut address.label, name.clone());
            if position == 0 {
                continue;
            }
            let suffix = match old.iter().position(|byte| *byte == b':') {
                Some(colon) => old[colon..].to_vec(),
                None => format!(":{}", position + 1).into_bytes(),
            };
            address.label.truncate(LABEL.saturating_sub(suffix.len()));
            address.label.extend(suffix);
        }
        for address in list.clone() {
            self.announce_address4(index, &address, Action::New, None);
        }
    }

    /// `net.ipv4.conf.SCOPE.promote_secondaries`.
    pub(crate) fn set_promote_secondaries(&mut self, scope: &str, on: bool) -> Option<()> {
        match scope {
            "all" => self.addresses4.promote_all = on,
            "default" => self.addresses4.promote_default = on,
            name => {
                let index = self.links.named(name.as_bytes())?.index;
                self.addresses4.promote.insert(index, on);
            }
        }
        Some(())
    }
}

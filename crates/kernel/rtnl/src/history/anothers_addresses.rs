//! Declared addresses that another program has made at some time.

use std::collections::{BTreeMap, HashSet};

use trueup_net::{Address, AddressKey, Desired, Item as _, Notice, Plan};

/// The addresses, as the other program made them, by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct AnothersAddresses(BTreeMap<AddressKey, Box<Address>>);

impl AnothersAddresses {
    /// Notes the addresses of which a plan says so, and has it say so of those that are missing or
    /// ours by now: the other program may move them.
    pub(super) fn note(&mut self, plan: &mut Plan, desired: &Desired) {
        let found = plan.notices.iter().filter_map(|notice| match notice {
            Notice::AnothersAddress { address } => Some((address.key(), address.clone())),
            _ => None,
        });
        let found: BTreeMap<_, _> = found.collect();
        if found.is_empty() && self.0.is_empty() {
            return;
        }
        let declared = desired.addresses.iter().flatten();
        let declared: HashSet<_> =
            declared.filter_map(|it| Some((it.address, plan.devices.dev(&it.dev)?))).collect();
        self.0.retain(|_, it| declared.contains(&(it.address, it.dev)));
        let missing = self.0.iter().filter(|(key, _)| !found.contains_key(key));
        let missing =
            missing.map(|(_, address)| Notice::AnothersAddress { address: address.clone() });
        plan.notices.extend(missing);
        self.0.extend(found);
    }
}

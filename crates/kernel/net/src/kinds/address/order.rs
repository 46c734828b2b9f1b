//! The order of ops on addresses.

use super::Address;
use crate::kinds::{Action, Cleared, Dependencies, ObjectKind as _, Ordered, Provider, Stage};

impl Address {
    /// Notes that the address is local, and its subnet on the link.
    pub(crate) fn provide_subnet(&self, provider: Provider, after: &mut Dependencies<'_>) {
        for prefix in self.on_link() {
            after.provide_prefix(Some(self.dev), prefix, provider);
        }
        after.provide_local(self.address.ip(), provider);
    }
}

impl Ordered for Address {
    fn stage(&self, action: Action, anew: bool, cleared: &Cleared) -> Stage {
        if action != Action::Delete {
            return Stage::Addresses;
        }
        let clears = anew
            || cleared.devs.contains(&self.dev)
            || cleared.subnets.contains(&(self.dev, self.subnet()))
            || cleared.addresses.contains(&self.key());
        if clears { Stage::ClearAddresses } else { Stage::DropAddresses }
    }

    fn needs(&self, action: Action, before: &mut Dependencies<'_>, needed: &mut Vec<u32>) {
        if action != Action::Delete {
            needed.extend(before.created.get(&self.dev));
            needed.extend(before.cleared_addresses.get(&self.key()));
        }
    }

    fn provide(
        &self,
        action: Action,
        _was: Option<&Address>,
        at: u32,
        after: &mut Dependencies<'_>,
    ) {
        match action {
            Action::Delete => drop(after.cleared_addresses.insert(self.key(), at)),
            Action::Create | Action::Update => self.provide_subnet(Provider::Op(at), after),
        }
    }
}

//! A fingerprint of a desired state, to recognise it in the next pass.

use trueup_diff::{Desired, Revision, Routes};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredFingerprint {
    /// All but the routes.
    lists: Desired,
    routes: Option<Revision>,
}

impl DesiredFingerprint {
    pub(super) fn of(desired: &Desired) -> DesiredFingerprint {
        let Desired {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            nexthops,
            adopt,
        } = desired;
        DesiredFingerprint {
            lists: Desired {
                links: links.clone(),
                addresses: addresses.clone(),
                neighbours: neighbours.clone(),
                routes: None,
                rules: rules.clone(),
                nexthops: *nexthops,
                adopt: adopt.clone(),
            },
            routes: routes.as_ref().map(Routes::revision),
        }
    }

    pub(super) fn is_same(&self, desired: &Desired) -> bool {
        self.routes == desired.routes.as_ref().map(Routes::revision) && self.has_lists(desired)
    }

    /// Whether a desired state is the same but for its routes.
    pub(super) fn is_same_but_routes(&self, desired: &Desired) -> bool {
        self.has_lists(desired) && self.routes.is_some() == desired.routes.is_some()
    }

    fn has_lists(&self, desired: &Desired) -> bool {
        let Desired {
            links,
            addresses,
            neighbours,
            routes: _,
            rules,
            nexthops,
            adopt,
        } = &self.lists;
        (links, addresses, neighbours, rules, nexthops, adopt)
            == (
                &desired.links,
                &desired.addresses,
                &desired.neighbours,
                &desired.rules,
                &desired.nexthops,
                &desired.adopt,
            )
    }
}

//! A fingerprint of a desired state, to recognise it in the next pass.

use trueup_diff::{Desired, Kind, ObjectKind as _, OfKind, Routes, RoutesRevision, each_kind};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DesiredFingerprint {
    /// All but the routes.
    lists: Desired,
    routes: Option<RoutesRevision>,
}

impl DesiredFingerprint {
    pub(super) fn of(desired: &Desired) -> DesiredFingerprint {
        let mut lists = Desired::default().with_adopt(desired.adopt.clone());
        each_kind!(K => if K::KIND != Kind::Route {
            let list = OfKind::<K>::of_kind(desired);
            OfKind::<K>::of_kind_mut(&mut lists).clone_from(list);
        });
        DesiredFingerprint {
            lists,
            routes: desired.routes.as_ref().map(Routes::revision),
        }
    }

    pub(super) fn is_same(&self, desired: &Desired) -> bool {
        self.routes == desired.routes.as_ref().map(Routes::revision) && self.has_lists(desired)
    }

    /// Returns true if a desired state is the same but for its routes.
    pub(super) fn is_same_but_routes(&self, desired: &Desired) -> bool {
        self.has_lists(desired) && self.routes.is_some() == desired.routes.is_some()
    }

    fn has_lists(&self, desired: &Desired) -> bool {
        let mut same = self.lists.adopt == desired.adopt;
        each_kind!(K => if K::KIND != Kind::Route {
            same &= OfKind::<K>::of_kind(&self.lists) == OfKind::<K>::of_kind(desired);
        });
        same
    }
}

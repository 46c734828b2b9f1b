//! The pure diff of one kind of object: for those who need no plan.
//!
//! Each function compares indexed objects in canonical form, whatever form they have, and says what to create, update and
//! delete, in the order of their keys; carrying it out in a safe order, and sparing what would go
//! along, is what [`plan()`](crate::plan()) adds. No names of devices are known here: an address's
//! label that is its device's name counts as a label.

use std::collections::BTreeSet;

use crate::compare::{self, Duplicate};
use crate::devices::Devices;
use crate::kinds::{
    Address, AddressKey, Item as _, Link, LinkKey, Neighbour, NeighbourKey, Nexthop, ObjectKind,
    Route, Rule,
};

/// An object as it was given, and in canonical form.
struct Form<'a, K> {
    given: &'a K,
    canonical: K,
}

impl<'a, K: ObjectKind> Form<'a, K> {
    fn all(list: &'a [K]) -> Vec<Form<'a, K>> {
        let nameless = Devices::default();
        let form = |given: &'a K| Form { given, canonical: given.clone().canonical_on(&nameless) };
        list.iter().map(form).collect()
    }

    fn key(&self) -> K::Key {
        self.canonical.key()
    }
}

/// What turns the observed objects of a kind into the desired ones. Each list is in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindDiff<'a, K> {
    /// Desired and absent.
    pub create: Vec<&'a K>,
    /// Ours, and not as desired: the desired object, then the observed one. It can be changed in
    /// place if all of its [`differences`](crate::Item::differences) can, and is deleted and
    /// created if not.
    pub update: Vec<(&'a K, &'a K)>,
    /// Ours, and undesired.
    pub delete: Vec<&'a K>,
    /// Foreign, on a desired key and not as declared (what is left open matches anything): the desired object, then the foreign one. To
    /// create ours would be refused.
    pub conflicts: Vec<(&'a K, &'a K)>,
}

fn diff<'a, K: ObjectKind>(
    desired: &'a [K],
    observed: &'a [K],
    is_ours: impl Fn(&K) -> bool,
) -> Result<KindDiff<'a, K>, Duplicate> {
    let mut diff = KindDiff {
        create: Vec::new(),
        update: Vec::new(),
        delete: Vec::new(),
        conflicts: Vec::new(),
    };
    let (desired, observed) = (Form::all(desired), Form::all(observed));
    compare::join(&desired, &observed, Form::key, |_, wanted, present| {
        let present = present.iter().copied();
        let present = present.filter(|object| !object.canonical.is_transient());
        let (ours, foreign): (Vec<&Form<'_, K>>, Vec<&Form<'_, K>>) =
            present.partition(|object| is_ours(&object.canonical));
        let mut kept = None;
        if let Some(wanted) = wanted {
            let form = &wanted.canonical;
            let agrees = |it: &Form<'_, K>| form.agrees(&it.canonical);
            let serves = |it: &&Form<'_, K>| form.with_open_of(&it.canonical).agrees(&it.canonical);
            let agreeing = ours.iter().position(|it| agrees(it));
            kept = agreeing.or((!ours.is_empty()).then_some(0));
            match (kept, foreign.first()) {
                (Some(at), _) if agrees(ours[at]) => {}
                (Some(at), _) => diff.update.push((wanted.given, ours[at].given)),
                (None, Some(_)) if foreign.iter().any(serves) => {}
                (None, Some(foreign)) => diff.conflicts.push((wanted.given, foreign.given)),
                (None, None) => diff.create.push(wanted.given),
            }
        }
        let ours = ours.into_iter().enumerate();
        let extra = ours.filter(|(at, _)| Some(*at) != kept);
        diff.delete.extend(extra.map(|(_, it)| it.given));
    })?;
    Ok(diff)
}

/// Compares routes; those of `protocol` are ours.
///
/// ```
/// use trueup_net::{Route, RouteType, routes};
///
/// let route = |dst: &str, protocol| {
///     let mut route: Route = Route::of_type(RouteType::Blackhole, dst.parse().unwrap());
///     route.protocol = protocol;
///     route.canonical()
/// };
/// let desired = [route("10.1.0.0/16", 116), route("10.2.0.0/16", 116)];
/// let observed = [route("10.2.0.0/16", 116), route("10.3.0.0/16", 116), route("10.4.0.0/16", 4)];
/// let diff = routes(&desired, &observed, 116)?;
/// assert_eq!(diff.create, [&desired[0]]);
/// assert_eq!(diff.delete, [&observed[1]]);
/// # Ok::<(), trueup_net::Duplicate>(())
/// ```
///
/// # Errors
///
/// When two desired routes have one key.
pub fn routes<'a>(
    desired: &'a [Route],
    observed: &'a [Route],
    protocol: u8,
) -> Result<KindDiff<'a, Route>, Duplicate> {
    diff(desired, observed, |route| route.protocol == protocol)
}

/// Compares rules; those of `protocol` are ours.
///
/// # Errors
///
/// When two desired rules have one key.
pub fn rules<'a>(
    desired: &'a [Rule],
    observed: &'a [Rule],
    protocol: u8,
) -> Result<KindDiff<'a, Rule>, Duplicate> {
    diff(desired, observed, |rule| rule.protocol == protocol)
}

/// Compares nexthop objects; those of `protocol` are ours.
///
/// # Errors
///
/// When two desired nexthop objects have one id.
pub fn nexthops<'a>(
    desired: &'a [Nexthop],
    observed: &'a [Nexthop],
    protocol: u8,
) -> Result<KindDiff<'a, Nexthop>, Duplicate> {
    diff(desired, observed, |nexthop| nexthop.protocol == protocol)
}

/// Compares addresses; those whose keys are in `owned` are ours.
///
/// # Errors
///
/// When two desired addresses have one key.
pub fn addresses<'a>(
    desired: &'a [Address],
    observed: &'a [Address],
    owned: &BTreeSet<AddressKey>,
) -> Result<KindDiff<'a, Address>, Duplicate> {
    diff(desired, observed, |address| owned.contains(&address.key()))
}

/// Compares neighbours; those whose keys are in `owned` are ours. Neighbours that the kernel
/// resolved are as absent.
///
/// # Errors
///
/// When two desired neighbours have one key.
pub fn neighbours<'a>(
    desired: &'a [Neighbour],
    observed: &'a [Neighbour],
    owned: &BTreeSet<NeighbourKey>,
) -> Result<KindDiff<'a, Neighbour>, Duplicate> {
    diff(desired, observed, |neighbour| owned.contains(&neighbour.key()))
}

/// Compares links; those whose names are in `owned` are ours.
///
/// # Errors
///
/// When two desired links have one name.
pub fn links<'a>(
    desired: &'a [Link],
    observed: &'a [Link],
    owned: &BTreeSet<LinkKey>,
) -> Result<KindDiff<'a, Link>, Duplicate> {
    diff(desired, observed, |link| owned.contains(&link.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Lifetimes, NeighbourState};
    use crate::values::Dev;

    #[test]
    fn foreign_objects_are_conflicts_and_are_never_deleted() {
        let address = |text: &str| Address::new(Dev::index(2), text.parse().unwrap());
        let mut mortal = address("10.0.0.1/24");
        mortal.lifetimes = Lifetimes { valid: 60, preferred: 60 };
        let lasting = Lifetimes { valid: 600, preferred: 600 };
        let desired = [address("10.0.0.1/24").with_lifetimes(lasting), address("10.0.0.2/24")];
        let observed = [mortal.clone(), address("10.0.0.2/24"), address("10.0.0.3/24")];
        let none = addresses(&desired, &observed, &BTreeSet::new()).unwrap();
        assert_eq!(none.conflicts, [(&desired[0], &observed[0])]);
        let open = [address("10.0.0.1/24")];
        let open = addresses(&open, &observed, &BTreeSet::new()).unwrap();
        assert!(open.conflicts.is_empty(), "what is left open matches anything");
        assert!(none.create.is_empty() && none.update.is_empty() && none.delete.is_empty());
        let owned = observed.iter().map(Address::key).collect();
        let all = addresses(&desired, &observed, &owned).unwrap();
        assert_eq!(all.update, [(&desired[0], &observed[0])]);
        assert_eq!(all.delete, [&observed[2]]);
        assert!(all.conflicts.is_empty());
    }

    #[test]
    fn a_resolved_neighbour_is_as_absent() {
        let lladdr = "02:00:00:00:00:09".parse().unwrap();
        let desired = [Neighbour::new(Dev::index(2), [10, 0, 0, 9].into(), lladdr)];
        let mut observed = desired.clone();
        observed[0].state = NeighbourState::Dynamic;
        let owned = observed.iter().map(Neighbour::key).collect();
        let diff = neighbours(&desired, &observed, &owned).unwrap();
        assert_eq!(diff.create, [&desired[0]]);
        assert!(diff.delete.is_empty());
    }
}

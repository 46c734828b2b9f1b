//! Resolves authored objects, which name their devices, to indexed ones.
//!
//! A name leads to the interface with that name. If the plan creates the interface, the name leads
//! to a planned device: it is missing, or a desired change requires deleting it first.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use trueup_diff::{Found, Verdict, decide};

use crate::collateral::{CollateralIndex, Effects};
use crate::collection::Collection;
use crate::desired::{Desired, NexthopMode};
use crate::devices::{Devices, Macvlans, Names, Problem};
use crate::error::DesiredError;
use crate::kinds::Check;
use crate::kinds::{
    Authored, Canonical, Kind, Kinds, Link, LinkKind, Lists, Nexthop, Object, ObjectKey,
    ObjectKind as _, OfKind, Registered, Route, RouteKey,
};
use crate::observed::Observed;
use crate::op::Hold;
use crate::ownership::{Owned, Policy};
use crate::proof::{DomainDevices, Proof};
use crate::routes::{DumpMatcher, Gateways, ResolvedRoutes, Routes, Tracker};
use crate::values::{Dev, IfName};
use crate::{each_kind, per_kind};

type ResolvedOf<K> = Option<Vec<K>>;

per_kind! {
    /// The desired objects, with the devices of the observation, as the planner takes them. A kind
    /// that is `None` is unmanaged. Lists have the order of [`Desired`]. The list of routes is
    /// empty: there can be many, so they are resolved one by one.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct Resolved[ResolvedOf] {
        /// The rules by which objects count as ours.
        pub policy: Policy,
        /// The devices that the objects refer to.
        pub devices: Devices,
        /// The existing objects that become ours.
        pub adopt: HashSet<ObjectKey>,
        /// Our links that must be deleted and created anew, by index.
        pub(crate) recreated: BTreeSet<u32>,
        /// Our links that would have to be recreated, each with the reason why it stays.
        pub(crate) held: BTreeMap<u32, Hold>,
    }
}

impl Resolved {
    /// Returns the managed kinds.
    pub(crate) fn managed(&self) -> Kinds {
        let mut managed = Kinds::NONE;
        each_kind!(K => if OfKind::<K>::of_kind(self).is_some() {
            managed = managed.with(K::KIND);
        });
        managed
    }
}

impl Lists for Resolved {
    fn canonical_on(&self, devices: &Devices) -> Cow<'_, Resolved> {
        let mut canonical = Cow::Borrowed(self);
        each_kind!(K => {
            if let Some(list) = OfKind::<K>::of_kind(self)
                && let Cow::Owned(list) = Canonical::list(list.into(), devices).into_inner()
            {
                *OfKind::<K>::of_kind_mut(canonical.to_mut()) = Some(list);
            }
        });
        canonical
    }
}

/// Resolves a desired state with names already resolved against the same observation. Plans will
/// cover only `routes`.
pub(crate) fn resolve(
    desired: &Desired,
    routes: Option<(&Routes, &ResolvedRoutes)>,
    names: &Resolution,
    policy: &Policy,
) -> Result<Resolved, DesiredError> {
    let context = Context {
        names: Names {
            devices: &names.devices,
            marker: policy.marker,
            rules_have_protocol: !policy.unstored.contains(Kind::Rule),
        },
        routes,
    };
    let mut resolved = Resolved {
        policy: policy.clone(),
        devices: names.devices.clone(),
        recreated: names.recreated.clone(),
        held: names.held.clone(),
        ..Resolved::default()
    };
    each_kind!(K => {
        let list = OfKind::<K>::of_kind(desired).resolve(&context)?;
        let adopted = OfKind::<K>::of_kind(desired).adopted_of(list.as_deref().unwrap_or_default());
        resolved.adopt.extend(adopted);
        *OfKind::<K>::of_kind_mut(&mut resolved) = list;
    });
    if let Some((routes, _)) = routes {
        resolved.adopt.extend(routes.adopted().iter().copied().map(ObjectKey::Route));
    }
    Ok(resolved)
}

/// The context in which objects of all kinds are resolved.
struct Context<'a> {
    names: Names<'a>,
    /// The routes to resolve, perhaps only part of the desired ones.
    routes: Option<(&'a Routes, &'a ResolvedRoutes)>,
}

/// One kind's field of [`Desired`], which can be resolved.
trait Resolve {
    type Indexed;

    fn resolve(&self, context: &Context<'_>) -> Result<Option<Vec<Self::Indexed>>, DesiredError>;

    /// Returns the keys of the objects to adopt, among the resolved ones. Routes have theirs in the
    /// context.
    fn adopted_of(&self, resolved: &[Self::Indexed]) -> Vec<ObjectKey> {
        let _ = resolved;
        Vec::new()
    }
}

impl<A: Authored + Check> Resolve for Option<Collection<A>> {
    type Indexed = A::Indexed;

    fn resolve(&self, context: &Context<'_>) -> Result<Option<Vec<A::Indexed>>, DesiredError> {
        let Some(objects) = self else {
            return Ok(None);
        };
        let objects = objects
            .iter()
            .enumerate()
            .map(|(index, object)| {
                let checked = object.check().map_err(Problem::Invalid);
                let resolved = checked.and_then(|()| object.resolve(&context.names));
                resolved.map_err(|problem| DesiredError::new(A::Indexed::KIND, index, problem))
            })
            .collect::<Result<_, _>>()?;
        Ok(Some(objects))
    }

    fn adopted_of(&self, resolved: &[A::Indexed]) -> Vec<ObjectKey> {
        let Some(objects) = self.as_ref().filter(|objects| !objects.adopted().is_empty()) else {
            return Vec::new();
        };
        objects
            .keys()
            .zip(resolved)
            .filter(|(key, _)| objects.adopted().contains(key))
            .map(|(_, object)| object.object_key())
            .collect()
    }
}

impl Resolve for Option<Routes> {
    type Indexed = Route;

    fn resolve(&self, context: &Context<'_>) -> Result<Option<Vec<Route>>, DesiredError> {
        // There can be many routes, so they are resolved one by one.
        Ok(context.routes.map(|_| Vec::new()))
    }
}

impl Resolve for NexthopMode {
    type Indexed = Nexthop;

    fn resolve(&self, context: &Context<'_>) -> Result<Option<Vec<Nexthop>>, DesiredError> {
        Ok(context.routes.map(|(_, resolved)| resolved.nexthop_table().all().to_vec()))
    }
}

/// The names of a desired state, resolved once for an observation: observed devices, devices that a
/// plan will create, and the routes if they [are resolved](Self::with_routes).
#[derive(Clone, Debug)]
pub struct Resolution {
    devices: Devices,
    /// Our links that must be deleted and created anew, by index.
    recreated: BTreeSet<u32>,
    /// Our links that would have to be recreated, each with the reason why it stays.
    held: BTreeMap<u32, Hold>,
    /// The devices that lead to gateways.
    gateways: Gateways,
    pub(crate) routes: Option<ResolvedRoutes>,
}

impl Resolution {
    /// Resolves the names of a desired state. `observed` need not contain our routes.
    ///
    /// # Errors
    ///
    /// The errors of [`plan`](crate::plan()) about links.
    pub fn of(
        desired: &Desired,
        observed: &Observed,
        owned: &Owned,
        policy: &Policy,
    ) -> Result<Resolution, DesiredError> {
        let proof = Proof {
            policy,
            owned,
            domain: &DomainDevices::of(&policy.domain, &observed.links, owned),
            managed: desired.managed(),
        };
        let macvlans = macvlans(desired, observed);
        let mut devices = Devices::observed(&observed.links).with_macvlans(macvlans);
        if let Some(links) = &desired.links {
            pairs(links)?;
            let only = links.iter().position(|link| link.only_addresses);
            if let Some(index) = only.filter(|_| desired.addresses.is_none()) {
                let what = "addresses: only the declared ones, and none are: declare them, or an \
                            empty list";
                return Err(DesiredError::new(Kind::Link, index, Problem::Invalid(what)));
            }
            // No object can depend on a link that is to go.
            if observed.complete.contains(Kind::Link) {
                for index in undesired(links.iter(), &observed.links, proof) {
                    devices.forget(Dev::index(index));
                }
            }
        }
        // In the order of names, so that planned devices do not depend on the input's order. The
        // other end of a pair may fail to appear, if its maker exists as a link of another kind.
        // Then the objects on it wait, and all others go on.
        let links = || desired.links.iter().flatten();
        let made: BTreeSet<IfName> = links()
            .filter(|link| link.is_creatable() || policy.strict)
            .map(|link| link.name)
            .chain(links().filter_map(Link::peer))
            .collect();
        for name in made {
            if devices.dev(&name).is_none() {
                devices.plan(name);
            }
        }
        if !policy.strict {
            let named = desired.device_names().into_iter();
            named.for_each(|name| devices.miss(name));
        }
        let Recreated { recreated, held } = match &desired.links {
            Some(links) => recreate(links, observed, proof, &mut devices)?,
            None => Recreated::default(),
        };
        let gateways = Gateways::of(desired, observed, &devices, proof);
        Ok(Resolution { devices, recreated, held, gateways, routes: None })
    }

    /// Returns the devices and their names.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the desired objects as they will be in the kernel, each kind in its own order.
    ///
    /// # Errors
    ///
    /// The same as [`plan`](crate::plan()).
    pub fn objects(&self, desired: &Desired, policy: &Policy) -> Result<Vec<Object>, DesiredError> {
        let routes = self.routes_of(desired, None);
        let mut resolved = resolve(desired, routes, self, policy)?;
        if let Some((routes, all)) = routes {
            resolved.routes = Some(all.for_routes(routes, &self.devices).list(routes)?);
        }
        let mut objects: Vec<Object> = Vec::new();
        each_kind!(K => {
            let list = OfKind::<K>::of_kind_mut(&mut resolved).take();
            objects.extend(list.into_iter().flatten().map(Object::from));
        });
        Ok(objects)
    }

    /// Resolves the routes of a desired state, if it has any, and assigns nexthop objects to them
    /// if the mode asks for it. Uses only the nexthop objects of `observed`.
    #[must_use]
    pub fn with_routes(
        self,
        desired: &Desired,
        observed: &Observed,
        policy: &Policy,
    ) -> Resolution {
        let (devices, marker) = (&self.devices, policy.marker);
        let resolved = desired.routes.as_ref().map(|routes| match desired.nexthops {
            NexthopMode::Inline => ResolvedRoutes::new(routes, devices, marker),
            NexthopMode::Objects => {
                ResolvedRoutes::with_objects(routes, devices, marker, &observed.nexthops)
            }
        });
        self.with_resolved(resolved)
    }

    /// Resolves routes that are to point at existing nexthop objects, known to a tracker. Resolves
    /// none if one of them needs another object.
    #[must_use]
    pub fn with_routes_on(self, known: &Tracker, routes: &Routes, policy: &Policy) -> Resolution {
        let resolved = known.assignment.as_ref().and_then(|known| {
            ResolvedRoutes::with_known_objects(routes, &self.devices, policy.marker, &known.table)
        });
        self.with_resolved(resolved)
    }

    /// Keeps the routes of an earlier resolution, and the nexthop objects that they point at.
    #[must_use]
    pub fn with_routes_of(self, before: Option<Resolution>) -> Resolution {
        Resolution { routes: before.and_then(|before| before.routes), ..self }
    }

    fn with_resolved(self, routes: Option<ResolvedRoutes>) -> Resolution {
        Resolution { routes: routes.map(|routes| routes.with_gateways(&self.gateways)), ..self }
    }

    /// Returns true if routes were resolved.
    pub fn has_routes(&self) -> bool {
        self.routes.is_some()
    }

    /// Returns the desired routes, or the given part of them, with their resolution.
    pub(crate) fn routes_of<'a>(
        &'a self,
        desired: &'a Desired,
        part: Option<&'a Routes>,
    ) -> Option<(&'a Routes, &'a ResolvedRoutes)> {
        part.or(desired.routes.as_ref()).zip(self.routes.as_ref())
    }

    /// Makes a matcher for the resolved routes, or for a part of them. It keeps all rows of the
    /// keys in `kept`. If other routes were resolved, it keeps all rows of all keys.
    ///
    /// Returns `None` if no routes were resolved.
    pub fn matcher<'a>(
        &self,
        routes: &'a Routes,
        kept: BTreeSet<RouteKey>,
    ) -> Option<DumpMatcher<'a>> {
        Some(DumpMatcher::of_resolved(routes, self.routes.as_ref()?, kept))
    }

    /// Returns the keys of the routes outside a policy's domain, given the observed `links`.
    pub fn outside_domain(
        &self,
        routes: &Routes,
        links: &[Link],
        owned: &Owned,
        policy: &Policy,
    ) -> BTreeSet<RouteKey> {
        self.routes.as_ref().map_or_else(BTreeSet::new, |resolved| {
            resolved.outside_domain(routes, links, owned, policy)
        })
    }
}

/// Finds the devices below macvlans, declared and observed.
fn macvlans(desired: &Desired, observed: &Observed) -> Macvlans {
    let declared = desired.links.iter().flatten().filter_map(|link| match &link.kind {
        Some(LinkKind::Macvlan(macvlan)) => Some((link.name, macvlan.link)),
        _ => None,
    });
    let there = observed.links.iter().filter_map(|link| match &link.kind {
        Some(LinkKind::Macvlan(macvlan)) => Some((Dev::index(link.index), macvlan.link)),
        Some(LinkKind::Other(kind)) if **kind == *"macvtap" => {
            let lower = observed.link_status.get(&link.index).and_then(|status| status.lower);
            Some((Dev::index(link.index), Dev::index(lower.unwrap_or(0))))
        }
        _ => None,
    });
    Macvlans { declared: declared.collect(), observed: there.collect() }
}

/// Refuses declarations of a pair's two ends that do not match.
fn pairs(links: &Collection<Link<IfName>>) -> Result<(), DesiredError> {
    // The link that names each end.
    let mut makers: BTreeMap<IfName, usize> = BTreeMap::new();
    for (index, link) in links.iter().enumerate() {
        let Some(end) = link.peer() else { continue };
        let misfit = links.get(&end).filter(|other| match &other.kind {
            None | Some(LinkKind::Veth { peer: None }) => false,
            Some(LinkKind::Veth { peer: Some(peer) }) => *peer != link.name,
            Some(_) => true,
        });
        let first = *makers.entry(end).or_insert(index);
        let rival = (first != index).then_some(first);
        if let Some(other) = misfit.and_then(|end| position(links, &end.name)).or(rival) {
            return Err(DesiredError::new(Kind::Link, index, Problem::Pair(other)));
        }
    }
    Ok(())
}

/// Returns a link's position in key order.
fn position(links: &Collection<Link<IfName>>, name: &IfName) -> Option<usize> {
    links.keys().position(|it| it == name)
}

/// Our links that cannot become as desired in place, by index.
#[derive(Default)]
struct Recreated {
    recreated: BTreeSet<u32>,
    /// The reason why each stays: an object deleted along with it, or one that it waits for.
    held: BTreeMap<u32, Hold>,
}

/// Finds our links that must be deleted and created anew, and gives each a planned device. Links
/// stacked on such a link go with it, so the search repeats until a round finds no more. A link
/// stays as it is if it carries foreign objects, or if it would have to wait for a device.
fn recreate(
    links: &Collection<Link<IfName>>,
    observed: &Observed,
    proof: Proof<'_>,
    devices: &mut Devices,
) -> Result<Recreated, DesiredError> {
    let present: BTreeMap<IfName, &Link> =
        observed.links.iter().map(|link| (link.name, link)).collect();
    if !observed.complete.contains(Kind::Link) {
        return Ok(Recreated::default());
    }
    let collateral = LazyCell::new(|| {
        let effects = Effects::new(observed);
        CollateralIndex::new(observed, effects, std::iter::empty(), proof)
    });
    let mut going = undesired(links.iter(), &observed.links, proof);
    going.retain(|index| collateral.of_delete(*index).is_none());
    let mut recreated = BTreeSet::new();
    let mut held = BTreeMap::new();
    loop {
        let before = recreated.len();
        for (index, desired) in links.iter().enumerate() {
            let Some(observed) = present.get(&desired.name) else {
                continue;
            };
            if recreated.contains(&observed.index) || !proof.is_ours(*observed) {
                continue;
            }
            let desired = desired
                .with_devices(devices)
                .map_err(|problem| DesiredError::new(Kind::Link, index, problem))?;
            let goes_along = observed.lower().is_some_and(|dev| {
                let index = dev.as_index().unwrap_or(0);
                recreated.contains(&index) || going.contains(&index)
            });
            let keeps = Canonical::of(&desired, devices)
                .get()
                .changes_in_place(Canonical::of(*observed, devices).get());
            // A link that netlink cannot create is not deleted.
            let creatable = desired.kind.as_ref().is_none_or(LinkKind::is_creatable);
            if !goes_along && (keeps || !creatable) {
                continue;
            }
            // A link that goes with the one below it is created anew once all its devices exist.
            let waits = Hold::no_device(devices, desired.devices()).filter(|_| !goes_along);
            if let Some(hold) = waits.or_else(|| collateral.of_delete(observed.index).cloned()) {
                held.insert(observed.index, hold);
            } else {
                recreated.insert(observed.index);
                devices.plan(observed.name);
                let other = desired.peer();
                if let Some(gone) = observed.peer().and_then(|name| present.get(&name)) {
                    recreated.insert(gone.index);
                    devices.forget(Dev::index(gone.index));
                    if links.contains(&gone.name) {
                        devices.plan(gone.name);
                    } else if !proof.policy.strict {
                        devices.miss(gone.name);
                    }
                }
                if let Some(other) = other.filter(|name| devices.dev(name).is_none()) {
                    devices.plan(other);
                }
            }
        }
        if recreated.len() == before {
            return Ok(Recreated { recreated, held });
        }
    }
}

/// Returns our undeclared links, by index. The other end of a declared link is not among them.
pub(crate) fn undesired<'l, D: 'l>(
    wanted: impl Iterator<Item = &'l Link<D>>,
    observed: &[Link],
    proof: Proof<'_>,
) -> BTreeSet<u32> {
    let declared: BTreeSet<IfName> = wanted.map(|link| link.name).collect();
    observed
        .iter()
        .filter(|link| {
            let is_declared = declared.contains(&link.name)
                || link.peer().is_some_and(|peer| declared.contains(&peer));
            let ours = if proof.is_ours(*link) { Found::Different } else { Found::Nothing };
            decide(is_declared, ours, Found::Nothing) == Verdict::Delete
        })
        .map(|link| link.index)
        .collect()
}

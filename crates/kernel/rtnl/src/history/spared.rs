//! Objects that are left alone for now, and deletes that would take them along.

use std::collections::BTreeMap;

use trueup_net::{Action, Dev, Hold, LinkKind, Object, Plan, Prefix, VethAttrs};

/// Holds the deletes that would take along an object that is left alone.
pub(super) fn hold_collateral(plan: &mut Plan) {
    // By device; addresses by their subnets too, as they go with the first of that and not with
    // others.
    let mut spared: BTreeMap<(Dev, Option<Prefix>), Object> = BTreeMap::new();
    for op in &plan.ops {
        if let Some(Hold::Grace(_) | Hold::TooManyDeletes { .. }) = op.hold {
            let subnet = match &op.object {
                Object::Address(address) => Some(address.subnet()),
                _ => None,
            };
            let on = op.object.devices().into_iter().map(|dev| (dev, subnet));
            spared.extend(on.map(|place| (place, op.object.clone())));
        }
    }
    if spared.is_empty() {
        return;
    }
    // Deletes begin with what depends on others.
    for op in &mut plan.ops {
        if op.action != Action::Delete || op.hold.is_some() {
            continue;
        }
        let spares = match &op.object {
            Object::Link(link) => {
                let other = match &link.kind {
                    Some(LinkKind::Veth(VethAttrs { peer: Some(peer), .. })) => {
                        plan.devices.dev(peer)
                    }
                    _ => None,
                };
                let on = |dev: Dev| {
                    let (place, object) = spared.range((dev, None)..).next()?;
                    (place.0 == dev).then_some(object)
                };
                let ends = std::iter::once(Dev::index(link.index)).chain(other);
                ends.into_iter().find_map(on)
            }
            Object::Address(address) => {
                // No other address goes with a secondary.
                let subnet = (!address.secondary).then(|| Some(address.subnet()));
                let mut places = std::iter::once(None).chain(subnet);
                places.find_map(|subnet| spared.get(&(address.dev, subnet)))
            }
            _ => None,
        };
        let Some(object) = spares.cloned() else {
            continue;
        };
        if let Object::Link(link) = &op.object {
            let below = link.parents().map(|dev| ((*dev, None), object.clone()));
            spared.extend(below);
        }
        op.hold = Some(Hold::Collateral(Box::new(object)));
    }
}

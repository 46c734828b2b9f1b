//! Desired links, by number.

use std::collections::BTreeMap;

use trueup_net::{
    BridgeAttrs, IfName, Link, LinkAddr, LinkKind, MacvlanAttrs, MacvlanMode, VxlanAttrs,
};

use super::author::{LINKS, ip, up};
use super::spec::LinkSpec;
use crate::desired::name;

/// Returns a specification's links, the first of each name. In a clean case all are possible.
pub(crate) fn links(specs: &[LinkSpec], clean: bool) -> Vec<Link<IfName>> {
    let mut seen: BTreeMap<&str, &LinkSpec> = BTreeMap::new();
    for spec in specs {
        seen.entry(LINKS[spec.which]).or_insert(spec);
    }
    let mut links: Vec<Link<IfName>> = Vec::new();
    for (dev, spec) in &seen {
        let kind = match *dev {
            "br0" | "br1" => LinkKind::Bridge({
                let mut it = BridgeAttrs::default();
                it.stp = (spec.variant & 1 != 0).then_some(spec.variant & 2 != 0);
                it.ageing_time =
                    (spec.variant & 4 != 0).then_some(if spec.variant & 2 != 0 { 6000 } else { 0 });
                it
            }),
            "v0" => LinkKind::veth(name("v1")),
            "v1" => LinkKind::veth(name("v0")),
            "vx0" => LinkKind::Vxlan({
                let mut it = VxlanAttrs::new(u32::from(spec.variant & 1) + 1).with_port(4789);
                it.local = (spec.variant & 2 != 0).then(|| ip(false, 3, 1));
                it.remote = (spec.variant & 4 != 0).then(|| ip(false, 3, 9));
                it.learning = (spec.variant & 4 != 0).then_some(spec.variant & 1 != 0);
                it.ttl = (spec.variant & 2 != 0).then_some(3 + spec.variant);
                it
            }),
            "mv0" => LinkKind::Macvlan({
                let mut it =
                    MacvlanAttrs::new(if spec.variant & 1 != 0 && seen.contains_key("br1") {
                        name("br1")
                    } else {
                        name("ext0")
                    });
                it.mode = (spec.variant & 2 != 0).then_some(if spec.variant & 4 != 0 {
                    MacvlanMode::Private
                } else {
                    MacvlanMode::Bridge
                });
                it
            }),
            "ifb0" => LinkKind::Ifb,
            _ => {
                let mut link = Link::must_exist(name(dev));
                link.mtu = spec.mtu.map(|small| if small { 1400 } else { 1500 });
                links.push(link);
                continue;
            }
        };
        let mut link = Link::new(name(dev), kind);
        link.up = spec.up;
        link.alias = spec.alias.map(|alias| match alias {
            0 => Box::from(&b""[..]),
            n => format!("alias {n}").into_bytes().into(),
        });
        link.group = spec.group.map(u32::from);
        link.address = spec.mac.map(|number| mac(number, dev));
        if *dev != "mv0" {
            link.mtu = spec.mtu.map(|small| if small { 1400 } else { 1500 });
        }
        // Only these become ports: other links do not forward, or carry another device. Both ends
        // of a pair in one bridge are a loop, whose frames would use up all processors.
        if matches!(*dev, "v0" | "vx0" | "v1") {
            let becomes_port = *dev != "v1" && seen.contains_key("br0");
            link.master = match spec.master {
                0 | 1 => None,
                2 => Some(None),
                _ => becomes_port.then(|| Some(name("br0"))),
            };
        }
        links.push(link);
    }
    if clean {
        // A macvlan cannot come up over a lower device that is down. A bridge that takes an MTU no
        // larger than its ports' takes it away from one of them.
        let raised: Vec<bool> = links
            .iter()
            .map(|link| match &link.kind {
                Some(LinkKind::Macvlan(MacvlanAttrs { link, .. })) => up(&links, &link.to_string()),
                _ => true,
            })
            .collect();
        for (link, may) in links.iter_mut().zip(raised) {
            if !may {
                link.up = link.up.map(|_| false);
            }
        }
    }
    links
}

/// Returns a unique hardware address for each device.
fn mac(mac: u8, dev: &str) -> LinkAddr {
    let last = dev.bytes().map(u32::from).sum::<u32>() % 200;
    format!("02:00:00:00:{mac:02x}:{last:02x}").parse().unwrap()
}

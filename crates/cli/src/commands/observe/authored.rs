//! From indexed objects back to authored ones: what `trueup_diff::resolve` does, the other way.

use std::collections::{BTreeMap, BTreeSet};

use trueup::diff::{
    Address, BridgeAttrs, Desired, Dev, IfName, Link, LinkKind, Neighbour, NextHop, NextHops,
    Observed, Route, Rule, VxlanAttrs,
};

use super::Sift;

/// The links of a namespace, by index and by name.
pub(super) struct Names<'a> {
    by_index: BTreeMap<u32, &'a Link>,
    by_name: BTreeMap<IfName, u32>,
}

impl<'a> Names<'a> {
    pub(super) fn new(links: &'a [Link]) -> Names<'a> {
        Names {
            by_index: links.iter().map(|link| (link.index, link)).collect(),
            by_name: links.iter().map(|link| (link.name, link.index)).collect(),
        }
    }

    pub(super) fn link(&self, index: u32) -> Option<&'a Link> {
        self.by_index.get(&index).copied()
    }

    fn name(&self, dev: Dev) -> Option<IfName> {
        Some(self.link(dev.as_index()?)?.name)
    }
}

fn index(dev: Dev) -> Option<u32> {
    dev.as_index()
}

impl Sift for Link {
    type Authored = Link<IfName>;

    /// A kind that stands on a device of another namespace cannot be said: the link must exist.
    /// What every new link lacks is not said where it lacks here: master, alias, group.
    fn authored(&self, names: &Names<'_>) -> Option<Link<IfName>> {
        let master = match self.master.flatten() {
            None => None,
            Some(master) => Some(Some(names.name(master)?)),
        };
        Some(Link {
            name: self.name,
            index: 0,
            kind: self
                .kind
                .as_ref()
                .and_then(|kind| authored_kind(kind, names)),
            up: self.up,
            mtu: self.mtu,
            address: self.address,
            master,
            alias: self.alias.clone().filter(|alias| !alias.is_empty()),
            group: self.group.filter(|group| *group != 0),
        })
    }

    fn alone(authored: Link<IfName>) -> Desired {
        Desired {
            links: Some(vec![authored]),
            ..Desired::default()
        }
    }

    fn back(desired: Desired) -> Option<Link<IfName>> {
        desired.links?.pop()
    }

    fn seen(&self, links: Vec<Link>) -> Observed {
        Observed {
            links,
            ..Observed::default()
        }
    }

    fn devices(&self, names: &Names<'_>) -> BTreeSet<u32> {
        let peer = match &self.kind {
            Some(LinkKind::Veth { peer: Some(peer) }) => names.by_name.get(peer).copied(),
            _ => None,
        };
        let parents = self.parents().filter_map(|dev| index(*dev));
        parents.chain(peer).chain([self.index]).collect()
    }
}

fn authored_kind(kind: &LinkKind, names: &Names<'_>) -> Option<LinkKind<IfName>> {
    Some(match kind {
        // A kernel built without VLAN filtering reports it as off, and refuses to be told so.
        LinkKind::Bridge(bridge) => LinkKind::Bridge(BridgeAttrs {
            vlan_filtering: bridge.vlan_filtering.filter(|on| *on),
            ..*bridge
        }),
        LinkKind::Veth { peer } => LinkKind::Veth { peer: *peer },
        LinkKind::Vxlan(vxlan) => LinkKind::Vxlan(VxlanAttrs {
            id: vxlan.id,
            local: vxlan.local,
            remote: vxlan.remote,
            port: vxlan.port,
            link: match vxlan.link {
                None => None,
                Some(link) => Some(names.name(link)?),
            },
            learning: vxlan.learning,
            ttl: vxlan.ttl,
        }),
        LinkKind::Vlan { link, id, protocol } => LinkKind::Vlan {
            link: names.name(*link)?,
            id: *id,
            protocol: *protocol,
        },
        LinkKind::Macvlan { link, mode } => LinkKind::Macvlan {
            link: names.name(*link)?,
            mode: *mode,
        },
        LinkKind::Ifb => LinkKind::Ifb,
        LinkKind::Dummy => LinkKind::Dummy,
        LinkKind::Bond { mode, miimon } => LinkKind::Bond {
            mode: *mode,
            miimon: *miimon,
        },
        LinkKind::Vrf { table } => LinkKind::Vrf { table: *table },
        LinkKind::Tun | LinkKind::Tap | LinkKind::Other(_) => return None,
    })
}

impl Sift for Address {
    type Authored = Address<IfName>;

    fn authored(&self, names: &Names<'_>) -> Option<Address<IfName>> {
        Some(Address {
            dev: names.name(self.dev)?,
            address: self.address,
            peer: self.peer,
            scope: self.scope,
            label: self.label,
            broadcast: self.broadcast,
            lifetimes: self.lifetimes,
            flags: self.flags,
            metric: self.metric,
            protocol: 0,
            secondary: false,
        })
    }

    fn alone(authored: Address<IfName>) -> Desired {
        Desired {
            addresses: Some(vec![authored]),
            ..Desired::default()
        }
    }

    fn back(desired: Desired) -> Option<Address<IfName>> {
        desired.addresses?.pop()
    }

    fn seen(&self, links: Vec<Link>) -> Observed {
        Observed {
            links,
            addresses: vec![self.clone()],
            ..Observed::default()
        }
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        index(self.dev).into_iter().collect()
    }
}

impl Sift for Neighbour {
    type Authored = Neighbour<IfName>;

    fn authored(&self, names: &Names<'_>) -> Option<Neighbour<IfName>> {
        Some(Neighbour {
            dev: names.name(self.dev)?,
            dst: self.dst,
            lladdr: self.lladdr,
            state: Default::default(),
            router: self.router,
            ext_learn: self.ext_learn,
            proxy: self.proxy,
            protocol: 0,
        })
    }

    fn alone(authored: Neighbour<IfName>) -> Desired {
        Desired {
            neighbours: Some(vec![authored]),
            ..Desired::default()
        }
    }

    fn back(desired: Desired) -> Option<Neighbour<IfName>> {
        desired.neighbours?.pop()
    }

    fn seen(&self, links: Vec<Link>) -> Observed {
        Observed {
            links,
            neighbours: vec![self.clone()],
            ..Observed::default()
        }
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        index(self.dev).into_iter().collect()
    }
}

impl Sift for Route {
    type Authored = Route<IfName>;

    fn authored(&self, names: &Names<'_>) -> Option<Route<IfName>> {
        let hop = |hop: &NextHop| {
            Some(NextHop {
                via: hop.via,
                dev: match hop.dev {
                    None => None,
                    Some(dev) => Some(names.name(dev)?),
                },
                weight: hop.weight,
                onlink: hop.onlink,
            })
        };
        let nexthops = match &self.nexthops {
            NextHops::None => NextHops::None,
            NextHops::One(one) => NextHops::One(hop(one)?),
            NextHops::Many(hops) => NextHops::Many(hops.iter().map(hop).collect::<Option<_>>()?),
            NextHops::Object(id) => NextHops::Object(*id),
        };
        Some(Route {
            table: self.table,
            dst: self.dst,
            metric: self.metric,
            tos: self.tos,
            from: self.from,
            kind: self.kind,
            nexthops,
            src: self.src,
            scope: self.scope,
            metrics: self.metrics.clone(),
            protocol: 0,
            unmodelled: self.unmodelled,
        })
    }

    fn alone(authored: Route<IfName>) -> Desired {
        Desired {
            routes: Some(vec![authored]),
            ..Desired::default()
        }
    }

    fn back(desired: Desired) -> Option<Route<IfName>> {
        desired.routes?.pop()
    }

    fn seen(&self, links: Vec<Link>) -> Observed {
        Observed {
            links,
            routes: vec![self.clone()],
            ..Observed::default()
        }
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        let hops = self.nexthops.as_slice().iter();
        hops.filter_map(|hop| hop.dev.and_then(index)).collect()
    }
}

impl Sift for Rule {
    type Authored = Rule;

    const BEYOND: &'static str = "it bears another protocol, and beside it a pass would make ours";

    fn authored(&self, _names: &Names<'_>) -> Option<Rule> {
        Some(Rule {
            protocol: 0,
            ..self.clone()
        })
    }

    fn alone(authored: Rule) -> Desired {
        Desired {
            rules: Some(vec![authored]),
            ..Desired::default()
        }
    }

    fn back(desired: Desired) -> Option<Rule> {
        desired.rules?.pop()
    }

    fn seen(&self, links: Vec<Link>) -> Observed {
        Observed {
            links,
            rules: vec![self.clone()],
            ..Observed::default()
        }
    }

    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        BTreeSet::new()
    }
}

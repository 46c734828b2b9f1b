//! Side effects of a link op on this and other links.
//!
//! With a link, the kernel deletes the links stacked on it and the other end of its pair. A VLAN
//! goes down with the device below, a port with its VRF or bond. A carrier is lost with the pair's
//! other end, with the device below, and with the last live port of a bridge or bond. A bridge that
//! never had a live port has a carrier until it first looks for one. Objects that depend on a
//! carrier may exist on a link without one until the kernel looks again. A bridge takes the least
//! hardware address and the least MTU of its ports, unless it was given its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::devices::Devices;
use crate::kinds::Action;
use crate::kinds::{Link, LinkKind, LinkStatus, Object};
use crate::observed::Observed;
use crate::op::Op;
use crate::values::{Dev, Family, IfName, LinkAddr};

/// An op's effect on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// It is deleted.
    Gone,
    /// It leaves its master.
    Released,
    /// It goes down, if only to come up again.
    Down,
    /// It loses its carrier.
    CarrierLost,
    /// Its hardware address changes.
    Readdressed,
    /// Its MTU shrinks to this many bytes.
    Shrunk(u32),
}

/// The ports of one master.
#[derive(Default)]
struct Ports {
    all: BTreeSet<u32>,
    /// The number of ports that keep the master's carrier up.
    live: usize,
    /// The least hardware address, and the number of ports that have it.
    address: Option<(LinkAddr, usize)>,
    mtu: Option<u32>,
}

/// The dependencies among links.
pub(crate) struct Effects<'a> {
    links: HashMap<u32, &'a Link>,
    status: &'a BTreeMap<u32, LinkStatus>,
    peers: HashMap<u32, u32>,
    above: HashMap<u32, BTreeSet<u32>>,
    ports: HashMap<u32, Ports>,
    /// The links that stop being live ports through the ops so far.
    leaving: BTreeSet<u32>,
    /// The bridges created by the ops.
    new_bridges: BTreeSet<Dev>,
    /// The MTUs in bytes of the links created by the ops, if known.
    new_mtus: HashMap<IfName, u32>,
}

impl<'a> Effects<'a> {
    pub(crate) fn new(observed: &'a Observed) -> Effects<'a> {
        let links = observed.links.iter();
        let mut effects = Effects {
            links: links.clone().map(|link| (link.index, link)).collect(),
            status: &observed.link_status,
            peers: HashMap::new(),
            above: HashMap::new(),
            ports: HashMap::new(),
            leaving: BTreeSet::new(),
            new_bridges: BTreeSet::new(),
            new_mtus: HashMap::new(),
        };
        let by_name: HashMap<_, u32> = links.clone().map(|link| (link.name, link.index)).collect();
        for link in links {
            if let Some(end) = link.peer().and_then(|name| by_name.get(&name)) {
                effects.peers.insert(link.index, *end);
            }
            if let Some(below) = effects.below(link) {
                effects.above.entry(below).or_default().insert(link.index);
            }
            let Some(master) = master(link) else { continue };
            let live = effects.is_live(link);
            let ports = effects.ports.entry(master).or_default();
            ports.all.insert(link.index);
            ports.live += usize::from(live);
            if let Some(address) = link.address {
                ports.address = Some(match ports.address {
                    Some((least, count)) if least == address => (least, count + 1),
                    Some(least) if least.0 < address => least,
                    _ => (address, 1),
                });
            }
            ports.mtu = ports.mtu.into_iter().chain(link.mtu).min();
        }
        effects
    }

    /// Counts an op as carried out from here on, and returns its effects on links.
    pub(crate) fn carry_out(&mut self, op: &Op) -> Vec<(u32, Effect)> {
        let hit = self.of_op(op);
        for (index, effect) in &hit {
            if !matches!(effect, Effect::Readdressed | Effect::Shrunk(_))
                && self.leaving.insert(*index)
                && let Some(link) = self.links.get(index).copied()
                && self.is_live(link)
                && let Some(ports) = master(link).and_then(|it| self.ports.get_mut(&it))
            {
                ports.live -= 1;
            }
        }
        hit
    }

    /// Adds the new links that matter to existing ones: whether they set their ports down, and the
    /// MTU that their master would get. `devices` must belong to the same ops.
    pub(crate) fn with_new_links(mut self, ops: &[Op], devices: &Devices) -> Effects<'a> {
        for op in ops.iter().filter(|op| op.action == Action::Create) {
            let Object::Link(link) = &op.object else {
                continue;
            };
            if matches!(link.kind, Some(LinkKind::Bridge(_))) {
                self.new_bridges.extend(devices.dev(&link.name));
            }
            let below = link.lower().and_then(|dev| dev.as_index());
            let inherited = below.and_then(|index| self.links.get(&index)?.mtu);
            if let Some(mtu) = link.mtu.or(inherited) {
                self.new_mtus.insert(link.name, mtu);
            }
        }
        self
    }

    /// Returns an op's effects on links.
    pub(crate) fn of_op(&self, op: &Op) -> Vec<(u32, Effect)> {
        let mut hit = Vec::new();
        let Object::Link(link) = &op.object else {
            return hit;
        };
        match (op.action, op.was().as_deref()) {
            (Action::Delete, _) => return self.of_delete(link.index),
            (Action::Update, Some(Object::Link(was))) => self.change(was, link, &mut hit),
            // A link that was just created becomes a port.
            (Action::Update, _) => {
                if let Some(Some(master)) = link.master {
                    let mtu = link.mtu.or(self.new_mtus.get(&link.name).copied());
                    let link = Link { mtu, ..(**link).clone() };
                    self.join(None, master, &link, &mut hit);
                }
            }
            (Action::Create, _) => {}
        }
        self.spread(hit)
    }

    /// Returns the effects of a link's delete on it and on others.
    pub(crate) fn of_delete(&self, index: u32) -> Vec<(u32, Effect)> {
        self.spread(vec![(index, Effect::Gone)])
    }

    fn change(&self, was: &Link, wanted: &Link, hit: &mut Vec<(u32, Effect)>) {
        let index = was.index;
        if wanted.up == Some(false) {
            hit.push((index, Effect::Down));
        }
        if let Some(new) = wanted.master
            && Some(new) != was.master
        {
            if let Some(old) = master(was) {
                hit.push((index, Effect::Released));
                if self.sets_ports_down(Dev::index(old)) {
                    hit.push((index, Effect::Down));
                }
                self.leave(was, old, hit);
            }
            if let Some(new) = new {
                let joining = Link {
                    address: wanted.address.or(was.address),
                    mtu: wanted.mtu.or(was.mtu),
                    ..was.clone()
                };
                self.join(Some(index), new, &joining, hit);
            }
        }
        if wanted.address.is_some() && wanted.address != was.address {
            hit.push((index, Effect::Readdressed));
            self.count_live_ports(index, hit);
        }
        if let Some(mtu) = wanted.mtu
            && was.mtu.is_none_or(|was| was > mtu)
        {
            hit.push((index, Effect::Shrunk(mtu)));
        }
        if has_spanning_tree(wanted) && !has_spanning_tree(was) {
            self.count_live_ports(index, hit);
        }
        // When attributes are set, the kernel looks for a carrier and removes the objects that
        // depend on one from a link without it (`netdev_state_change`), or up to a second later if
        // the link was set up (`linkwatch_do_dev`).
        if wanted.up.or(was.up) != Some(false) && self.lacks_carrier(index) {
            hit.push((index, Effect::CarrierLost));
        }
    }

    /// Adds the effects that follow from effects, until no more follow.
    fn spread(&self, mut open: Vec<(u32, Effect)>) -> Vec<(u32, Effect)> {
        let mut known = BTreeSet::new();
        let mut hit = Vec::new();
        while !open.is_empty() {
            let mut next = Vec::new();
            for (index, effect) in open {
                if known.insert((index, effect)) {
                    hit.push((index, effect));
                    if let Some(link) = self.links.get(&index) {
                        self.follow(link, effect, &mut next);
                    }
                }
            }
            open = next;
        }
        hit
    }

    fn follow(&self, link: &Link, effect: Effect, hit: &mut Vec<(u32, Effect)>) {
        let index = link.index;
        let end = self.peers.get(&index).copied();
        let above = self.above.get(&index).into_iter().flatten().copied();
        let followers = above.clone().filter_map(|above| self.links.get(&above));
        match effect {
            Effect::Gone => {
                hit.extend(above.chain(end).map(|other| (other, Effect::Gone)));
                let ports = self.ports.get(&index).into_iter().flat_map(|it| &it.all);
                for port in ports {
                    hit.push((*port, Effect::Released));
                    if self.sets_ports_down(Dev::index(index)) {
                        hit.push((*port, Effect::Down));
                    }
                }
                if let Some(master) = master(link) {
                    self.leave(link, master, hit);
                }
            }
            Effect::Released => {}
            Effect::Down if link.up == Some(false) => {}
            Effect::Down => {
                hit.extend(followers.map(|it| {
                    let effect = if is_vlan(it) { Effect::Down } else { Effect::CarrierLost };
                    (it.index, effect)
                }));
                hit.extend(end.map(|end| (end, Effect::CarrierLost)));
                self.lose(link, hit);
            }
            Effect::CarrierLost if !self.is_running(index) => {}
            Effect::CarrierLost => {
                hit.extend(above.map(|above| (above, Effect::CarrierLost)));
                self.lose(link, hit);
            }
            Effect::Readdressed => {
                let alike = followers.filter(|it| is_vlan(it) && it.address == link.address);
                hit.extend(alike.map(|follower| (follower.index, Effect::Readdressed)));
                if let Some(master) = master(link)
                    && self.follows_addresses(master)
                {
                    hit.push((master, Effect::Readdressed));
                }
            }
            Effect::Shrunk(mtu) => {
                // The others are kinds such as macvtap and ipvlan.
                let shrunk = followers.filter(|link| {
                    let others =
                        matches!(link.kind, Some(LinkKind::Macvlan(_) | LinkKind::Other(_)));
                    link.mtu.is_some_and(|was| was > mtu) && (is_vlan(link) || others)
                });
                hit.extend(shrunk.map(|follower| (follower.index, Effect::Shrunk(mtu))));
                if let Some(master) = master(link) {
                    self.shrink(master, mtu, hit);
                }
            }
        }
    }

    /// A port leaves its master, which loses the attributes it took from the port.
    fn leave(&self, port: &Link, master: u32, hit: &mut Vec<(u32, Effect)>) {
        self.lose(port, hit);
        let Some(ports) = self.ports.get(&master) else {
            return;
        };
        let readdressed = if self.is_bridge(master) {
            let least = ports.address;
            self.follows_addresses(master)
                && least.is_some_and(|(least, count)| count == 1 && port.address == Some(least))
        } else {
            ports.all.len() == 1
        };
        if readdressed {
            hit.push((master, Effect::Readdressed));
        }
    }

    /// A link becomes a port. A new master has nothing to lose.
    fn join(&self, at: Option<u32>, master: Dev, link: &Link, hit: &mut Vec<(u32, Effect)>) {
        if let Some(index) = at.filter(|_| self.sets_ports_down(master)) {
            hit.push((index, Effect::Down));
            hit.push((index, Effect::Readdressed));
        }
        let Some(master) = master.as_index() else {
            return;
        };
        let least = self.ports.get(&master).and_then(|ports| ports.address);
        let readdressed = if self.is_bridge(master) {
            self.follows_addresses(master)
                && least.is_none_or(|(least, _)| link.address.is_none_or(|address| address < least))
        } else {
            least.is_none()
        };
        if readdressed {
            hit.push((master, Effect::Readdressed));
        }
        if at.is_none() || !self.is_live(link) {
            self.count_live_ports(master, hit);
        }
        if let Some(mtu) = link.mtu {
            self.shrink(master, mtu, hit);
        }
    }

    /// A master loses its carrier with its last live port (`br_port_state_selection`,
    /// `bond_set_carrier`).
    fn lose(&self, port: &Link, hit: &mut Vec<(u32, Effect)>) {
        let Some(master) = master(port).filter(|_| self.is_live(port)) else {
            return;
        };
        let kept = match self.links.get(&master) {
            Some(link) if matches!(link.kind, Some(LinkKind::Vrf { .. })) => return,
            // The spanning tree protocol decides which ports forward.
            Some(link) if has_spanning_tree(link) => 0,
            _ => {
                let live = self.ports.get(&master).map_or(0, |ports| ports.live);
                live - usize::from(!self.leaving.contains(&port.index)).min(live)
            }
        };
        if kept == 0 {
            hit.push((master, Effect::CarrierLost));
        }
    }

    /// A bridge without a live port keeps its first carrier until it counts its ports. It does so
    /// when its address changes (`br_stp_change_bridge_id`), when its spanning tree protocol starts
    /// (`br_stp_start`) or when a port joins that is down.
    fn count_live_ports(&self, index: u32, hit: &mut Vec<(u32, Effect)>) {
        let live = self.ports.get(&index).map_or(0, |ports| ports.live);
        if self.is_bridge(index) && live == 0 && self.is_running(index) {
            hit.push((index, Effect::CarrierLost));
        }
    }

    fn shrink(&self, master: u32, mtu: u32, hit: &mut Vec<(u32, Effect)>) {
        let was = self.links.get(&master).and_then(|link| link.mtu);
        let of_ports = self.ports.get(&master).and_then(|ports| ports.mtu);
        let follows = of_ports.is_none() || was.is_none() || was == of_ports;
        if self.is_bridge(master) && follows && was.is_none_or(|was| was > mtu) {
            hit.push((master, Effect::Shrunk(mtu)));
        }
    }

    /// Returns true if a bridge takes the address of a port. A different address was given to it by
    /// a writer. Without ports the two cases look alike, and count as true.
    fn follows_addresses(&self, master: u32) -> bool {
        let own = self.links.get(&master).and_then(|link| link.address);
        let least = self.ports.get(&master).and_then(|ports| ports.address);
        self.is_bridge(master) && least.is_none_or(|(least, _)| own == Some(least))
    }

    fn is_bridge(&self, index: u32) -> bool {
        let link = self.links.get(&index);
        matches!(link.and_then(|link| link.kind.as_ref()), Some(LinkKind::Bridge(_)))
    }

    /// Returns true if a device goes down when it becomes a port of `master` or leaves it.
    fn sets_ports_down(&self, master: Dev) -> bool {
        match master.as_index() {
            Some(index) => !self.is_bridge(index),
            None => !self.new_bridges.contains(&master),
        }
    }

    /// Returns true if an MTU in bytes is too small for a family, and the link's present one is
    /// not.
    pub(crate) fn loses_family(&self, index: u32, family: Family, mtu: u32) -> bool {
        let was = self.links.get(&index).and_then(|link| link.mtu);
        let least = family.min_mtu();
        mtu < least && was.is_none_or(|was| was >= least)
    }

    /// Returns the link of a device, or `None` if it does not exist.
    pub(crate) fn link_on(&self, dev: Dev) -> Option<&'a Link> {
        self.links.get(&dev.as_index()?).copied()
    }

    pub(crate) fn is_up(&self, index: u32) -> bool {
        let link = self.links.get(&index);
        link.is_none_or(|link| link.up != Some(false))
    }

    /// Returns true if a link is stacked on another.
    pub(crate) fn is_stacked(&self, index: u32) -> bool {
        let link = self.links.get(&index);
        link.is_some_and(|link| self.below(link).is_some())
    }

    fn below(&self, link: &Link) -> Option<u32> {
        let named = link.lower().and_then(|dev| dev.as_index());
        let status = self.status.get(&link.index).and_then(|status| status.lower);
        named.or(status)
    }

    fn is_running(&self, index: u32) -> bool {
        self.status.get(&index).is_none_or(|status| status.running)
    }

    fn lacks_carrier(&self, index: u32) -> bool {
        let status = self.status.get(&index);
        status.is_some_and(|status| status.carrier == Some(false))
    }

    /// Returns true if a port is live and stays so. A port just set up without a carrier counts as
    /// running until the kernel looks at it (`linkwatch_do_dev`).
    fn is_live(&self, link: &Link) -> bool {
        let index = link.index;
        link.up != Some(false) && self.is_running(index) && !self.lacks_carrier(index)
    }
}

fn is_vlan(link: &Link) -> bool {
    matches!(link.kind, Some(LinkKind::Vlan(_)))
}

fn master(link: &Link) -> Option<u32> {
    link.master.flatten()?.as_index()
}

fn has_spanning_tree(link: &Link) -> bool {
    matches!(&link.kind, Some(LinkKind::Bridge(bridge)) if bridge.stp == Some(true))
}

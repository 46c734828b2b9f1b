//! Random states over few keys, so that they collide, and a toy kernel that carries plans out.
//!
//! The toy is a list of objects by key that obeys create, update and delete. It complains where a
//! kernel would: a create on a taken key, a missing device. It knows nothing of reachability; other
//! tests cover order.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use proptest::prelude::*;
use proptest::sample::select;
use trueup_net::{
    Action, Address, AddressFlags, BridgeAttrs, Collection, Desired, DesiredError, Dev, Domain,
    Family, FwMark, IfName, Keyed, Kind, Kinds, Lifetimes, Link, LinkKind, MacvlanAttrs, Metric,
    Neighbour, NeighbourState, NextHop, NextHops, Object, ObjectKey, ObjectKind, Observed, Op,
    Owned, Plan, Policy, Prefix, Reason, Route, RouteType, Routes, Rule, RuleAction, Scope,
    VlanAttrs, VxlanAttrs, plan,
};

pub(crate) const MARKER: u8 = 116;

/// Runs proptest's default number of cases, or `PROPTEST_CASES`. Failures are not saved to a file.
pub(crate) fn no_file() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

/// `lo` and `eth0` are another writer's and exist from the start. The others come and go.
const NAMES: [&str; 6] = ["lo", "eth0", "x0", "x1", "x2", "x3"];

pub(crate) fn name(text: &str) -> IfName {
    text.parse().unwrap()
}

fn dev() -> impl Strategy<Value = IfName> {
    select(&NAMES[1..]).prop_map(name)
}

fn own() -> impl Strategy<Value = IfName> {
    select(&NAMES[2..]).prop_map(name)
}

fn hop() -> impl Strategy<Value = NextHop<IfName>> {
    let via = select(vec![None, Some("10.1.0.9"), Some("10.1.0.8"), Some("2001:db8::9")]);
    (via, prop::option::of(dev()), 1..3_u16).prop_map(|(via, dev, weight)| {
        let mut hop = NextHop::default().with_weight(weight);
        hop.via = via.map(|via| via.parse().unwrap());
        hop.dev = dev;
        hop
    })
}

pub(crate) fn route() -> impl Strategy<Value = Route<IfName>> {
    use RouteType::{Blackhole, Local, Throw, Unicast};
    let dst = select(vec!["0.0.0.0/0", "10.2.0.0/16", "::/0", "2001:db8::/32"]);
    let hops = prop::collection::vec(hop(), 0..3);
    let kind = select(vec![Unicast, Unicast, Unicast, Blackhole, Throw, Local]);
    let numbers = (select(vec![0, 1024]), select(vec![254, 1_000_000]), select(vec![0, 16]));
    let rest = (select(vec![0, 1400, 100_000]), prop::option::of(select(vec!["10.1.0.1", "::1"])));
    (dst, hops, kind, numbers, rest).prop_map(
        |(dst, hops, kind, (metric, table, tos), (mtu, src))| {
            let mut route = Route::new(dst.parse().unwrap(), NextHops::Many(hops))
                .with_kind(kind)
                .with_metric(metric)
                .with_table(table)
                .with_tos(tos);
            route.src = src.map(|src| src.parse().unwrap());
            route.metrics.set(Metric::Mtu, mtu);
            route
        },
    )
}

pub(crate) fn address() -> impl Strategy<Value = Address<IfName>> {
    let addresses =
        ["10.1.0.1/24", "10.1.0.1/16", "10.1.0.2/24", "2001:db8::1/64", "2001:db8::1/128"];
    let peer = prop::option::weighted(0.3, select(vec!["10.1.0.7", "10.1.0.1", "2001:db8::7"]));
    let label = prop::option::weighted(0.3, select(vec!["eth0", "x0-a"]));
    let rest = (select(vec![60, u32::MAX]), any::<bool>(), 0..2_u32);
    (dev(), select(addresses.to_vec()), peer, label, rest).prop_map(
        |(dev, address, peer, label, (lifetime, nodad, metric))| {
            let mut it = Address::new(dev, address.parse().unwrap())
                .with_lifetimes(Lifetimes { valid: lifetime, preferred: lifetime })
                .with_flags(if nodad { AddressFlags::NODAD } else { AddressFlags::default() })
                .with_metric(metric);
            it.peer = peer.map(|peer| peer.parse().unwrap());
            it.label = label.map(|label| label.parse().unwrap());
            it
        },
    )
}

pub(crate) fn neighbour() -> impl Strategy<Value = Neighbour<IfName>> {
    let dst = select(vec!["10.1.0.9", "2001:db8::9"]);
    let lladdr = select(vec!["02:00:00:00:00:08", "02:00:00:00:00:09"]);
    (dev(), dst, lladdr, any::<[bool; 3]>()).prop_map(
        |(dev, dst, lladdr, [router, ext_learn, proxy])| {
            Neighbour::new(dev, dst.parse().unwrap(), lladdr.parse().unwrap())
                .with_router(router)
                .with_ext_learn(ext_learn)
                .with_proxy(proxy)
        },
    )
}

pub(crate) fn rule() -> impl Strategy<Value = Rule> {
    let action = select(vec![
        RuleAction::Lookup(100),
        RuleAction::Lookup(254),
        RuleAction::Goto(3000),
        RuleAction::Prohibit,
    ]);
    let from = prop::option::of(select(vec!["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"]));
    let mark = prop::option::of(select(vec![(7, u32::MAX), (0, 0)]));
    (any::<bool>(), 1000..1002_u32, action, from, mark).prop_map(
        |(v6, priority, action, from, mark)| {
            let family = if v6 { Family::Inet6 } else { Family::Inet };
            let mut it = Rule::new(family, priority, action);
            it.from = from.map(|from| from.parse().unwrap());
            it.fwmark = mark.map(|(mark, mask)| FwMark { mark, mask });
            it
        },
    )
}

fn link_kind() -> impl Strategy<Value = Option<LinkKind<IfName>>> {
    let bridge = prop::option::of(any::<bool>()).prop_map(|stp| {
        let mut it = BridgeAttrs::default();
        it.stp = stp;
        LinkKind::Bridge(it)
    });
    let veth = prop::option::of(own())
        .prop_map(|peer| peer.map_or_else(LinkKind::veth_without_peer, LinkKind::veth));
    let vlan = (dev(), 1..3_u16).prop_map(|(link, id)| LinkKind::Vlan(VlanAttrs::new(link, id)));
    let vxlan = (1..3_u32, prop::option::of(dev()), prop::option::of(1..3_u8)).prop_map(
        |(id, link, ttl)| {
            let mut vxlan = VxlanAttrs::new(id);
            (vxlan.link, vxlan.ttl) = (link, ttl);
            LinkKind::Vxlan(vxlan)
        },
    );
    let some = prop_oneof![Just(LinkKind::Ifb), bridge, veth, vlan, vxlan, Just(LinkKind::Tap)];
    prop::option::weighted(0.9, some)
}

pub(crate) fn link() -> impl Strategy<Value = Link<IfName>> {
    let state = (prop::option::of(any::<bool>()), prop::option::of(select(vec![1400, 1500])));
    let master = prop::option::weighted(0.4, prop::option::of(dev()));
    (dev(), link_kind(), state, master).prop_map(|(name, kind, (up, mtu), master)| {
        let mut link = Link::must_exist(name);
        (link.kind, link.up, link.mtu, link.master) = (kind, up, mtu, master);
        link
    })
}

fn some_of<T: Clone + std::fmt::Debug>(
    one: impl Strategy<Value = T>,
    most: usize,
) -> impl Strategy<Value = Option<Vec<T>>> {
    prop::option::weighted(0.85, prop::collection::vec(one, 0..=most))
}

/// Makes a collection, and adopts the objects at the positions in `adopt`.
fn chosen<A: Keyed>(
    kind: Kind,
    list: Option<Vec<A>>,
    adopt: &BTreeSet<(Kind, usize)>,
) -> Option<Collection<A>> {
    let list = list?;
    let is_chosen = |(at, _): &(usize, &A)| adopt.contains(&(kind, *at));
    let adopted: Vec<A::Key> =
        list.iter().enumerate().filter(is_chosen).map(|(_, it)| it.canonical_key()).collect();
    Some(Collection::from(list).with_adopted(adopted))
}

/// A desired state, perhaps invalid: see [`prune`].
pub(crate) fn desired() -> impl Strategy<Value = Desired> {
    let parts = (
        some_of(link(), 4),
        some_of(address(), 5),
        some_of(neighbour(), 3),
        some_of(route(), 5),
        some_of(rule(), 4),
        prop::collection::btree_set((select(Kind::DECLARED.to_vec()), 0..5_usize), 0..6),
    );
    parts.prop_map(|(links, addresses, neighbours, routes, rules, adopt)| {
        let routes = routes.map(|list: Vec<Route<IfName>>| {
            let chosen = |(at, _): &(usize, _)| adopt.contains(&(Kind::Route, *at));
            let adopted = list.iter().enumerate().filter(chosen);
            let adopted: Vec<_> = adopted.map(|(_, route)| route.canonical_key()).collect();
            let mut routes = Routes::from(list);
            adopted.into_iter().for_each(|key| routes.adopt(key));
            routes
        });
        let mut desired = Desired::default();
        desired.links = chosen(Kind::Link, links, &adopt);
        desired.addresses = chosen(Kind::Address, addresses, &adopt);
        desired.neighbours = chosen(Kind::Neighbour, neighbours, &adopt);
        desired.rules = chosen(Kind::Rule, rules, &adopt);
        desired.routes = routes;
        desired
    })
}

/// Any policy, often the plain one.
fn policy() -> impl Strategy<Value = Policy> {
    let policy = (0..32_u8, 0..32_u8, any::<[bool; 3]>()).prop_map(
        |(by_ledger, unstored, [adopt, take, from_agents])| {
            let kinds = |bits: u8| -> Kinds {
                let of = |kind: &Kind| bits >> (*kind as u8) & 1 != 0;
                Kind::DECLARED.into_iter().filter(of).collect()
            };
            let unstored = kinds(unstored).without(Kind::Link).without(Kind::Route);
            let forced = |kind: &Kind| unstored.contains(*kind) || kinds(by_ledger).contains(*kind);
            Policy::from(MARKER)
                .with_by_ledger(Kind::DECLARED.into_iter().filter(forced).collect())
                .with_unstored(unstored)
                .with_adopt(adopt)
                .with_adopt_protocols((5..=u8::MAX).filter(|_| from_agents).collect())
                .with_take(take)
        },
    );
    prop_oneof![1 => Just(Policy::from(MARKER)), 3 => policy]
}

/// A domain, often everything.
fn domain() -> impl Strategy<Value = Domain> {
    let some = |texts: &'static [&'static str]| prop::sample::subsequence(texts, 0..=2);
    let parts = (
        some(&["x*", "x0", "eth0", "*2", "lo"]),
        some(&["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"]),
        prop::sample::subsequence(vec![254..=254, 1000..=u32::MAX], 0..=1),
        prop::sample::subsequence(vec![0..=99, 77..=2000], 0..=1),
        any::<[bool; 3]>(),
    );
    let domain = parts.prop_map(|(interfaces, prefixes, tables, priorities, flags)| {
        let patterns = interfaces.into_iter().map(|text| text.parse().unwrap());
        let prefixes = prefixes.into_iter().map(|text| text.parse().unwrap());
        Domain::default()
            .with_interfaces(patterns.collect::<Vec<_>>())
            .with_created_interfaces(flags[0])
            .with_prefixes(prefixes.collect::<Vec<_>>())
            .with_tables(tables)
            .with_rule_priorities(priorities)
            .with_nexthop_objects(flags[1])
            .with_ledger_only(flags[2])
    });
    prop_oneof![2 => Just(Domain::default()), 1 => domain]
}

/// Removes wrong objects from a desired state until it can be planned.
pub(crate) fn prune(desired: &mut Desired, world: &World) -> Plan {
    loop {
        match world.plan(desired) {
            Ok(plan) => return plan,
            Err(error) => {
                fn take<A: Keyed>(objects: &mut Option<Collection<A>>, index: usize) {
                    let objects = objects.as_mut().unwrap();
                    let key = objects.keys().nth(index).unwrap().clone();
                    objects.remove(&key);
                }
                match error.kind() {
                    Kind::Link => take(&mut desired.links, error.index()),
                    Kind::Address => take(&mut desired.addresses, error.index()),
                    Kind::Neighbour => take(&mut desired.neighbours, error.index()),
                    Kind::Route => {
                        let routes = desired.routes.as_mut().unwrap();
                        let key = routes.keys().nth(error.index()).unwrap();
                        routes.remove(&key);
                    }
                    Kind::Rule => take(&mut desired.rules, error.index()),
                    kind => unreachable!("no {kind} is declared"),
                }
            }
        }
    }
}

/// A world with objects of ours, by the marker or the ledger, overridden objects, foreign ones, and
/// some keys held twice.
pub(crate) fn world() -> impl Strategy<Value = World> {
    let fates = prop::collection::vec(0..14_u8, 32);
    (desired(), desired(), fates, any::<u8>(), policy(), domain()).prop_map(
        |(mut first, mut second, fates, kinds, policy, domain)| {
            let mut world = World::new(policy);
            let plan = prune(&mut first, &world);
            world.carry_out(&plan);
            world.first = first;
            let mut twins = world.clone();
            second.links = None;
            let plan = prune(&mut second, &twins);
            twins.carry_out(&plan);
            // A route key can be held twice; the second route is another writer's.
            world
                .observed
                .routes
                .extend(twins.observed.routes.into_iter().map(|route| route.with_protocol(4)));
            world.estrange(&fates);
            if kinds % 4 == 0 {
                let some =
                    Kind::DECLARED.into_iter().filter(|kind| kinds >> (2 + *kind as u8) & 1 == 0);
                world.observed.complete = some.collect();
            }
            world.policy = world.policy.with_domain(domain);
            world
        },
    )
}

/// The toy kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct World {
    pub(crate) observed: Observed,
    pub(crate) owned: Owned,
    pub(crate) policy: Policy,
    /// The desired state when it was made.
    pub(crate) first: Desired,
    next: u32,
}

impl World {
    pub(crate) fn new(policy: Policy) -> World {
        let link = |index, text| {
            Link::must_exist(name(text))
                .with_index(index)
                .with_kind(LinkKind::Other("".into()))
                .with_up(true)
                .with_mtu(1500)
                .with_no_master()
                .with_alias([])
                .with_group(0)
        };
        let observed = Observed::default()
            .with_links([link(1, "lo"), link(2, "eth0")])
            .with_complete(Kinds::ALL);
        World { observed, owned: Owned::default(), policy, first: Desired::default(), next: 3 }
    }

    pub(crate) fn plan(&self, desired: &Desired) -> Result<Plan, DesiredError> {
        plan(desired, &self.observed, &self.owned, &self.policy)
    }

    /// Returns the protocol that the kernel stores if it is given one.
    fn stored(&self, kind: Kind, protocol: u8) -> u8 {
        if self.policy.unstored.contains(kind) { 0 } else { protocol }
    }

    /// Changes our objects: others rewrite them, and the ledger forgets them or lists them from
    /// before.
    fn estrange(&mut self, fates: &[u8]) {
        let mut fates = fates.iter().cycle();
        let mut fate = || *fates.next().unwrap();
        // Both ends of a pair have one owner.
        let mut estranged = BTreeSet::new();
        self.observed.links.sort_by_key(|link| link.name);
        for link in &mut self.observed.links {
            let peer = match &link.kind {
                Some(LinkKind::Veth { peer, .. }) => *peer,
                _ => None,
            };
            let fate = fate();
            let with_peer = peer.is_some_and(|peer| estranged.contains(&peer));
            let goes = matches!(fate, 0 | 7..=9);
            if with_peer || (goes && peer.is_none_or(|peer| peer > link.name)) {
                estranged.insert(link.name);
                let ours = self.owned.links.remove(&link.index);
                if ours && matches!(fate, 7..=9) {
                    let former = link.clone().with_mtu(1300).with_up(fate != 7);
                    let key = ObjectKey::Link(link.name);
                    self.owned.former.insert(key, former.into());
                }
            }
        }
        let owned = &mut self.owned;
        for address in &mut self.observed.addresses {
            let fate = fate();
            rewrite(address.key(), &mut address.protocol, &mut owned.addresses, fate);
            let brief = Lifetimes { valid: 10, preferred: 0 };
            match fate {
                6 => (address.protocol, _) = (3, owned.addresses.remove(&address.key())),
                7..=9 => {
                    let mut former = address.clone();
                    former.protocol = 4;
                    // Neither of these can be restored in place.
                    former.scope = Scope(if fate == 8 { 200 } else { former.scope.0 });
                    former.metric = if fate == 9 { 0 } else { former.metric };
                    former.lifetimes = brief;
                    let former = former.canonical(None).into();
                    owned.former.insert(Object::from(address.clone()).key(), former);
                }
                10 => address.lifetimes = brief,
                _ => {}
            }
        }
        for neighbour in &mut self.observed.neighbours {
            let fate = fate();
            rewrite(neighbour.key(), &mut neighbour.protocol, &mut owned.neighbours, fate);
            match fate {
                6 if !neighbour.proxy => {
                    (neighbour.protocol, neighbour.ext_learn) = (0, false);
                    neighbour.state = NeighbourState::Dynamic;
                }
                7..=9 => {
                    let former = neighbour.clone().with_protocol(4).with_router(!neighbour.router);
                    owned.former.insert(Object::from(neighbour.clone()).key(), former.into());
                }
                _ => {}
            }
        }
        let there: Vec<u32> = self.observed.links.iter().map(|link| link.index).collect();
        for route in &mut self.observed.routes {
            let fate = fate();
            rewrite(route.key(), &mut route.protocol, &mut owned.routes, fate);
            match fate {
                5 => route.unmodelled = true,
                6 => (route.protocol, _) = (2, owned.routes.remove(&route.key())),
                7..=9 => {
                    // One of these is gone.
                    let index = [there[0], there[there.len() - 1], 99][usize::from(fate) - 7];
                    let former = route
                        .clone()
                        .with_protocol(4)
                        .with_kind(RouteType::Unicast)
                        .with_nexthops(NextHops::One(NextHop::dev(Dev::index(index))))
                        .with_unmodelled(route.dst.is_default());
                    owned.former.insert(Object::from(route.clone()).key(), former.into());
                }
                _ => {}
            }
        }
        // The kernel refuses the same row twice.
        let mut rows = HashSet::new();
        self.observed.routes.retain(|route| rows.insert(route.clone()));
        let mut rules = Vec::new();
        for mut rule in std::mem::take(&mut self.observed.rules) {
            let by = |protocol| rule.clone().with_protocol(protocol);
            match fate() {
                0 | 1 => {
                    owned.rules.remove(&rule.key());
                    rule = by(4);
                }
                2 => rule.unmodelled = true,
                3 => rules.push(by(4)),
                4 => {
                    owned.rules.insert(by(3).key());
                    rules.extend([by(4), by(3)]);
                }
                5 => {
                    owned.rules.insert(by(4).key());
                    rule = by(4);
                }
                6 => drop(owned.rules.remove(&rule.key())),
                7 => {
                    owned.rules.remove(&rule.key());
                    rules.push(by(4));
                    rule.not = true;
                }
                8 => rule = by(2),
                _ => {}
            }
            rules.push(rule);
        }
        let mut keys = BTreeSet::new();
        rules.retain(|rule| keys.insert(rule.key()));
        self.observed.rules = rules;
        self.forget_protocols();
        self.tidy();
    }

    /// Reads no protocol of kinds on which none is stored.
    fn forget_protocols(&mut self) {
        let unstored = |kind| self.policy.unstored.contains(kind);
        let (observed, owned) = (&mut self.observed, &mut self.owned);
        if unstored(Kind::Address) {
            observed.addresses.iter_mut().for_each(|a| a.protocol = 0);
            owned.addresses.values_mut().for_each(|p| *p = 0);
        }
        if unstored(Kind::Neighbour) {
            observed.neighbours.iter_mut().for_each(|n| n.protocol = 0);
            owned.neighbours.values_mut().for_each(|p| *p = 0);
        }
        if unstored(Kind::Rule) {
            observed.rules.iter_mut().for_each(|rule| rule.protocol = 0);
            let mut keys = BTreeSet::new();
            observed.rules.retain(|rule| keys.insert(rule.key()));
            let unmarked = |rule: Rule| rule.with_protocol(0);
            owned.rules = std::mem::take(&mut owned.rules).into_iter().map(unmarked).collect();
        }
        for former in owned.former.values_mut() {
            match former {
                Object::Address(address) if unstored(Kind::Address) => address.protocol = 0,
                Object::Neighbour(neighbour) if unstored(Kind::Neighbour) => neighbour.protocol = 0,
                _ => {}
            }
        }
    }

    /// Removes deleted objects from the ledger.
    fn tidy(&mut self) {
        let (observed, owned) = (&self.observed, &mut self.owned);
        fn keys<T: ObjectKind>(items: &[T]) -> BTreeSet<T::Key> {
            items.iter().map(ObjectKind::key).collect()
        }
        let indexes: BTreeSet<u32> = observed.links.iter().map(|link| link.index).collect();
        owned.links.retain(|index| indexes.contains(index));
        let there = keys(&observed.addresses);
        owned.addresses.retain(|key, _| there.contains(key));
        let there = keys(&observed.neighbours);
        owned.neighbours.retain(|key, _| there.contains(key));
        let there = keys(&observed.routes);
        owned.routes.retain(|key, _| there.contains(key));
        let there = keys(&observed.rules);
        owned.rules.retain(|key| there.contains(key));
        let there: BTreeSet<ObjectKey> = self.objects().iter().map(Object::key).collect();
        self.owned.former.retain(|key, _| there.contains(key));
    }

    /// Returns true if an observed object is ours to delete, by the contract.
    pub(crate) fn is_ours(&self, object: &Object) -> bool {
        if !self.is_inside(object, &[]) {
            return false;
        }
        let marked = |protocol: u8, recorded: Option<&u8>| {
            let by_marker = !self.policy.by_ledger.contains(object.kind());
            (protocol == MARKER && by_marker) || recorded == Some(&protocol)
        };
        let owned = &self.owned;
        match object {
            Object::Link(link) => owned.links.contains(&link.index) && !self.is_taken(object),
            Object::Address(a) => marked(a.protocol, owned.addresses.get(&a.key())),
            Object::Neighbour(n) => {
                n.is_declared() && marked(n.protocol, owned.neighbours.get(&n.key()))
            }
            Object::Route(route) => marked(route.protocol, owned.routes.get(&route.key())),
            Object::Rule(rule) => {
                let recorded = owned.rules.contains(&rule.key()).then_some(&rule.protocol);
                !rule.unmodelled && marked(rule.protocol, recorded)
            }
            Object::Nexthop(nexthop) => nexthop.protocol == MARKER,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn is_taken(&self, object: &Object) -> bool {
        self.owned.former.contains_key(&object.key()) && self.is_inside(object, &[])
    }

    /// Returns true if an object is in the domain. `planned` lists the devices not created yet.
    pub(crate) fn is_inside(&self, object: &Object, planned: &[(Dev, IfName)]) -> bool {
        let domain = &*self.policy.domain;
        if *domain == Domain::default() {
            return true;
        }
        let named = |name: &IfName| domain.interfaces.iter().any(|it| it.matches(name));
        let created = |index| domain.created_interfaces && self.owned.links.contains(&index);
        let links = &self.observed.links;
        let is_there = |link: &Link| named(&link.name) || created(link.index);
        let is_planned = |name: &IfName| named(name) || domain.created_interfaces;
        let dev = |dev: &Dev| match planned.iter().find(|(of, _)| of == dev) {
            Some((_, name)) => is_planned(name),
            None => links.iter().any(|link| Dev::index(link.index) == *dev && is_there(link)),
        };
        let has_interfaces = domain.created_interfaces || !domain.interfaces.is_empty();
        let of_interface = |is_inside: bool| match has_interfaces {
            true => is_inside,
            false => domain.ledger_only,
        };
        match object {
            Object::Link(link) => of_interface(
                links.iter().any(|it| it.name == link.name && is_there(it))
                    || planned.iter().any(|(_, name)| *name == link.name && is_planned(name)),
            ),
            Object::Address(address) => of_interface(dev(&address.dev)),
            Object::Neighbour(neighbour) => of_interface(dev(&neighbour.dev)),
            Object::Route(route) => {
                let devices = devices(object);
                let by_devices = has_interfaces && !devices.is_empty();
                let (by_table, by_prefix) =
                    (!domain.tables.is_empty(), !domain.prefixes.is_empty());
                let covers = |prefix: &Prefix| {
                    prefix.len() <= route.dst.len() && prefix.contains(route.dst.address())
                };
                (by_devices || by_table || by_prefix || domain.ledger_only)
                    && (!by_devices || devices.iter().all(dev))
                    && (!by_table || domain.tables.iter().any(|it| it.contains(&route.table)))
                    && (!by_prefix || domain.prefixes.iter().any(covers))
            }
            Object::Rule(rule) => match domain.rule_priorities.is_empty() {
                true => domain.ledger_only,
                false => domain.rule_priorities.iter().any(|it| it.contains(&rule.priority)),
            },
            Object::Nexthop(_) => domain.nexthop_objects,
            other => panic!("{other:?}"),
        }
    }

    /// Records the objects that an op made ours, or ended. `object` is the op's result.
    fn record(&mut self, op: &Op, object: Option<Object>) {
        let kind = op.object.kind();
        let key = object.as_ref().unwrap_or(&op.object).key();
        match (op.reason, op.was().as_deref()) {
            (Reason::Overridden, Some(was)) => {
                self.owned.former.insert(key.clone(), was.clone());
            }
            (Reason::Restored, _) => {
                self.owned.former.remove(&key);
                return self.disown(&key);
            }
            _ => {}
        }
        // A link is recorded by its index.
        if kind == Kind::Link {
            return;
        }
        let by_ledger = self.policy.by_ledger.contains(kind) || op.reason == Reason::Overridden;
        match object {
            Some(object) if by_ledger || self.is_recorded(&key) => self.own(object),
            // Objects that are gone are removed at the end.
            _ => {}
        }
    }

    fn is_recorded(&self, key: &ObjectKey) -> bool {
        match key {
            ObjectKey::Link(_) => false,
            ObjectKey::Address(key) => self.owned.addresses.contains_key(key),
            ObjectKey::Neighbour(key) => self.owned.neighbours.contains_key(key),
            ObjectKey::Route(key) => self.owned.routes.contains_key(key),
            ObjectKey::Rule(key) => self.owned.rules.contains(&**key),
            ObjectKey::Nexthop(_) => false,
            other => panic!("{other:?}"),
        }
    }

    /// Records an object as ours, with its protocol.
    pub(crate) fn own(&mut self, object: Object) {
        let owned = &mut self.owned;
        match object {
            Object::Link(link) => drop(owned.links.insert(link.index)),
            Object::Address(a) => drop(owned.addresses.insert(a.key(), a.protocol)),
            Object::Neighbour(n) => drop(owned.neighbours.insert(n.key(), n.protocol)),
            Object::Route(route) => drop(owned.routes.insert(route.key(), route.protocol)),
            Object::Rule(rule) => drop(owned.rules.insert(rule.key())),
            Object::Nexthop(_) => {}
            other => panic!("{other:?}"),
        }
    }

    fn disown(&mut self, key: &ObjectKey) {
        let owned = &mut self.owned;
        match key {
            ObjectKey::Link(_) | ObjectKey::Nexthop(_) => {}
            ObjectKey::Address(key) => drop(owned.addresses.remove(key)),
            ObjectKey::Neighbour(key) => drop(owned.neighbours.remove(key)),
            ObjectKey::Route(key) => drop(owned.routes.remove(key)),
            ObjectKey::Rule(key) => drop(owned.rules.remove(&**key)),
            other => panic!("{other:?}"),
        }
    }

    /// Returns every object, kind by kind.
    pub(crate) fn objects(&self) -> Vec<Object> {
        let Observed { links, addresses, neighbours, routes, rules, .. } = self.observed.clone();
        let links = links.into_iter().map(Object::from);
        let addresses = addresses.into_iter().map(Object::from);
        let neighbours = neighbours.into_iter().map(Object::from);
        let routes = routes.into_iter().map(Object::from);
        links
            .chain(addresses)
            .chain(neighbours)
            .chain(routes)
            .chain(rules.into_iter().map(Object::from))
            .collect()
    }

    /// Returns the objects declared by other writers.
    pub(crate) fn foreign(&self) -> Vec<Object> {
        let declared =
            |object: &Object| !matches!(object, Object::Neighbour(n) if !n.is_declared());
        let objects = self.objects().into_iter();
        objects.filter(|object| declared(object) && !self.is_ours(object)).collect()
    }

    /// Carries out the ops that neither are held nor wait for held ones, and records ours. Returns
    /// true for each op carried out.
    pub(crate) fn carry_out(&mut self, plan: &Plan) -> Vec<bool> {
        let mut real = BTreeMap::new();
        let mut done = Vec::new();
        for (at, op) in plan.ops.iter().enumerate() {
            let ready = op.hold.is_none() && plan.needs(at).all(|need| done[need]);
            done.push(
                ready && !self.refuses(op, plan) && {
                    self.op(op, plan, &mut real);
                    true
                },
            );
        }
        let there = self.objects();
        for object in &plan.adopted {
            assert!(there.contains(object), "{object:?}");
            self.own(object.clone());
        }
        self.tidy();
        done
    }

    /// Returns true if the kernel would refuse the op: a pair whose other end's name is taken, or
    /// an object on a declared device that does not come to exist.
    pub(crate) fn refuses(&self, op: &Op, plan: &Plan) -> bool {
        let made = |dev: &Dev| {
            let name = plan.devices.name(*dev).copied();
            plan.ops.iter().any(|op| match &op.object {
                Object::Link(link) if op.action == Action::Create => {
                    let peer = match link.kind {
                        Some(LinkKind::Veth { peer, .. }) => peer,
                        _ => None,
                    };
                    name == Some(link.name) || (name.is_some() && name == peer)
                }
                _ => false,
            })
        };
        let Object::Link(link) = &op.object else {
            return devices(&op.object).iter().any(|dev| dev.is_planned() && !made(dev));
        };
        if link.parents().any(|dev| dev.is_planned() && !made(dev)) {
            return true;
        }
        let taken = |name: &IfName| self.observed.links.iter().any(|link| link.name == *name);
        let peer = match &link.kind {
            Some(LinkKind::Veth { peer: Some(peer), .. }) => taken(peer),
            _ => false,
        };
        op.action == Action::Create && peer
    }

    fn op(&mut self, op: &Op, plan: &Plan, real: &mut BTreeMap<Dev, Dev>) {
        let actual = |dev: Dev| real.get(&dev).copied().unwrap_or(dev);
        let object = match op.object.clone() {
            Object::Link(link) => {
                self.record(op, Some(Object::Link(link.clone())));
                return self.link(op, &link, plan, real);
            }
            Object::Address(mut address) => {
                address.dev = actual(address.dev);
                address.protocol = self.stored(Kind::Address, address.protocol);
                address.into()
            }
            Object::Neighbour(mut neighbour) => {
                neighbour.dev = actual(neighbour.dev);
                neighbour.protocol = self.stored(Kind::Neighbour, neighbour.protocol);
                neighbour.into()
            }
            Object::Route(mut route) => {
                let hops = match &mut route.nexthops {
                    NextHops::One(hop) => std::slice::from_mut(hop),
                    NextHops::Many(hops) => hops,
                    _ => &mut [],
                };
                hops.iter_mut().for_each(|hop| hop.dev = hop.dev.map(actual));
                Object::Route(route)
            }
            rule => rule,
        };
        let there = |dev: &Dev| {
            let links = &self.observed.links;
            links.iter().any(|link| Some(link.index) == dev.as_index())
        };
        if !devices(&object).iter().all(there) {
            // It went with its device, as expected.
            assert_eq!(op.action, Action::Delete, "{object:?}: no such device\n{}", plan.text());
            return;
        }
        let was = match (op.action, op.was().as_deref()) {
            (Action::Create, _) => {
                let same = self.objects().into_iter().find(|other| other.key() == object.key());
                assert_eq!(same, None, "exists: {object:?}");
                None
            }
            // A replace remakes a route that went with its device.
            (Action::Update, was) => was.cloned().filter(|was| devices(was).iter().all(there)),
            (Action::Delete, _) => Some(object.clone()),
        };
        let object = Some(object).filter(|_| op.action != Action::Delete);
        self.record(op, object.clone());
        let observed = &mut self.observed;
        match object.as_ref().or(was.as_ref()).unwrap().kind() {
            Kind::Address => swap(&mut observed.addresses, was, object),
            Kind::Neighbour => swap(&mut observed.neighbours, was, object),
            Kind::Route => swap(&mut observed.routes, was, object),
            Kind::Rule => swap(&mut observed.rules, was, object),
            kind => panic!("{kind}"),
        }
    }

    fn link(&mut self, op: &Op, link: &Link, plan: &Plan, real: &mut BTreeMap<Dev, Dev>) {
        let find = |world: &World, name: IfName| {
            world.observed.links.iter().position(|link| link.name == name)
        };
        let mut link = link.clone();
        let actual = |dev: Dev, real: &BTreeMap<Dev, Dev>| real.get(&dev).copied().unwrap_or(dev);
        link.master = link.master.map(|master| master.map(|dev| actual(dev, real)));
        match &mut link.kind {
            Some(
                LinkKind::Vlan(VlanAttrs { link, .. })
                | LinkKind::Macvlan(MacvlanAttrs { link, .. }),
            ) => {
                *link = actual(*link, real);
            }
            Some(LinkKind::Vxlan(vxlan)) => vxlan.link = vxlan.link.map(|dev| actual(dev, real)),
            _ => {}
        }
        if op.action == Action::Delete {
            return self.unlink(link.index);
        }
        for parent in link.parents().filter_map(|dev| dev.as_index()) {
            let there = |other: &Link| other.index == parent;
            assert!(self.observed.links.iter().any(there), "{link:?}: no such device");
        }
        if op.action == Action::Create {
            assert_eq!(find(self, link.name), None, "exists: {link:?}");
            let kind = link.kind.clone().unwrap();
            let mut ends = vec![(link.name, kind.clone())];
            if let LinkKind::Veth { peer: Some(peer), .. } = kind {
                assert_eq!(find(self, peer), None, "exists: {peer:?}");
                ends.push((peer, LinkKind::veth(link.name)));
            }
            for (name, kind) in ends {
                let index = self.next;
                self.next += 1;
                self.owned.links.insert(index);
                if let Some(planned) = plan.devices.dev(&name) {
                    real.insert(planned, Dev::index(index));
                }
                self.observed.links.push(
                    Link::new(name, filled(kind))
                        .with_index(index)
                        .with_up(false)
                        .with_mtu(1500)
                        .with_no_master()
                        .with_alias([])
                        .with_group(0),
                );
            }
            // These follow in a second message.
            (link.up, link.master, link.alias) = (None, None, None);
        }
        let at = find(self, link.name)
            .unwrap_or_else(|| panic!("no such link: {op:?}\n{}", plan.text()));
        let there = &mut self.observed.links[at];
        there.up = link.up.or(there.up);
        there.mtu = link.mtu.or(there.mtu);
        there.master = link.master.or(there.master);
        match (&mut there.kind, link.kind) {
            (Some(LinkKind::Bridge(there)), Some(LinkKind::Bridge(bridge))) => {
                there.stp = bridge.stp.or(there.stp);
            }
            (Some(LinkKind::Vxlan(there)), Some(LinkKind::Vxlan(vxlan))) => {
                there.ttl = vxlan.ttl.or(there.ttl);
                there.link = vxlan.link.or(there.link);
            }
            _ => {}
        }
    }

    /// Deletes a link with its other end and all objects on either.
    fn unlink(&mut self, index: u32) {
        let Some(at) = self.observed.links.iter().position(|link| link.index == index) else {
            // It went with the device below, as expected.
            return;
        };
        let gone = self.observed.links.remove(at);
        let dev = Dev::index(index);
        let observed = &mut self.observed;
        observed.addresses.retain(|address| address.dev != dev);
        observed.neighbours.retain(|neighbour| neighbour.dev != dev);
        let through =
            |route: &Route| route.nexthops.as_slice().iter().any(|hop| hop.dev == Some(dev));
        observed.routes.retain(|route| !through(route));
        for port in &mut observed.links {
            if port.master == Some(Some(dev)) {
                port.master = Some(None);
            }
        }
        let peer = match gone.kind {
            Some(LinkKind::Veth { peer, .. }) => peer,
            _ => None,
        };
        let above = |link: &&Link| link.parents().any(|parent| *parent == dev);
        let along: Vec<u32> = observed
            .links
            .iter()
            .filter(|link| above(link) || Some(link.name) == peer)
            .map(|link| link.index)
            .collect();
        for index in along {
            if self.observed.links.iter().any(|link| link.index == index) {
                self.unlink(index);
            }
        }
    }
}

/// Changes an object's protocol, and its entry in the ledger.
fn rewrite<K: Ord>(key: K, protocol: &mut u8, owned: &mut BTreeMap<K, u8>, fate: u8) {
    match fate {
        0 | 1 => (*protocol, _) = (4 * fate, owned.remove(&key)),
        2 | 3 => (*protocol, _) = (4 * (fate - 2), owned.insert(key, 4 * (fate - 2))),
        4 => drop(owned.insert(key, 4)),
        5 => (*protocol, _) = (4, owned.insert(key, MARKER)),
        11 => drop(owned.remove(&key)),
        _ => {}
    }
}

/// Returns the attributes that the kernel would report.
fn filled(kind: LinkKind) -> LinkKind {
    match kind {
        LinkKind::Bridge(bridge) => LinkKind::Bridge(bridge.with_stp(bridge.stp == Some(true))),
        LinkKind::Vxlan(vxlan) => LinkKind::Vxlan(vxlan.with_ttl(vxlan.ttl.unwrap_or(0))),
        other => other,
    }
}

/// Returns the devices that an object is on.
pub(crate) fn devices(object: &Object) -> Vec<Dev> {
    match object {
        Object::Address(address) => vec![address.dev],
        Object::Neighbour(neighbour) => vec![neighbour.dev],
        Object::Route(route) => {
            route.nexthops.as_slice().iter().filter_map(|hop| hop.dev).collect()
        }
        Object::Link(_) | Object::Rule(_) | Object::Nexthop(_) => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Removes one object, which must exist, from a list, and adds another.
fn swap<T: Clone + Into<Object>>(list: &mut Vec<T>, out: Option<Object>, into: Option<Object>)
where
    Object: Unwrap<T>,
{
    if let Some(out) = out {
        let at = list.iter().position(|item| item.clone().into() == out);
        list.remove(at.unwrap_or_else(|| panic!("not there: {out:?}")));
    }
    list.extend(into.map(Unwrap::unwrap_as));
}

trait Unwrap<T> {
    fn unwrap_as(self) -> T;
}

macro_rules! unwrap {
    ($($kind:ident $type:ty: $pattern:pat => $value:expr),+ $(,)?) => {
        $(impl Unwrap<$type> for Object {
            fn unwrap_as(self) -> $type {
                match self {
                    $pattern => $value,
                    other => panic!("{other:?} is no {}", stringify!($kind)),
                }
            }
        })+
    };
}

unwrap!(
    Address Address: Object::Address(address) => address,
    Neighbour Neighbour: Object::Neighbour(neighbour) => neighbour,
    Route Route: Object::Route(route) => route,
    Rule Rule: Object::Rule(rule) => *rule,
);

//! Other writers: their acts are drawn from the present objects, sent through trueup's codecs, and
//! can be printed as lines of `ip`.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use trueup_net::{
    Action, Desired, Dev, Devices, Family, IfName, Link, LinkKind, NextHop, NextHops, Nexthop,
    NexthopTarget, Object, Observed, Op, Reason, Route, with_object,
};
use trueup_netlink::codec::{self, KindCodec as _, Part};
use trueup_netlink::{Batch, Namespace, Socket};
use trueup_observe::{Observer, ReadScope};
use trueup_testkit::Kind;

use crate::draw::{self, BASE};
use crate::script::{Act, Setup};
use crate::world::World;
use trueup_e2e::desired::{address, name};

/// One change, with the names of its devices.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) op: Op,
    /// True if a route is put behind the others with its key.
    pub(crate) is_append: bool,
    pub(crate) names: Vec<(Dev, IfName)>,
}

/// The protocol of our objects.
pub(crate) const OURS: u8 = 116;

impl Change {
    /// Returns the change as a line of `ip`.
    pub(crate) fn line(&self) -> String {
        let line = self.op.command(&Devices::of(self.names.iter().copied()));
        match self.is_append {
            true => line.replacen("route add", "route append", 1),
            false => line,
        }
    }

    /// Returns the change's word for counts.
    pub(crate) fn word(&self) -> String {
        let verb = match self.op.action {
            _ if self.is_append => "append",
            Action::Create => "create",
            Action::Update => "change",
            Action::Delete => "delete",
        };
        format!("{verb} {}", self.op.object.kind().name())
    }
}

/// Executes an act, and records the result of a drawn one.
pub(crate) fn act(world: &World, setup: &Setup, act: &Act, slot: (usize, usize)) {
    let namespace = world.lock().kernel.namespace();
    // A kernel without a marker compares objects without it.
    let namespace = setup.kernel(namespace);
    let changes = match act {
        Act::Known(changes) => changes.clone(),
        Act::Drawn(seed, kind) => {
            let mut rng = Rng::with_seed(*seed);
            let sight = Sight::new(&namespace);
            let changes = match kind {
                Some(kind) => sight.draw_of(*kind, &mut rng),
                None => sight.draw(&mut rng, setup),
            };
            let mut world = world.lock();
            world.drawn.insert(slot, Act::Known(changes.clone()));
            changes
        }
    };
    for change in changes {
        let result = carry_out(&namespace, &change);
        let mut world = world.lock();
        world.step();
        let text = format!("  writer: {}: {result}", change.line());
        world.say(|| text);
        *world.counts.acts.entry(change.word()).or_default() += 1;
        world.writer_acted();
    }
}

/// Makes the base for everything else: a pair of links with addresses.
pub(crate) fn make_base(world: &World) {
    let namespace = world.lock().kernel.namespace();
    let mut base = Desired::default();
    let link = Link::new(name("ext0"), LinkKind::veth(name("ext1")));
    base.links = Some([link].into());
    run_base(&namespace, &base);
    let up = |text: &str| {
        let mut link = Link::must_exist(name(text));
        link.up = Some(true);
        link
    };
    base.links = Some([up("ext0"), up("ext1")].into());
    run_base(&namespace, &base);
    base.links = None;
    let addresses = [
        address("ext0", "10.0.3.200/24"),
        address("ext0", "fd00:3::200/64"),
        address("ext1", "10.9.9.1/24"),
    ];
    base.addresses = Some(addresses.into());
    run_base(&namespace, &base);
    let mut world = world.lock();
    world.writer_acted();
    let base = world.rows.clone();
    world.judge.set_base(base);
}

fn run_base(namespace: &Namespace, base: &Desired) {
    let sight = Sight::new(namespace);
    for object in sight.objects(base) {
        let update = match &object {
            Object::Link(link) if link.kind.is_none() => sight.named_link(link.name),
            _ => None,
        };
        let action = if update.is_some() { Action::Update } else { Action::Create };
        let mut change = sight.change(action, protocol(object, 4));
        change.op = update.into_iter().fold(change.op, Op::with_was);
        let result = carry_out(namespace, &change);
        assert_eq!(result, "done", "{}", change.line());
    }
}

/// A writer's view of the namespace, decoded.
struct Sight {
    observed: Observed,
    names: BTreeMap<u32, IfName>,
}

impl Sight {
    fn new(namespace: &Namespace) -> Sight {
        let snapshot = Observer::open(namespace).and_then(|mut o| o.snapshot(&ReadScope::whole()));
        let observed = snapshot.unwrap().observed;
        let names = observed.links.iter().map(|link| (link.index, link.name));
        Sight { names: names.collect(), observed }
    }

    fn index(&self, name: IfName) -> Option<Dev> {
        let mut names = self.names.iter();
        names.find(|(_, known)| **known == name).map(|(index, _)| Dev::index(*index))
    }

    fn named_link(&self, name: IfName) -> Option<Object> {
        let link = self.observed.links.iter().find(|link| link.name == name)?;
        Some(Object::Link(Box::new(link.clone())))
    }

    /// Returns objects with resolved devices; omits objects whose device is missing.
    fn objects(&self, desired: &Desired) -> Vec<Object> {
        let resolve = |name: IfName| self.index(name).ok_or(());
        let mut all: Vec<Object> = Vec::new();
        let links = desired.links.iter().flatten().cloned();
        all.extend(links.filter_map(|link| {
            let link = link.try_map_dev(resolve).ok()?;
            Some(Object::Link(Box::new(link)))
        }));
        let addresses = desired.addresses.iter().flatten().cloned();
        all.extend(addresses.filter_map(|it| it.try_map_dev(resolve).ok().map(Object::from)));
        let neighbours = desired.neighbours.iter().flatten().cloned();
        all.extend(neighbours.filter_map(|it| it.try_map_dev(resolve).ok().map(Object::from)));
        let routes = desired.routes.iter().flat_map(|routes| routes.iter());
        all.extend(routes.filter_map(|it| it.try_map_dev(resolve).ok().map(Object::from)));
        all.extend(desired.rules.iter().flatten().cloned().map(Object::from));
        all
    }

    fn change(&self, action: Action, object: Object) -> Change {
        let names = self.names.iter();
        let names = names.map(|(index, name)| (Dev::index(*index), *name)).collect();
        Change { op: Op::new(action, object, Reason::Missing), is_append: false, names }
    }

    /// Returns the objects that may be touched: not the base, nor the kernel's own.
    fn touchable(&self) -> Vec<Object> {
        let is_base = |dev: Dev| {
            let name = dev.as_index().and_then(|index| self.names.get(&index));
            name.is_none_or(|name| BASE.contains(&name.to_string().as_str()))
        };
        let observed = &self.observed;
        let mut all: Vec<Object> = Vec::new();
        let links = observed.links.iter().filter(|link| !is_base(Dev::index(link.index)));
        all.extend(links.map(|link| Object::Link(Box::new(link.clone()))));
        // The kernel's own addresses look like another writer's, so leave them alone.
        let is_local = |it: &trueup_net::Address| it.address.to_string().starts_with("fe80");
        let addresses = observed.addresses.iter();
        let addresses = addresses.filter(|it| !is_base(it.dev) && !is_local(it));
        all.extend(addresses.cloned().map(Object::from));
        all.extend(observed.neighbours.iter().cloned().map(Object::from));
        let routes = observed.routes.iter().filter(|route| route.protocol != 2);
        all.extend(routes.cloned().map(Object::from));
        let own = |priority: u32| matches!(priority, 0 | 32_766 | 32_767);
        let rules = observed.rules.iter().filter(|rule| !own(rule.priority));
        all.extend(rules.cloned().map(Object::from));
        all.extend(observed.nexthops.iter().cloned().map(Object::from));
        all
    }

    /// Returns one object, more often ours than not.
    fn pick(&self, rng: &mut Rng) -> Option<Object> {
        let mut all = self.touchable();
        let is_ours = |object: &Object| match object {
            Object::Link(link) => link.index >= 1 << 24,
            object => object.protocol() == OURS,
        };
        if rng.u8(..4) > 0 && all.iter().any(is_ours) {
            all.retain(is_ours);
        }
        // Choose each kind equally often.
        let kinds: BTreeSet<_> = all.iter().map(Object::kind).collect();
        let kinds: Vec<_> = kinds.into_iter().collect();
        let kind = *rng.choice(&kinds)?;
        all.retain(|object| object.kind() == kind);
        (!all.is_empty()).then(|| all.swap_remove(rng.usize(..all.len())))
    }

    fn draw(&self, rng: &mut Rng, setup: &Setup) -> Vec<Change> {
        // Another agent may use our marker only where it proves nothing.
        let markers: &[u8] = match setup.by_ledger || setup.is_masked {
            true => &[4, 12],
            false => &[4, 12, OURS],
        };
        let marker = *rng.choice(markers).unwrap_or(&4);
        match rng.u8(..13) {
            0..=4 => self.create(rng, marker),
            12 => self.nexthop(rng, marker),
            5 | 6 => {
                let picked = self.pick(rng);
                picked.map(|object| self.change(Action::Delete, object)).into_iter().collect()
            }
            7 | 8 => {
                let Some(was) = self.pick(rng) else {
                    return Vec::new();
                };
                let object = rewritten(protocol(was.clone(), marker), rng);
                let action = match object {
                    Object::Rule(_) => Action::Create,
                    _ => Action::Update,
                };
                let mut change = self.change(action, object);
                if action == Action::Update {
                    change.op = change.op.with_was(was);
                }
                vec![change]
            }
            9 => {
                let Some(was) = self.pick(rng) else {
                    return Vec::new();
                };
                let again = match &was {
                    Object::Link(link) => self.link_again(link, rng),
                    was => protocol(was.clone(), marker),
                };
                let delete = self.change(Action::Delete, was);
                vec![delete, self.change(Action::Create, again)]
            }
            10 => self.append(rng, marker),
            _ => self.set_link(rng),
        }
    }

    /// Creates or deletes an object of a kind: one of ours as often as another writer's.
    fn draw_of(&self, kind: Kind, rng: &mut Rng) -> Vec<Change> {
        let (mut all, is_ours) = (self.touchable(), rng.bool());
        all.retain(|object| {
            object.kind().name() == kind.word() && (object.protocol() == OURS) == is_ours
        });
        if !all.is_empty() && rng.bool() {
            let object = all.swap_remove(rng.usize(..all.len()));
            return vec![self.change(Action::Delete, object)];
        }
        // The kernel does not announce proxy entries.
        let is_proxy = rng.bool();
        let of_kind = |change: &Change| match &change.op.object {
            Object::Neighbour(it) => kind == Kind::Neighbour && it.proxy == is_proxy,
            object => object.kind().name() == kind.word(),
        };
        let mut drawn = (0..8).map(|_| self.create(rng, 4));
        let found = drawn.find(|changes| changes.iter().any(of_kind));
        found.unwrap_or_default()
    }

    /// Makes a nexthop object for a link, or a group of one, and perhaps a route with it.
    fn nexthop(&self, rng: &mut Rng, marker: u8) -> Vec<Change> {
        let indexes: Vec<u32> = self.names.keys().copied().filter(|dev| *dev != 1).collect();
        let Some(dev) = rng.choice(&indexes) else {
            return Vec::new();
        };
        let first = 10 + u32::from(rng.u8(..4));
        let family = if rng.bool() { Family::Inet } else { Family::Inet6 };
        let hop = NexthopTarget::One(family, NextHop::dev(Dev::index(*dev)));
        let mut objects: Vec<Object> = vec![Nexthop::new(first, hop).into()];
        let mut last = first;
        if rng.u8(..3) == 0 {
            last = first + 10;
            let group = NexthopTarget::Group(vec![(first, 1)]);
            objects.push(Nexthop::new(last, group).into());
        }
        if rng.bool() {
            let dst = match family {
                Family::Inet => "10.60.0.0/16",
                Family::Inet6 => "fd61::/32",
            };
            let mut route = Route::new(dst.parse().unwrap(), NextHops::Object(last, Vec::new()));
            route.metric = 500;
            objects.push(route.canonical().into());
        }
        let objects = objects.into_iter().map(|object| protocol(object, marker));
        objects.map(|object| self.change(Action::Create, object)).collect()
    }

    fn create(&self, rng: &mut Rng, marker: u8) -> Vec<Change> {
        let present = self.names.values().map(ToString::to_string).collect();
        let mut objects = self.objects(&draw::foreign(rng.u64(..), &present));
        if objects.is_empty() {
            return Vec::new();
        }
        let mut object = objects.swap_remove(rng.usize(..objects.len()));
        if let Object::Link(link) = &mut object
            && rng.bool()
            && !matches!(link.kind, Some(LinkKind::Veth { .. }))
        {
            // A name that is not ours.
            link.name = format!("f{}", rng.u8(..4)).parse().unwrap();
        }
        vec![self.change(Action::Create, protocol(object, marker))]
    }

    /// Returns a link with the same name and another kind.
    fn link_again(&self, link: &Link, rng: &mut Rng) -> Object {
        let kind = match rng.bool() {
            true => LinkKind::Ifb,
            false => LinkKind::Bridge(Default::default()),
        };
        let mut link = Link::new(link.name, kind);
        link.up = Some(rng.bool());
        Object::Link(Box::new(link))
    }

    /// Appends an IPv4 route behind another with its key.
    fn append(&self, rng: &mut Rng, marker: u8) -> Vec<Change> {
        let is_v4 =
            |object: &Object| matches!(object, Object::Route(it) if it.dst.address().is_ipv4());
        let mut routes = self.touchable();
        routes.retain(is_v4);
        if routes.is_empty() {
            return Vec::new();
        }
        let route = routes.swap_remove(rng.usize(..routes.len()));
        let mut change = self.change(Action::Create, protocol(rewritten(route, rng), marker));
        change.is_append = true;
        vec![change]
    }

    fn set_link(&self, rng: &mut Rng) -> Vec<Change> {
        let mut links = self.touchable();
        links.retain(|object| matches!(object, Object::Link(_)));
        if links.is_empty() {
            return Vec::new();
        }
        let was = links.swap_remove(rng.usize(..links.len()));
        let Object::Link(old) = &was else {
            return Vec::new();
        };
        let mut link = Link::must_exist(old.name);
        link.index = old.index;
        match rng.u8(..6) {
            0 => link.mtu = Some(1450),
            1 => link.group = Some(9),
            2 => link.alias = Some(b"his".to_vec().into()),
            _ => link.up = Some(old.up != Some(true)),
        }
        let mut change = self.change(Action::Update, Object::Link(Box::new(link)));
        change.op = change.op.with_was(was);
        vec![change]
    }
}

/// Returns the object with another protocol.
fn protocol(mut object: Object, protocol: u8) -> Object {
    match &mut object {
        Object::Link(_) => {}
        Object::Address(it) => it.protocol = protocol,
        Object::Neighbour(it) => it.protocol = protocol,
        Object::Nexthop(it) => it.protocol = protocol,
        Object::Route(it) => it.protocol = protocol,
        Object::Rule(it) => it.protocol = protocol,
        other => panic!("{other:?}"),
    }
    object
}

/// Returns the object with a change, or unchanged.
fn rewritten(mut object: Object, rng: &mut Rng) -> Object {
    match &mut object {
        Object::Route(it) if rng.bool() => it.metric = 77,
        Object::Route(it) if rng.bool() => {
            it.nexthops = trueup_net::NextHops::None;
            it.kind = trueup_net::RouteType::Blackhole;
            it.scope = None;
            it.src = None;
        }
        Object::Neighbour(it) if rng.bool() && it.lladdr.is_some() => {
            it.lladdr = "02:00:00:00:09:09".parse().ok();
        }
        // The judges distinguish no lifetime, a finite and an endless one, but not the time left.
        Object::Address(it) if rng.bool() => {
            let is_deprecated = it.lifetimes.preferred == 0;
            it.lifetimes.preferred = if is_deprecated { it.lifetimes.valid } else { 0 };
        }
        _ => {}
    }
    object
}

/// Sends a change with the devices' current indexes; returns the result.
fn carry_out(namespace: &Namespace, change: &Change) -> String {
    let sight = Sight::new(namespace);
    let names: BTreeMap<Dev, IfName> = change.names.iter().copied().collect();
    let resolve = |dev: Dev| {
        let name = names.get(&dev)?;
        sight.index(*name)?.as_index()
    };
    let op = &change.op;
    let by_name = |name: &IfName| match op.action {
        Action::Create => None,
        _ => names.iter().find(|(_, known)| *known == name).map(|(dev, _)| *dev),
    };
    let mut op = op.clone();
    // A link is deleted by its index.
    if let (Object::Link(link), Action::Delete) = (&mut op.object, op.action) {
        match sight.index(link.name).and_then(Dev::as_index) {
            Some(index) => link.index = index,
            None => return "no such link".to_owned(),
        }
    }
    let mut batch = Batch::new();
    let encoded = with_object!(&op.object, object: K => {
        let was = op.was();
        let was = was.as_deref().and_then(|was| was.try_into().ok());
        let parts: &[Part] =
            if change.is_append { &[Part::Append] } else { K::parts(op.action, object, was) };
        parts.iter().try_for_each(|part| {
            let change = codec::Change::new(op.action, object, &resolve).with_was(was);
            let named = change.with_names(&by_name, &|_| None);
            batch.push(|buffer| K::encode(buffer, *part, &named)).map(drop)
        })
    });
    if let Err(error) = encoded {
        return error.to_string();
    }
    let sent = Socket::open(namespace).and_then(|mut socket| socket.send_batch(&mut batch));
    let failed = sent.unwrap().into_iter().find(|outcome| *outcome != Some(Ok(())));
    match failed {
        None => "done".to_owned(),
        Some(Some(Err(error))) => error.to_string(),
        Some(other) => format!("{other:?}"),
    }
}

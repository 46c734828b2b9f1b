//! Random cases: small numbers that stand for desired objects and for other writers' acts. There
//! are few keys, so objects that are desired, were desired, or belong to other writers often
//! collide. `author` turns the numbers into objects.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The number of links that may be desired; see `author::LINKS`.
pub const LINKS: usize = 8;
/// The number of devices that objects may be on; see `author::DEVICES`.
pub const DEVICES: usize = 8;

#[derive(Clone, Debug)]
pub struct LinkSpec {
    pub which: usize,
    pub up: Option<bool>,
    pub mtu: Option<bool>,
    pub alias: Option<u8>,
    pub master: u8,
    pub group: Option<u8>,
    pub mac: Option<u8>,
    pub variant: u8,
}

#[derive(Clone, Debug)]
pub struct AddressSpec {
    pub dev: usize,
    pub v6: bool,
    pub subnet: u8,
    pub host: u8,
    pub len: u8,
    pub extra: u8,
    pub life: u8,
    pub flags: u8,
}

#[derive(Clone, Debug)]
pub struct NeighbourSpec {
    pub dev: usize,
    pub v6: bool,
    pub subnet: u8,
    pub host: u8,
    pub lladdr: u8,
    pub variant: u8,
}

#[derive(Clone, Debug)]
pub struct HopSpec {
    pub how: u8,
    pub subnet: u8,
    pub host: u8,
    pub dev: usize,
    pub named: bool,
    pub onlink: bool,
    pub weight: u8,
}

#[derive(Clone, Debug)]
pub struct RouteSpec {
    pub v6: bool,
    pub dst: u8,
    pub table: u8,
    pub metric: u8,
    pub tos: bool,
    pub from: bool,
    pub kind: u8,
    pub hops: Vec<HopSpec>,
    pub src: u8,
    pub metrics: u8,
}

#[derive(Clone, Debug)]
pub struct RuleSpec {
    pub v6: bool,
    pub priority: u8,
    pub action: u8,
    pub not: bool,
    /// The selectors present, one bit each.
    pub selectors: u16,
    pub value: u8,
}

/// Desired state. If a list is `None`, its kind is unmanaged.
#[derive(Clone, Debug)]
pub struct DesiredSpec {
    pub links: Option<Vec<LinkSpec>>,
    pub addresses: Option<Vec<AddressSpec>>,
    pub neighbours: Option<Vec<NeighbourSpec>>,
    pub routes: Option<Vec<RouteSpec>>,
    pub rules: Option<Vec<RuleSpec>>,
}

/// Another writer's act between two passes.
#[derive(Clone, Debug)]
pub enum WriterSpec {
    Address(AddressSpec),
    Neighbour(NeighbourSpec),
    Route(RouteSpec, u8),
    Rule(RuleSpec, u8),
    /// Makes a link, perhaps with a desired name, or as a port or child of ours.
    Link {
        which: usize,
        variant: u8,
    },
    /// Deletes or breaks one of our objects.
    Break {
        how: u8,
        dev: usize,
        number: u8,
    },
}

#[derive(Clone, Debug)]
pub struct Step {
    pub other_writer: Vec<WriterSpec>,
    pub desired: DesiredSpec,
    pub forget: bool,
}

#[derive(Clone, Debug)]
pub struct Case {
    /// True if everything is valid and possible, so one pass must converge, other writers aside.
    pub clean: bool,
    pub steps: Vec<Step>,
}

fn link() -> impl Strategy<Value = LinkSpec> {
    (
        0..LINKS,
        prop_oneof![4 => Just(Some(true)), 1 => Just(Some(false)), 1 => Just(None)],
        option::weighted(0.3, any::<bool>()),
        option::weighted(0.3, 0..3u8),
        0..4u8,
        option::weighted(0.1, 0..3u8),
        option::weighted(0.2, 0..3u8),
        0..8u8,
    )
        .prop_map(|(which, up, mtu, alias, master, group, mac, variant)| LinkSpec {
            which,
            up,
            mtu,
            alias,
            master,
            group,
            mac,
            variant,
        })
}

fn address() -> impl Strategy<Value = AddressSpec> {
    (0..DEVICES, any::<bool>(), 0..4u8, 1..5u8, 0..8u8, 0..16u8, 0..8u8, 0..8u8).prop_map(
        |(dev, v6, subnet, host, len, extra, life, flags)| AddressSpec {
            dev,
            v6,
            subnet,
            host,
            len,
            extra,
            life,
            flags,
        },
    )
}

fn neighbour() -> impl Strategy<Value = NeighbourSpec> {
    (0..DEVICES, any::<bool>(), 0..3u8, 1..6u8, 0..3u8, 0..8u8).prop_map(
        |(dev, v6, subnet, host, lladdr, variant)| NeighbourSpec {
            dev,
            v6,
            subnet,
            host,
            lladdr,
            variant,
        },
    )
}

fn hop() -> impl Strategy<Value = HopSpec> {
    (0..8u8, 0..4u8, 0..3u8, 0..DEVICES, any::<bool>(), prop::bool::weighted(0.1), 0..3u8).prop_map(
        |(how, subnet, host, dev, named, onlink, weight)| HopSpec {
            how,
            subnet,
            host,
            dev,
            named,
            onlink,
            weight,
        },
    )
}

fn route() -> impl Strategy<Value = RouteSpec> {
    (
        any::<bool>(),
        0..5u8,
        0..6u8,
        0..4u8,
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.15),
        0..12u8,
        prop_oneof![3 => vec(hop(), 1..2), 1 => vec(hop(), 2..4)],
        0..16u8,
        0..8u8,
    )
        .prop_map(|(v6, dst, table, metric, tos, from, kind, hops, src, metrics)| RouteSpec {
            v6,
            dst,
            table,
            metric,
            tos,
            from,
            kind,
            hops,
            src,
            metrics,
        })
}

fn rule() -> impl Strategy<Value = RuleSpec> {
    let bits = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| a & b);
    (any::<bool>(), 0..4u8, 0..10u8, prop::bool::weighted(0.2), bits, 0..2u8).prop_map(
        |(v6, priority, action, not, selectors, value)| RuleSpec {
            v6,
            priority,
            action,
            not,
            selectors,
            value,
        },
    )
}

fn desired(clean: bool) -> impl Strategy<Value = DesiredSpec> {
    // A clean case manages all kinds.
    fn all<T>(list: Option<Vec<T>>, clean: bool) -> Option<Vec<T>> {
        list.or(clean.then(Vec::new))
    }
    let managed = 0.85;
    (
        option::weighted(managed, vec(link(), 0..8)),
        option::weighted(managed, vec(address(), 0..8)),
        option::weighted(managed, vec(neighbour(), 0..6)),
        option::weighted(managed, vec(route(), 0..10)),
        option::weighted(managed, vec(rule(), 0..6)),
    )
        .prop_map(move |(links, addresses, neighbours, routes, rules)| DesiredSpec {
            links: all(links, clean),
            addresses: all(addresses, clean),
            neighbours: all(neighbours, clean),
            routes: all(routes, clean),
            rules: all(rules, clean),
        })
}

fn other_writer() -> impl Strategy<Value = WriterSpec> {
    prop_oneof![
        3 => address().prop_map(WriterSpec::Address),
        2 => neighbour().prop_map(WriterSpec::Neighbour),
        4 => (route(), 0..6u8).prop_map(|(route, proto)| WriterSpec::Route(route, proto)),
        2 => (rule(), 0..6u8).prop_map(|(rule, proto)| WriterSpec::Rule(rule, proto)),
        2 => (0..LINKS, 0..8u8).prop_map(|(which, variant)| WriterSpec::Link { which, variant }),
        2 => (0..8u8, 0..DEVICES, 0..8u8)
            .prop_map(|(how, dev, number)| WriterSpec::Break { how, dev, number }),
    ]
}

/// Generates a case of up to four steps.
pub fn case(clean: bool) -> impl Strategy<Value = Case> {
    let step = (vec(other_writer(), 0..5), desired(clean), prop::bool::weighted(0.05)).prop_map(
        move |(other_writer, desired, forget)| Step {
            other_writer,
            desired,
            forget: forget && !clean,
        },
    );
    vec(step, 1..5).prop_map(move |steps| Case { clean, steps })
}

//! The kernel's cost of the same changes in different orders: pre-encoded messages, 250 in each
//! send, only the last acknowledged. Each run has a fresh namespace, the orders alternate, and
//! medians count. `docs/order.md` has the conclusions.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use ipnetwork::IpNetwork;
use trueup::apply::apply;
use trueup_net::internal::{Resolution, plan_with};
use trueup_net::{
    Address, AddressFlags, Desired, Dev, Family, Kinds, Link, LinkKind, Neighbour, NextHop,
    NextHops, Object, Observed, Owned, Plan, Policy, Route, Routes, Rule, RuleAction,
};
use trueup_netlink::codec::{existing, link};
use trueup_netlink::{Batch, Connect, Group, Namespace, Socket, Transport};
use trueup_rtnl::DEFAULT_PROTOCOL;
use trueup_testkit::{fresh_netns, index_of, ip_batch, quiet_netns};
use trueup_works::Destination;
use trueup_works::clock::processor_of_thread;
use trueup_works::internet::{Prefixes, thinned};

use crate::pass::prefix;
use crate::usage::median;
use crate::writer::{self, Verb, batches, encode};

/// Measures what orders of the same changes cost the kernel. The internet's prefixes are read from
/// the folder that $TRUEUP_DATA names; made up otherwise.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which work, by a part of its name; all by default.
    #[arg(default_value = "")]
    what: String,
    /// How many runs of each order.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// How many routes.
    #[arg(long, default_value_t = 100_000)]
    size: usize,
}

/// The cost of a run in seconds: wall time, and processor time of the sending threads. The second
/// is more reliable on a busy machine, and leaves out the kernel's waits.
type Taken = [f64; 2];

/// One way to do a work: prepares a fresh namespace and returns the cost.
type Way = (&'static str, Box<dyn Fn() -> Result<Taken>>);

/// Returns the places of a number of objects in some order.
type Order = Rc<dyn Fn(usize) -> Vec<usize>>;
type Orders = Vec<(&'static str, Order)>;
type Named = (&'static str, fn(usize) -> Vec<usize>);

/// Makes the objects of a work, given their device.
type Make = Rc<dyn Fn(Dev) -> Result<Vec<Object>>>;

/// The same work in several ways.
struct Work {
    name: String,
    /// The number of changes.
    count: usize,
    ways: Vec<Way>,
}

pub(crate) fn main(options: &Options) -> Result<()> {
    trueup_testkit::enter()?;
    for work in works(options.size)?.iter().filter(|work| work.name.contains(&options.what)) {
        let mut taken: Vec<[Vec<f64>; 2]> = vec![Default::default(); work.ways.len()];
        for _ in 0..options.runs {
            for ((_, way), [walls, processors]) in work.ways.iter().zip(&mut taken) {
                let [wall, processor] = way()?;
                walls.push(wall);
                processors.push(processor);
            }
        }
        println!("{} ({})", work.name, work.count);
        println!("  {:28} {:>20} {:>20}", "µs each, and of the first", "wall", "processor");
        let mut first = None;
        for ((name, _), runs) in work.ways.iter().zip(taken) {
            let [wall, processor] = runs.map(|all| 1e6 * median(all) / work.count as f64);
            let (wall_of, processor_of) = *first.get_or_insert((wall, processor));
            println!(
                "  {name:28} {wall:11.2} {:8.3} {processor:11.2} {:8.3}",
                wall / wall_of,
                processor / processor_of,
            );
        }
    }
    Ok(())
}

fn works(size: usize) -> Result<Vec<Work>> {
    let mut works = Vec::new();
    let internet = Prefixes::internet(usize::MAX)?;
    let sets = [
        ("/24", even(size, 24)),
        ("/32", even(size, 32)),
        ("internet v4", thinned(&internet.v4, size)),
        ("internet v6", thinned(&internet.v6, size)),
    ];
    for (name, set) in sets {
        for gateways in [1, 64] {
            works.extend(routes(&format!("{name}, {gateways} gateways"), &set, gateways));
        }
    }
    works.extend(multipath(even(size, 24)));
    for family in [Family::Inet, Family::Inet6] {
        works.extend(rules(family, 10_000));
        works.extend(neighbours(family, 10_000.min(size)));
        works.push(addresses(family, 1_500));
    }
    works.extend([2, 4, 8, 16, 64, 1_000].map(links));
    works.push(own(10 * size));
    Ok(works)
}

/// Returns `size` prefixes from 20.0.0.0 on.
fn even(size: usize, length: u8) -> Vec<Destination> {
    (0..size as u32)
        .map(|at| (Ipv4Addr::from((20 << 24) + (at << (32 - length))).into(), length))
        .collect()
}

// Orders.

fn ascending(n: usize) -> Vec<usize> {
    (0..n).collect()
}

fn descending(n: usize) -> Vec<usize> {
    (0..n).rev().collect()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Returns an order with steps of about 0.618 of the whole, which visits each place once.
fn golden(n: usize) -> Vec<usize> {
    let mut stride = ((n as f64 * 0.618_033_988_75) as usize).max(1);
    while greatest_common_divisor(stride, n.max(1)) != 1 {
        stride += 1;
    }
    (0..n).map(|at| at * stride % n).collect()
}

/// Returns every `k`th place ascending, then those between, each time halving the greatest gap
/// first.
fn passes(n: usize, k: usize) -> Vec<usize> {
    let bits = k.trailing_zeros();
    let starts = (0..k as u32).map(|j| (j.reverse_bits() >> (32 - bits)) as usize);
    starts.flat_map(|start| (start..n).step_by(k)).collect()
}

/// Returns an order by length, and by `within` among equal lengths.
fn by_length(set: &[Destination], longest_first: bool, within: fn(usize) -> Vec<usize>) -> Order {
    let lengths: Vec<u8> = set.iter().map(|(_, length)| *length).collect();
    Rc::new(move |_| {
        let mut groups: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (at, len) in lengths.iter().enumerate() {
            groups.entry(*len).or_default().push(at);
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        if longest_first {
            groups.reverse();
        }
        let ordered =
            |group: Vec<usize>| within(group.len()).into_iter().map(move |place| group[place]);
        groups.into_iter().flat_map(ordered).collect()
    })
}

fn orders(all: &[Named]) -> Orders {
    all.iter().map(|(name, order)| (*name, Rc::new(*order) as Order)).collect()
}

fn three_orders() -> Orders {
    orders(&[("ascending", ascending), ("descending", descending), ("scattered", golden)])
}

// Sending.

fn encoded(verb: Verb, objects: &[Object], order: &[usize]) -> Result<Vec<Batch>> {
    batches(order.iter().map(|at| &objects[*at]), |buffer, object| encode(buffer, verb, object))
}

/// Returns the cost of a work: wall time, and processor time of the calling thread.
fn taken<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, Taken)> {
    let (begin, used) = (Instant::now(), processor_of_thread()?);
    let value = work()?;
    let (wall, used) = (begin.elapsed(), processor_of_thread()?.saturating_sub(used));
    Ok((value, [wall, used].map(|time: Duration| time.as_secs_f64())))
}

fn send(mut batches: Vec<Batch>) -> Result<Taken> {
    let mut socket = Socket::open(&Namespace::current())?;
    Ok(taken(|| writer::send(&mut socket, &mut batches))?.1)
}

// Works.

/// Makes a namespace with a veth, whose subnet has reachable gateways.
fn prepared() -> Dev {
    quiet_netns();
    ip_batch([
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "link set v1 up",
        "address add 10.0.0.1/16 dev v0",
        "address add fd00::1/64 dev v0 nodad",
    ]);
    Dev::index(index_of("v0"))
}

fn gateway(family: Family, number: usize) -> IpAddr {
    match family {
        Family::Inet => Ipv4Addr::from((10 << 24) + 256 + number as u32).into(),
        Family::Inet6 => Ipv6Addr::from((0xfd00_u128 << 112) + 256 + number as u128).into(),
    }
}

/// Does one act to objects in each order, while other objects are there.
fn ordered(name: String, verb: Verb, orders: Orders, there: Option<Make>, all: &Make) -> Work {
    let ways = orders.into_iter().map(|(title, order)| {
        let (there, all) = (there.clone(), Rc::clone(all));
        let way: Way = (
            title,
            Box::new(move || {
                let dev = prepared();
                if let Some(there) = &there {
                    let there = there(dev)?;
                    send(encoded(Verb::Create, &there, &ascending(there.len()))?)?;
                }
                let all = all(dev)?;
                send(encoded(verb, &all, &order(all.len()))?)
            }),
        );
        way
    });
    Work { name, count: 0, ways: ways.collect() }
}

/// Creates and deletes in each order; deleted objects were created in the order of `made`.
fn both(name: &str, count: usize, orders: &Orders, all: &Make, made: &Make) -> [Work; 2] {
    let create = ordered(format!("create {name}"), Verb::Create, orders.clone(), None, all);
    let there = Some(Rc::clone(made));
    let delete = ordered(format!("delete {name}"), Verb::Delete, orders.clone(), there, all);
    [create, delete].map(|work| Work { count, ..work })
}

fn route(to: Destination, gateways: impl IntoIterator<Item = usize>) -> Result<Route> {
    let dst = prefix(to)?;
    let mut hops: Vec<NextHop> =
        gateways.into_iter().map(|number| NextHop::via(gateway(dst.family(), number))).collect();
    let hops = match (hops.len(), hops.pop()) {
        (1, Some(hop)) => NextHops::One(hop),
        (_, last) => NextHops::Many(hops.into_iter().chain(last).collect()),
    };
    Ok(Route::new(dst, hops).canonical().with_protocol(DEFAULT_PROTOCOL))
}

fn made(set: &[Destination], gateways: usize, shift: usize) -> Make {
    let destinations = set.to_vec();
    Rc::new(move |_| {
        let all = destinations.iter().enumerate();
        all.map(|(at, to)| Ok(Object::Route(route(*to, [(at + shift) % gateways])?))).collect()
    })
}

fn route_orders(set: &[Destination], longest_first: bool) -> Orders {
    let mut all = orders(&[
        ("ascending", ascending),
        ("descending", descending),
        ("scattered", golden),
        ("every 256th", |n| passes(n, 256)),
    ]);
    all.extend([
        ("by length, ascending", by_length(set, longest_first, ascending)),
        ("by length, scattered", by_length(set, longest_first, golden)),
        ("by length, every 16th", by_length(set, longest_first, |n| passes(n, 16))),
        ("by length, every 256th", by_length(set, longest_first, |n| passes(n, 256))),
    ]);
    all
}

fn routes(name: &str, set: &[Destination], gateways: usize) -> [Work; 3] {
    let (all, others) = (made(set, gateways, 0), made(set, gateways + 1, 1));
    let [halves, to_replace, to_delete] = [(); 3].map(|()| Rc::clone(&all));
    let longest_first = route_orders(set, true);
    let create = format!("create routes {name}");
    let mut create = ordered(create, Verb::Create, longest_first.clone(), None, &all);
    create.ways.push(("ascending, two sockets", Box::new(move || two_sockets(&halves))));
    let replace = format!("replace routes {name}");
    let replace = ordered(replace, Verb::Replace, longest_first, Some(to_replace), &others);
    let delete = format!("delete routes {name}");
    let shortest_first = route_orders(set, false);
    let delete = ordered(delete, Verb::Delete, shortest_first, Some(to_delete), &all);
    [create, replace, delete].map(|work| Work { count: set.len(), ..work })
}

fn two_sockets(all: &Make) -> Result<Taken> {
    let all = all(prepared())?;
    let (one, other) = all.split_at(all.len() / 2);
    let parts = [one, other].map(|part| encoded(Verb::Create, part, &ascending(part.len())));
    let begin = Instant::now();
    let processor = thread::scope(|scope| -> Result<f64> {
        let running = parts.map(|part| part.map(|part| scope.spawn(move || send(part))));
        let mut processor = 0.0;
        for thread in running {
            let [_, used] = thread?.join().map_err(|_| anyhow!("a thread panicked"))??;
            processor += used;
        }
        Ok(processor)
    })?;
    Ok([begin.elapsed().as_secs_f64(), processor])
}

fn multipath(set: Vec<Destination>) -> [Work; 2] {
    let count = set.len();
    let all: Make = Rc::new(move |_| {
        let routes = set.iter().enumerate().map(|(at, to)| route(*to, [at % 64, (at + 1) % 64]));
        routes.map(|route| Ok(Object::Route(route?))).collect()
    });
    // All routes of one set of next hops, then of the next: the kernel finds the same `fib_info`
    // again.
    let orders = orders(&[
        ("ascending", ascending),
        ("scattered", golden),
        ("by next hops", |n| (0..64).flat_map(|start| (start..n).step_by(64)).collect()),
    ]);
    both("multipath routes", count, &orders, &all, &all)
}

fn rule(family: Family, at: u32) -> Object {
    let rule = Rule::new(family, 1_000 + at, RuleAction::Lookup(100));
    Object::Rule(Box::new(rule.with_protocol(DEFAULT_PROTOCOL)))
}

fn rules(family: Family, count: usize) -> [Work; 2] {
    let numbers = 0..count as u32;
    let backwards = numbers.clone().rev();
    let all: Make = Rc::new(move |_| Ok(numbers.clone().map(|at| rule(family, at)).collect()));
    let back: Make = Rc::new(move |_| Ok(backwards.clone().map(|at| rule(family, at)).collect()));
    both(&format!("rules {family}"), count, &three_orders(), &all, &back)
}

fn neighbours(family: Family, count: usize) -> [Work; 2] {
    let all: Make = Rc::new(move |dev| {
        let all = (0..count).map(|at| {
            let it = Neighbour::new(dev, gateway(family, at), "02:00:00:00:00:09".parse()?);
            Ok(Object::Neighbour(it.with_protocol(DEFAULT_PROTOCOL)))
        });
        all.collect()
    });
    both(&format!("neighbours {family}"), count, &three_orders(), &all, &all)
}

fn address(family: Family, dev: Dev, at: usize) -> Result<Object> {
    let (ip, len): (IpAddr, u8) = match family {
        Family::Inet => (Ipv4Addr::from((20 << 24) + ((at as u32) << 8) + 1).into(), 24),
        Family::Inet6 => (Ipv6Addr::from((0xfd01_u128 << 112) + at as u128 + 1).into(), 64),
    };
    let address = Address::new(dev, IpNetwork::new(ip, len)?).with_protocol(DEFAULT_PROTOCOL);
    Ok(Object::Address(address.with_flags(AddressFlags::default())))
}

/// Creates addresses on a link that is set up first, or after them.
fn create_addresses(family: Family, count: usize, is_up_first: bool) -> Result<Taken> {
    quiet_netns();
    ip_batch(["link add v0 type veth peer name v1", "link set v1 up"]);
    let index = index_of("v0");
    let up = Link::must_exist("v0".parse()?).with_index(index).with_up(true);
    let raise = batches([up], |buffer, it| link::change(buffer, it, None, &existing))?;
    let all =
        (0..count).map(|at| address(family, Dev::index(index), at)).collect::<Result<Vec<_>>>()?;
    let adds = encoded(Verb::Create, &all, &ascending(count))?;
    if is_up_first {
        send(raise)?;
        return send(adds);
    }
    let (adds, raise) = (send(adds)?, send(raise)?);
    Ok([adds[0] + raise[0], adds[1] + raise[1]])
}

/// Compares addresses on an up link with addresses on a link set up after them.
fn addresses(family: Family, count: usize) -> Work {
    Work {
        name: format!("create addresses {family}"),
        count,
        ways: vec![
            ("on a link that is up", Box::new(move || create_addresses(family, count, true))),
            ("before the link comes up", Box::new(move || create_addresses(family, count, false))),
        ],
    }
}

/// Makes links in a separate namespace, and returns their indexes.
fn made_links(count: usize) -> Result<Vec<u32>> {
    fresh_netns();
    let indexes: Vec<u32> = (1_000..1_000 + count as u32).collect();
    let links = indexes
        .iter()
        .map(|index| {
            let link = Link::new(format!("b{index}").parse()?, LinkKind::Ifb);
            Ok(link.with_index(*index).with_up(true))
        })
        .collect::<Result<Vec<_>>>()?;
    send(batches(links, |buffer, it| link::create(buffer, it, 0, &existing))?)?;
    Ok(indexes)
}

fn delete_one_by_one(count: usize) -> Result<Taken> {
    send(batches(made_links(count)?, |buffer, index| link::delete(buffer, *index))?)
}

fn delete_by_group(count: usize) -> Result<Taken> {
    let mut all = Vec::new();
    for part in made_links(count)?.chunks(249) {
        let group = part.iter().copied().map(Some).chain([None]);
        all.extend(batches(group, |buffer, index| match index {
            Some(index) => link::set_group(buffer, *index, 77),
            None => link::delete_group(buffer, 77),
        })?);
    }
    send(all)
}

/// Compares links deleted one by one, and by a group that they are put into first, in the same
/// batch.
fn links(count: usize) -> Work {
    Work {
        name: format!("delete {count} links"),
        count,
        ways: vec![
            ("one by one", Box::new(move || delete_one_by_one(count))),
            ("by group, 249 at once", Box::new(move || delete_by_group(count))),
        ],
    }
}

fn planned(count: usize, creates: bool) -> Result<(Plan, Taken)> {
    let set = even(count, 24);
    let (mut wanted, mut there) = (Routes::new(), Vec::new());
    for (at, to) in set.into_iter().enumerate() {
        let via = gateway(Family::Inet, at % 64);
        if creates {
            wanted.insert(Route::new(prefix(to)?, NextHops::One(NextHop::via(via))));
        } else {
            let on = NextHops::One(NextHop::via(via).with_dev(Dev::index(2)));
            there.push(route(to, [0])?.with_nexthops(on));
        }
    }
    let desired = Desired::default().with_routes(wanted);
    let observed = Observed::default().with_routes(there).with_complete(Kinds::ALL);
    let owned = Owned::default();
    let policy = Policy::from(DEFAULT_PROTOCOL);
    let names = Resolution::of(&desired, &observed, &owned, &policy)?
        .with_routes(&desired, &observed, &policy);
    taken(|| Ok(plan_with(&desired, None, &names, &observed, &owned, &policy)?))
}

fn carried_out(count: usize, creates: bool) -> Result<Taken> {
    let (plan, _) = planned(count, creates)?;
    let mut socket = Socket::open(&Namespace::through(Arc::new(Nobody)))?;
    let (done, taken) = taken(|| Ok(apply(&plan, &mut socket, &BTreeMap::new(), &|| true)))?;
    ensure!(done.outcomes.iter().all(|outcome| outcome.is_applied()));
    Ok(taken)
}

/// Measures planning and applying alone, for routes of one length: there is no kernel.
fn own(count: usize) -> Work {
    Work {
        name: "plan and apply, without a kernel".to_owned(),
        count,
        ways: vec![
            ("plan creates", Box::new(move || Ok(planned(count, true)?.1))),
            ("plan deletes", Box::new(move || Ok(planned(count, false)?.1))),
            ("carry creates out", Box::new(move || carried_out(count, true))),
            ("carry deletes out", Box::new(move || carried_out(count, false))),
        ],
    }
}

/// A peer that acknowledges the last message of everything.
#[derive(Debug)]
struct Nobody;

impl Connect for Nobody {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(Yes { never: UdpSocket::bind("127.0.0.1:0")?, answer: None }))
    }
}

struct Yes {
    never: UdpSocket,
    answer: Option<[u8; 36]>,
}

impl AsFd for Yes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.never.as_fd()
    }
}

impl Transport for Yes {
    fn port(&self) -> u32 {
        1
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn join(&mut self, _: Group) -> io::Result<()> {
        Ok(())
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        Ok(212_992)
    }

    fn set_receive_buffer(&mut self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        Ok(1)
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        let mut rest = datagram;
        let mut last = rest;
        while rest.len() >= 16 {
            let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            last = rest;
            rest = rest.get(length.next_multiple_of(4).max(16)..).unwrap_or_default();
        }
        let mut answer = [0; 36];
        answer[0] = 36;
        answer[4] = 2; // NLMSG_ERROR
        answer[7] = 1; // NLM_F_CAPPED
        answer[8..12].copy_from_slice(&last[8..12]);
        answer[20..].copy_from_slice(&last[..16]);
        self.answer = Some(answer);
        Ok(())
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let answer = self.answer.take().ok_or(io::ErrorKind::WouldBlock)?;
        buffer.clear();
        buffer.extend_from_slice(&answer);
        Ok(answer.len())
    }
}

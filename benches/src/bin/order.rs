//! What the same changes cost the kernel in one order and in another: pre-encoded messages, 250 a
//! send, the acknowledgement of the last alone, each run in a fresh namespace, orders alternating,
//! medians. What it taught is in `docs/order.md`.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::ops::Add;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use ipnetwork::IpNetwork;
use nix::sys::resource::{UsageWho, getrusage};
use trueup::apply::apply;
use trueup_benches::prefixes::Prefixes;
use trueup_net::{
    Address, AddressFlags, Desired, Dev, Family, Kinds, Link, LinkKind, Neighbour, NextHop,
    NextHops, Observed, Owned, Plan, Prefix, Route, Routes, Rule, RuleAction, plan_resolved,
    resolve,
};
use trueup_netlink::{Batch, Connect, Group, Namespace, Outcome, Push, Socket, Transport, codec};
use trueup_testkit::{fresh_netns, index_of, ip_batch, quiet_netns};

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    use std::path::PathBuf;

    xflags::xflags! {
        /// Measures what orders of the same changes cost the kernel.
        cmd order {
            /// Which work, by a part of its name; all by default.
            optional what: String
            /// How many runs of each order; 5 by default.
            optional --runs runs: usize
            /// How many routes; 100,000 by default.
            optional --size routes: usize
            /// Where `internet-v4.txt.gz` and `internet-v6.txt.gz` are; made up otherwise.
            optional --data directory: PathBuf
        }
    }
}

/// An order of `n` things: where each of them comes from.
type Order = Box<dyn Fn(usize) -> Vec<usize>>;

/// One way to do a work: prepares a fresh namespace and gives what it took.
type Way = (String, Box<dyn Fn() -> Result<Taken>>);

/// What a run took: on the clock, and of the processor's time in the threads that sent. The second
/// tells more on a machine that does other work, and leaves out what the kernel waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    wall: Duration,
    processor: Duration,
}

impl Add for Taken {
    type Output = Taken;

    fn add(self, other: Taken) -> Taken {
        Taken { wall: self.wall + other.wall, processor: self.processor + other.processor }
    }
}

/// An order by name: the places of so many things, one after the other.
type NamedOrder = (&'static str, fn(usize) -> Vec<usize>);

/// What the calling thread has used of the processor.
fn thread_time() -> Result<Duration> {
    let used = getrusage(UsageWho::RUSAGE_THREAD)?;
    let [user, system] = [used.user_time(), used.system_time()];
    let micros = |time: nix::sys::time::TimeVal| {
        1_000_000 * u64::try_from(time.tv_sec()).unwrap_or(0)
            + u64::try_from(time.tv_usec()).unwrap_or(0)
    };
    Ok(Duration::from_micros(micros(user) + micros(system)))
}

/// The same work in several ways.
struct Work {
    name: String,
    /// How many changes it is.
    count: usize,
    ways: Vec<Way>,
}

fn main() -> Result<()> {
    trueup_testkit::enter()?;
    let flags = flags::Order::from_env_or_exit();
    let size = flags.size.unwrap_or(100_000);
    let prefixes = match &flags.data {
        Some(directory) => Prefixes::read(directory)?,
        None => Prefixes::synthetic(),
    };
    let wanted = |work: &Work| {
        let what = flags.what.as_deref().unwrap_or_default();
        work.name.contains(what)
    };
    for work in works(size, &prefixes).into_iter().filter(wanted) {
        let mut taken: BTreeMap<usize, Vec<Taken>> = BTreeMap::new();
        for _ in 0..flags.runs.unwrap_or(5) {
            for (at, (_, way)) in work.ways.iter().enumerate() {
                taken.entry(at).or_default().push(way()?);
            }
        }
        println!("{} ({})", work.name, work.count);
        println!("  {:28} {:>20} {:>20}", "µs each, and of the first", "wall", "processor");
        let mut first = None;
        for (at, runs) in &taken {
            let each = |of: fn(&Taken) -> Duration| {
                let mut times: Vec<Duration> = runs.iter().map(of).collect();
                times.sort_unstable();
                1e6 * times[times.len() / 2].as_secs_f64() / work.count as f64
            };
            let (wall, processor) = (each(|run| run.wall), each(|run| run.processor));
            let (wall_of, processor_of) = *first.get_or_insert((wall, processor));
            println!(
                "  {:28} {wall:11.2} {:8.3} {processor:11.2} {:8.3}",
                work.ways[*at].0,
                wall / wall_of,
                processor / processor_of,
            );
        }
    }
    Ok(())
}

fn works(size: usize, prefixes: &Prefixes) -> Vec<Work> {
    let mut works = Vec::new();
    let even = |len: u8| -> Vec<Prefix> {
        let at = |index: usize| {
            // 20.0.0.0 and what follows.
            let base = (20 << 24) + ((index as u32) << (32 - len));
            v4(base, len)
        };
        (0..size).map(at).collect()
    };
    let sets = [
        ("/24", even(24)),
        ("/32", even(32)),
        ("internet v4", thinned(&prefixes.v4, size)),
        ("internet v6", thinned(&prefixes.v6, size)),
    ];
    for (name, set) in sets {
        for gateways in [1, 64] {
            works.extend(routes(&format!("{name}, {gateways} gateways"), &set, gateways));
        }
    }
    works.extend(multipath(&even(24)));
    for family in [Family::Inet, Family::Inet6] {
        works.extend(rules(family, 10_000));
        works.extend(neighbours(family, 10_000.min(size)));
        works.push(addresses(family, 1_500));
    }
    works.extend([2, 4, 8, 16, 64, 1_000].map(links));
    works.push(own(10 * size));
    works
}

fn v4(bits: u32, len: u8) -> Prefix {
    let network = IpNetwork::new(IpAddr::V4(Ipv4Addr::from(bits)), len);
    network.map_or_else(|_| Prefix::default_route(Family::Inet), Prefix::containing)
}

fn thinned(all: &[Prefix], size: usize) -> Vec<Prefix> {
    let size = size.min(all.len());
    (0..size).map(|at| all[at * all.len() / size]).collect()
}

// Orders.

fn ascending() -> Order {
    Box::new(|n| (0..n).collect())
}

fn descending() -> Order {
    Box::new(|n| (0..n).rev().collect())
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Steps of about 0.618 of the whole, which meet each once.
fn golden(n: usize) -> Vec<usize> {
    let mut stride = ((n as f64 * 0.618_033_988_75) as usize).max(1);
    while greatest_common_divisor(stride, n.max(1)) != 1 {
        stride += 1;
    }
    let mut at = 0;
    (0..n)
        .map(|_| {
            let here = at;
            at = (at + stride) % n;
            here
        })
        .collect()
}

/// Every `k`th ascending, then those between them, those that halve the greatest gap first.
fn passes(n: usize, k: usize) -> Vec<usize> {
    let bits = k.trailing_zeros();
    let starts = (0..k as u32).map(|j| (j.reverse_bits() >> (32 - bits)) as usize);
    starts.flat_map(|start| (start..n).step_by(k)).collect()
}

/// By length, in the order that is given within each.
fn by_length(set: &[Prefix], longest_first: bool, within: fn(usize) -> Vec<usize>) -> Order {
    let lengths: Vec<u8> = set.iter().map(|prefix| prefix.len()).collect();
    Box::new(move |_| {
        let mut groups: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (at, len) in lengths.iter().enumerate() {
            groups.entry(*len).or_default().push(at);
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        if longest_first {
            groups.reverse();
        }
        let ordered = |group: Vec<usize>| {
            let places = within(group.len());
            places.into_iter().map(move |place| group[place])
        };
        groups.into_iter().flat_map(ordered).collect()
    })
}

fn in_order(n: usize) -> Vec<usize> {
    (0..n).collect()
}

// Sending.

/// Messages made by an encoder for each item.
fn batches<T>(
    items: &[T],
    order: impl IntoIterator<Item = usize>,
    encode: impl Fn(&mut Vec<u8>, &T) -> Result<(), codec::EncodeError>,
) -> Result<Vec<Batch>> {
    let mut batches = vec![Batch::new()];
    for at in order {
        let mut pushed = Push::Full;
        if let Some(last) = batches.last_mut() {
            pushed = last.push(|buffer| encode(buffer, &items[at]))?;
        }
        if pushed == Push::Full {
            let mut batch = Batch::new();
            ensure!(batch.push(|buffer| encode(buffer, &items[at]))? == Push::Added);
            batches.push(batch);
        }
    }
    Ok(batches)
}

fn send(batches: &mut [Batch]) -> Result<Taken> {
    send_over(&mut Socket::open(&Namespace::current())?, batches)
}

fn send_over(socket: &mut Socket, batches: &mut [Batch]) -> Result<Taken> {
    let (begin, used) = (Instant::now(), thread_time()?);
    for batch in batches {
        let outcomes = socket.send_batch(batch)?;
        let refused = outcomes.iter().find(|outcome| **outcome != Outcome::Done);
        ensure!(refused.is_none(), "refused: {refused:?}");
    }
    Ok(Taken { wall: begin.elapsed(), processor: thread_time()?.saturating_sub(used) })
}

fn existing(dev: Dev) -> Option<u32> {
    dev.as_index()
}

// Works.

/// A namespace with a veth, gateways on it reachable.
fn prepared() -> Result<u32> {
    quiet_netns();
    ip_batch([
        "link add v0 type veth peer name v1",
        "link set v0 up",
        "link set v1 up",
        "address add 10.0.0.1/16 dev v0",
        "address add fd00::1/64 dev v0 nodad",
    ]);
    Ok(index_of("v0"))
}

fn gateway(family: Family, number: usize) -> IpAddr {
    match family {
        Family::Inet => IpAddr::V4(Ipv4Addr::from((10 << 24) + 256 + number as u32)),
        Family::Inet6 => IpAddr::V6(Ipv6Addr::from((0xfd00_u128 << 112) + 256 + number as u128)),
    }
}

fn made(set: &[Prefix], gateways: usize, shift: usize) -> Vec<Route> {
    let routes = set.iter().enumerate().map(|(at, dst)| {
        let hop = NextHop::via(gateway(dst.family(), (at + shift) % gateways));
        Route::new(*dst, NextHops::One(hop)).canonical().with_protocol(116)
    });
    routes.collect()
}

fn routes(name: &str, set: &[Prefix], gateways: usize) -> Vec<Work> {
    let orders = |create: bool| -> Vec<(&'static str, Order)> {
        let longest = create;
        vec![
            ("ascending", ascending()),
            ("descending", descending()),
            ("scattered", Box::new(golden)),
            ("every 256th", Box::new(|n| passes(n, 256))),
            ("by length, ascending", by_length(set, longest, in_order)),
            ("by length, scattered", by_length(set, longest, golden)),
            ("by length, every 16th", by_length(set, longest, |n| passes(n, 16))),
            ("by length, every 256th", by_length(set, longest, |n| passes(n, 256))),
        ]
    };
    let work = |verb: &str, ways: Vec<Way>| Work {
        name: format!("{verb} routes {name}"),
        count: set.len(),
        ways,
    };
    let mut creates: Vec<Way> = Vec::new();
    let mut deletes: Vec<Way> = Vec::new();
    let mut replaces: Vec<Way> = Vec::new();
    for (title, order) in orders(true) {
        let all = made(set, gateways, 0);
        creates.push((
            title.to_owned(),
            Box::new(move || {
                prepared()?;
                let create = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::create(buffer, route, &existing)
                };
                send(&mut batches(&all, order(all.len()), create)?)
            }),
        ));
    }
    let set_up = |all: &[Route]| -> Result<()> {
        prepared()?;
        let create =
            |buffer: &mut Vec<u8>, route: &Route| codec::route::create(buffer, route, &existing);
        send(&mut batches(all, 0..all.len(), create)?)?;
        Ok(())
    };
    for (title, order) in orders(true) {
        let all = made(set, gateways, 0);
        let others = made(set, gateways + 1, 1);
        replaces.push((
            title.to_owned(),
            Box::new(move || {
                set_up(&all)?;
                let replace = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::replace(buffer, route, &existing)
                };
                send(&mut batches(&others, order(all.len()), replace)?)
            }),
        ));
    }
    for (title, order) in orders(false) {
        let all = made(set, gateways, 0);
        deletes.push((
            title.to_owned(),
            Box::new(move || {
                set_up(&all)?;
                let delete = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::delete(buffer, route, &existing)
                };
                send(&mut batches(&all, order(all.len()), delete)?)
            }),
        ));
    }
    let two: Way = {
        let all = made(set, gateways, 0);
        (
            "ascending, two sockets".to_owned(),
            Box::new(move || {
                prepared()?;
                let create = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::create(buffer, route, &existing)
                };
                let half = all.len() / 2;
                let mut parts = [
                    batches(&all[..half], 0..half, create)?,
                    batches(&all[half..], 0..all.len() - half, create)?,
                ];
                let mut sockets = Vec::new();
                for _ in &parts {
                    sockets.push(Socket::open(&Namespace::current())?);
                }
                let begin = Instant::now();
                let mut processor = Duration::ZERO;
                thread::scope(|scope| -> Result<()> {
                    let running: Vec<_> = parts
                        .iter_mut()
                        .zip(&mut sockets)
                        .map(|(part, socket)| scope.spawn(move || send_over(socket, part)))
                        .collect();
                    for thread in running {
                        let taken = thread.join().map_err(|_| anyhow!("a thread panicked"))??;
                        processor += taken.processor;
                    }
                    Ok(())
                })?;
                Ok(Taken { wall: begin.elapsed(), processor })
            }),
        )
    };
    creates.push(two);
    vec![work("create", creates), work("replace", replaces), work("delete", deletes)]
}

fn multipath(set: &[Prefix]) -> Vec<Work> {
    let routes: Vec<Route> = set
        .iter()
        .enumerate()
        .map(|(at, dst)| {
            let hop = |number: usize| NextHop::via(gateway(dst.family(), number % 64));
            let hops = NextHops::Many(vec![hop(at), hop(at + 1)]);
            Route::new(*dst, hops).canonical().with_protocol(116)
        })
        .collect();
    let mut creates: Vec<Way> = Vec::new();
    let mut deletes: Vec<Way> = Vec::new();
    // Of one set of next hops all, then of the next: the kernel finds the same `fib_info` again.
    let grouped: fn(usize) -> Vec<usize> =
        |n| (0..64).flat_map(|start| (start..n).step_by(64)).collect();
    let orders: [NamedOrder; 3] =
        [("ascending", in_order), ("scattered", golden), ("by next hops", grouped)];
    for (title, order) in orders {
        let all = routes.clone();
        creates.push((
            title.to_owned(),
            Box::new(move || {
                prepared()?;
                let create = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::create(buffer, route, &existing)
                };
                send(&mut batches(&all, order(all.len()), create)?)
            }),
        ));
        let all = routes.clone();
        deletes.push((
            title.to_owned(),
            Box::new(move || {
                prepared()?;
                let create = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::create(buffer, route, &existing)
                };
                let delete = |buffer: &mut Vec<u8>, route: &Route| {
                    codec::route::delete(buffer, route, &existing)
                };
                send(&mut batches(&all, 0..all.len(), create)?)?;
                send(&mut batches(&all, order(all.len()), delete)?)
            }),
        ));
    }
    let work = |verb: &str, ways| Work {
        name: format!("{verb} multipath routes"),
        count: set.len(),
        ways,
    };
    vec![work("create", creates), work("delete", deletes)]
}

fn rules(family: Family, count: usize) -> Vec<Work> {
    let all: Vec<Rule> = (0..count as u32)
        .map(|at| Rule::new(family, 1_000 + at, RuleAction::Lookup(100)).with_protocol(116))
        .collect();
    let orders: [NamedOrder; 3] = [
        ("ascending", in_order),
        ("descending", |n| (0..n).rev().collect()),
        ("scattered", golden),
    ];
    let mut creates: Vec<Way> = Vec::new();
    let mut deletes: Vec<Way> = Vec::new();
    for (title, order) in orders {
        let (made, gone) = (all.clone(), all.clone());
        creates.push((
            title.to_owned(),
            Box::new(move || {
                prepared()?;
                send(&mut batches(&made, order(made.len()), codec::rule::create)?)
            }),
        ));
        deletes.push((
            title.to_owned(),
            Box::new(move || {
                prepared()?;
                let back = (0..gone.len()).rev();
                send(&mut batches(&gone, back, codec::rule::create)?)?;
                send(&mut batches(&gone, order(gone.len()), codec::rule::delete)?)
            }),
        ));
    }
    let work = |verb: &str, ways| Work { name: format!("{verb} rules {family}"), count, ways };
    vec![work("create", creates), work("delete", deletes)]
}

fn neighbours(family: Family, count: usize) -> Vec<Work> {
    let orders: [NamedOrder; 3] = [
        ("ascending", in_order),
        ("descending", |n| (0..n).rev().collect()),
        ("scattered", golden),
    ];
    let make = move || -> Result<Vec<Neighbour>> {
        let dev = Dev::index(prepared()?);
        let lladdr: trueup_net::LinkAddr = "02:00:00:00:00:09".parse()?;
        let all = (0..count)
            .map(|at| Neighbour::new(dev, gateway(family, at), lladdr).with_protocol(116));
        Ok(all.collect())
    };
    let create = |buffer: &mut Vec<u8>, neighbour: &Neighbour| {
        codec::neighbour::create(buffer, neighbour, &existing)
    };
    let delete = |buffer: &mut Vec<u8>, neighbour: &Neighbour| {
        codec::neighbour::delete(buffer, neighbour, &existing)
    };
    let mut creates: Vec<Way> = Vec::new();
    let mut deletes: Vec<Way> = Vec::new();
    for (title, order) in orders {
        creates.push((
            title.to_owned(),
            Box::new(move || {
                let all = make()?;
                send(&mut batches(&all, order(all.len()), create)?)
            }),
        ));
        deletes.push((
            title.to_owned(),
            Box::new(move || {
                let all = make()?;
                send(&mut batches(&all, 0..all.len(), create)?)?;
                send(&mut batches(&all, order(all.len()), delete)?)
            }),
        ));
    }
    let work = |verb: &str, ways| Work { name: format!("{verb} neighbours {family}"), count, ways };
    vec![work("create", creates), work("delete", deletes)]
}

/// Addresses on a link that is up, and on one that comes up after them.
fn addresses(family: Family, count: usize) -> Work {
    let all = move |index: u32| -> Vec<Address> {
        let dev = Dev::index(index);
        let address = |at: usize| {
            let (ip, len) = match family {
                Family::Inet => {
                    (IpAddr::V4(Ipv4Addr::from((20 << 24) + ((at as u32) << 8) + 1)), 24)
                }
                Family::Inet6 => {
                    let bits = (0xfd01_u128 << 112) + at as u128 + 1;
                    (IpAddr::V6(Ipv6Addr::from(bits)), 64)
                }
            };
            let network = IpNetwork::new(ip, len).ok()?;
            Some(Address::new(dev, network).with_protocol(116).with_flags(AddressFlags::default()))
        };
        (0..count).filter_map(address).collect()
    };
    let create = |buffer: &mut Vec<u8>, address: &Address| {
        codec::address::create(buffer, address, &existing)
    };
    let first = move |up: bool| -> Result<Taken> {
        quiet_netns();
        ip_batch(["link add v0 type veth peer name v1", "link set v1 up"]);
        let index = index_of("v0");
        let name = "v0".parse()?;
        let raise = Link::must_exist(name).with_index(index).with_up(true);
        let mut raise = batches(&[raise], 0..1, |buffer, link| {
            codec::link::change(buffer, link, None, &existing)
        })?;
        let mut adds = batches(&all(index), 0..count, create)?;
        let mut socket = Socket::open(&Namespace::current())?;
        if up {
            send_over(&mut socket, &mut raise)?;
            return send_over(&mut socket, &mut adds);
        }
        Ok(send_over(&mut socket, &mut adds)? + send_over(&mut socket, &mut raise)?)
    };
    Work {
        name: format!("create addresses {family}"),
        count,
        ways: vec![
            ("on a link that is up".to_owned(), Box::new(move || first(true))),
            ("before the link comes up".to_owned(), Box::new(move || first(false))),
        ],
    }
}

/// Links deleted one by one, and by a group that they are put into first, in the same batch.
fn links(count: usize) -> Work {
    let prepare = move || -> Result<Vec<u32>> {
        fresh_netns();
        let name = |at: usize| format!("b{at}").parse();
        let links: Vec<Link> = (0..count)
            .map(|at| {
                Ok(Link::new(name(at)?, LinkKind::Ifb).with_index(1_000 + at as u32).with_up(true))
            })
            .collect::<Result<_>>()?;
        let create =
            |buffer: &mut Vec<u8>, link: &Link| codec::link::create(buffer, link, 0, &existing);
        send(&mut batches(&links, 0..count, create)?)?;
        Ok((1_000..1_000 + count as u32).collect())
    };
    let one_by_one = move || {
        let indexes = prepare()?;
        let delete = |buffer: &mut Vec<u8>, index: &u32| codec::link::delete(buffer, *index);
        send(&mut batches(&indexes, 0..count, delete)?)
    };
    let by_group = move |together: usize| -> Result<Taken> {
        let indexes = prepare()?;
        let mut batches = Vec::new();
        for part in indexes.chunks(together) {
            let mut batch = Batch::new();
            for index in part {
                ensure!(
                    batch.push(|buffer| codec::link::set_group(buffer, *index, 77))? == Push::Added
                );
            }
            ensure!(batch.push(|buffer| codec::link::delete_group(buffer, 77))? == Push::Added);
            batches.push(batch);
        }
        send(&mut batches)
    };
    Work {
        name: format!("delete {count} links"),
        count,
        ways: vec![
            ("one by one".to_owned(), Box::new(one_by_one)),
            ("by group, 249 at once".to_owned(), Box::new(move || by_group(249))),
        ],
    }
}

/// What planning and carrying out cost by themselves, of routes in one length: there is no kernel.
fn own(count: usize) -> Work {
    let plan = move |creates: bool| -> Result<(Plan, Taken)> {
        let dev = Dev::index(2);
        let set: Vec<Prefix> = (0..count as u32).map(|at| v4((20 << 24) + (at << 8), 24)).collect();
        let there = made(&set, 64, 0).into_iter().map(|route| {
            let on = |hop: &NextHop| hop.clone().with_dev(dev);
            let hops = route
                .nexthops
                .as_slice()
                .first()
                .map_or(NextHops::None, |hop| NextHops::One(on(hop)));
            route.with_nexthops(hops)
        });
        let wanted = set.iter().enumerate().map(|(at, dst)| {
            Route::new(*dst, NextHops::One(NextHop::via(gateway(Family::Inet, at % 64))))
        });
        let (wanted, there): (Routes, Vec<_>) = match creates {
            true => (wanted.collect(), Vec::new()),
            false => (Routes::new(), there.collect()),
        };
        let desired = Desired::default().with_routes(wanted);
        let observed = Observed::default().with_routes(there).with_complete(Kinds::ALL);
        let owned = Owned::default();
        let resolved = resolve(&desired, &observed, &owned, 116)?;
        let (begin, used) = (Instant::now(), thread_time()?);
        let plan = plan_resolved(&resolved, &observed, &owned)?;
        let taken = Taken { wall: begin.elapsed(), processor: thread_time()?.saturating_sub(used) };
        Ok((plan, taken))
    };
    let carry_out = move |creates: bool| -> Result<Taken> {
        let (plan, _) = plan(creates)?;
        let mut socket = Socket::open(&Namespace::through(Arc::new(Nobody)))?;
        let (begin, used) = (Instant::now(), thread_time()?);
        let done = apply(&plan, &mut socket, &BTreeMap::new(), &|| true);
        let taken = Taken { wall: begin.elapsed(), processor: thread_time()?.saturating_sub(used) };
        ensure!(done.outcomes.iter().all(|outcome| outcome.is_applied()));
        Ok(taken)
    };
    Work {
        name: "plan and apply, without a kernel".to_owned(),
        count,
        ways: vec![
            ("plan creates".to_owned(), Box::new(move || Ok(plan(true)?.1))),
            ("plan deletes".to_owned(), Box::new(move || Ok(plan(false)?.1))),
            ("carry creates out".to_owned(), Box::new(move || carry_out(true))),
            ("carry deletes out".to_owned(), Box::new(move || carry_out(false))),
        ],
    }
}

/// The other end acknowledges the last message of whatever comes.
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

//! A node's agent: many namespaces kept in their declared state by one process, on a few threads.
//! What each costs at rest, in memory, descriptors and processor time; how long what another writer
//! deletes in any of them is gone, alone and while one namespace is flooded; and what becomes of
//! namespaces that are deleted and made anew under their names meanwhile. In turn with it a plain
//! thread restores a route of one more namespace: the floor.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use trueup_benches::usage::{measure, memory};
use trueup_benches::writer::{Verb, encode};
use trueup_loop::{Config, Error, Fleet, Handle, Loop};
use trueup_net::{
    Address, Desired, IfName, Link, LinkKind, NextHop, NextHops, Object, Route, Scope, VethAttrs,
};
use trueup_netlink::{Group, Multicast, Namespace, Socket, codec};
use trueup_rtnl::{DEFAULT_PROTOCOL, MemoryLedger, Options, Rtnl};

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    xflags::xflags! {
        /// Measures a fleet of loops, each in a network namespace of its own.
        cmd fleet {
            /// How many namespaces; 1,000 by default.
            optional --namespaces count: usize
            /// How many threads; 2 by default.
            optional --threads count: usize
            /// How many routes in each; 10 by default.
            optional --routes count: u8
            /// How many samples of each latency; 200 by default.
            optional --samples count: usize
            /// How many namespaces are deleted and made anew; 100 by default.
            optional --anew count: usize
            /// How long the rest is, in seconds; 20 by default.
            optional --rest seconds: u64
        }
    }
}

/// No wait is longer.
const BOUND: Duration = Duration::from_secs(120);
/// Where names of namespaces are.
const NAMED: &str = "/run/netns";

fn main() -> Result<()> {
    // Before the arguments are read: the kernel wants a process without threads.
    trueup_testkit::enter()?;
    let flags = flags::Fleet::from_env_or_exit();
    let count = flags.namespaces.unwrap_or(1_000);
    let threads = NonZeroUsize::new(flags.threads.unwrap_or(2)).context("one thread at least")?;
    let routes = flags.routes.unwrap_or(10);
    let samples = flags.samples.unwrap_or(200);
    let anew = flags.anew.unwrap_or(100).min(count / 2);
    fs::create_dir_all(NAMED)?;
    (0..count).try_for_each(make)?;
    println!("{count} namespaces of {routes} routes each, {threads} threads");

    let resident = memory("VmRSS")?;
    let agent = Arc::new(Agent::new(threads, routes)?);
    let begin = Instant::now();
    (0..count).try_for_each(|at| agent.add(at))?;
    agent.wait_converged(0..count)?;
    println!("all in their declared state after {:.2} s", begin.elapsed().as_secs_f64());
    thread::sleep(Duration::from_secs(1));
    let each = (memory("VmRSS")? - resident) * 1e3 / count as f64;
    let descriptors = fs::read_dir("/proc/self/fd")?.count();
    println!("at rest {each:.0} KB and {:.1} descriptors each", descriptors as f64 / count as f64);
    let rest = Duration::from_secs(flags.rest.unwrap_or(20));
    let ((), used) = measure(|| thread::sleep(rest))?;
    println!("{:.3} % of a core at rest", 100.0 * (used.user + used.system) / used.wall);

    let floor = Floor::start(&agent, count)?;
    rows("all at rest", agent.restored(0, &floor, samples)?);
    let stop = Arc::new(AtomicBool::new(false));
    let flood = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || flood(&stop))
    };
    let restored = agent.restored(1, &floor, samples)?;
    rows("while the first is flooded", restored);
    stop.store(true, Ordering::Relaxed);
    let flooded = flood.join().map_err(|_| anyhow::anyhow!("the flood panicked"))??;
    println!("{flooded} changes of the flood");

    for at in count - anew..count {
        remove(at)?;
        make(at)?;
        // As an agent that learns of it: the pass finds another namespace, and the loop ends.
        agent.handle(at)?.hint()?;
    }
    for _ in 0..anew {
        let (at, ended) =
            agent.ends.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(BOUND)?;
        ensure!(ended.is_err_and(|error| error.is_scope_ended()), "{at} ended otherwise");
        agent.add(at)?;
    }
    agent.wait_converged(count - anew..count)?;
    let restored = agent.restored(2, &floor, samples)?;
    rows("after some were made anew", restored);
    agent.fleet.stop(BOUND)?;
    Ok(())
}

struct Agent {
    fleet: Fleet,
    routes: u8,
    handles: Mutex<Vec<Option<Handle<Rtnl>>>>,
    end: Sender<(usize, Result<(), Error>)>,
    ends: Mutex<Receiver<(usize, Result<(), Error>)>>,
}

impl Agent {
    fn new(threads: NonZeroUsize, routes: u8) -> Result<Agent> {
        let (end, ends) = channel();
        Ok(Agent {
            fleet: Fleet::new(threads)?,
            routes,
            handles: Mutex::default(),
            end,
            ends: Mutex::new(ends),
        })
    }

    fn add(&self, at: usize) -> Result<()> {
        let namespace = Namespace::named(name(at))?;
        let config = Config::default().with_interval(Duration::from_secs(3_600));
        let (ledger, options) = (MemoryLedger::default(), Options::default());
        let desired = desired(self.routes)?;
        let it = Loop::new(Rtnl::new(), namespace, desired, ledger, options, config);
        let end = self.end.clone();
        let handle = self.fleet.add(it, move |ended| drop(end.send((at, ended))))?;
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let len = handles.len().max(at + 1);
        handles.resize(len, None);
        handles[at] = Some(handle);
        Ok(())
    }

    fn handle(&self, at: usize) -> Result<Handle<Rtnl>> {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.get(at).cloned().flatten().context("no such loop")
    }

    fn wait_converged(&self, all: std::ops::Range<usize>) -> Result<()> {
        for at in all {
            let handle = self.handle(at)?;
            handle
                .wait_converged(handle.stats().desired, BOUND)
                .with_context(|| format!("{}: {:?}", name(at), handle.last_error()))?;
        }
        Ok(())
    }

    /// How long a route is gone that another writer deletes, in one namespace after the other, less
    /// the debounce; and on the floor, in turn. In each round it is another route: one that is
    /// deleted over and over is left alone for a time.
    fn restored(&self, round: usize, floor: &Floor, samples: usize) -> Result<[Vec<Duration>; 2]> {
        let mut all = [Vec::new(), Vec::new()];
        for sample in 0..samples {
            // Not in the first one, in an order that is no order.
            let at = 1 + sample * 7_919 % (floor.namespace - 1);
            let route = u8::try_from((sample + round) % usize::from(self.routes))?;
            all[0].push(restored(at, route)?);
            all[1].push(restored(floor.namespace, 0)?);
        }
        all.iter_mut().for_each(|it| it.sort_unstable());
        Ok(all)
    }
}

/// How long a route is gone after its delete, less the debounce.
fn restored(at: usize, route: u8) -> Result<Duration> {
    let namespace = Namespace::named(name(at))?.open()?;
    let mut delete = Vec::new();
    encode(&mut delete, Verb::Delete, &object(route)?)?;
    let mut listener = Multicast::open(&namespace, &[Group::IPV4_ROUTE])?;
    let mut socket = Socket::open(&namespace)?;
    let begin = Instant::now();
    socket.request(&delete)?;
    let mut there = None;
    while there.is_none() {
        let is_late = begin.elapsed() >= BOUND;
        ensure!(!is_late, "{}: it does not come back", name(at));
        listener.receive(Duration::from_secs(1), |event| {
            if event.header.kind == codec::route::NEW {
                there = there.or(Some(begin.elapsed()));
            }
        })?;
    }
    let gone = there.unwrap_or_default();
    Ok(gone.saturating_sub(Config::default().debounce()))
}

/// A plain thread that hears of the end of one route, waits for the debounce, and makes it again.
struct Floor {
    namespace: usize,
}

impl Floor {
    /// Has the agent make a namespace, and then leave it to the thread.
    fn start(agent: &Agent, namespace: usize) -> Result<Floor> {
        make(namespace)?;
        agent.add(namespace)?;
        agent.wait_converged(namespace..namespace + 1)?;
        let handle = agent.handle(namespace)?;
        handle.stop();
        handle.wait_ended(BOUND)?;
        let ends = agent.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.recv_timeout(BOUND)?.1?;
        let opened = Namespace::named(name(namespace))?.open()?;
        let mut listener = Multicast::open(&opened, &[Group::IPV4_ROUTE])?;
        let mut socket = Socket::open(&opened)?;
        let mut create = Vec::new();
        encode(&mut create, Verb::Create, &object(0)?)?;
        let mut keep = move || -> Result<()> {
            loop {
                let mut is_gone = false;
                listener.receive(Duration::from_secs(1), |event| {
                    is_gone |= event.header.kind == codec::route::DELETE;
                })?;
                if is_gone {
                    thread::sleep(Config::default().debounce());
                    socket.request(&create)?;
                }
            }
        };
        thread::spawn(move || {
            if let Err(error) = keep() {
                eprintln!("the floor: {error:#}");
            }
        });
        Ok(Floor { namespace })
    }
}

fn name(at: usize) -> String {
    format!("pod{at}")
}

fn path(at: usize) -> PathBuf {
    PathBuf::from(NAMED).join(name(at))
}

/// Makes a namespace, as `ip netns add` does.
fn make(at: usize) -> Result<()> {
    let path = path(at);
    fs::write(&path, "")?;
    let made = thread::spawn(move || {
        trueup_testkit::quiet_netns();
        mount_bind("/proc/thread-self/ns/net", &path)
    });
    made.join().map_err(|_| anyhow::anyhow!("no namespace"))??;
    Ok(())
}

fn remove(at: usize) -> Result<()> {
    unmount(path(at), UnmountFlags::DETACH)?;
    Ok(fs::remove_file(path(at))?)
}

fn desired(routes: u8) -> Result<Desired> {
    let (inside, outside): (IfName, IfName) = ("eth0".parse()?, "far0".parse()?);
    let end = |name, peer| {
        let attrs = VethAttrs::default().with_peer(peer);
        Link::new(name, LinkKind::Veth(attrs)).with_up(true)
    };
    let routes: Result<Vec<Route<IfName>>> = (0..routes).map(route).collect();
    Ok(Desired::default()
        .with_links([end(inside, outside), end(outside, inside)])
        .with_addresses([Address::new(inside, "10.0.0.2/24".parse()?)])
        .with_routes(routes?))
}

fn route<D>(at: u8) -> Result<Route<D>> {
    let via = NextHops::One(NextHop::via("10.0.0.1".parse()?));
    Ok(Route::new(format!("10.1.{at}.0/24").parse()?, via))
}

/// The same as the kernel has it.
fn object(at: u8) -> Result<Object> {
    let mut route = route(at)?;
    route.protocol = DEFAULT_PROTOCOL;
    route.scope = Some(Scope::UNIVERSE);
    Ok(Object::Route(route))
}

/// Another writer deletes and makes a route of the first namespace as fast as the kernel lets it.
/// Returns how often.
fn flood(stop: &AtomicBool) -> Result<u64> {
    let namespace = Namespace::named(name(0))?.open()?;
    let mut socket = Socket::open(&namespace)?;
    let object = object(0)?;
    let (mut delete, mut create) = (Vec::new(), Vec::new());
    encode(&mut delete, Verb::Delete, &object)?;
    encode(&mut create, Verb::Create, &object)?;
    let mut changes = 0;
    while !stop.load(Ordering::Relaxed) {
        // The agent is at it as well, so either may come too late.
        let _ = socket.request(&delete);
        let _ = socket.request(&create);
        changes += 2;
    }
    Ok(changes)
}

fn rows(what: &str, [agent, floor]: [Vec<Duration>; 2]) {
    let part = |all: &[Duration], share: usize| {
        let at = (all.len() * share / 100).min(all.len().saturating_sub(1));
        all.get(at).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    println!(
        "restored, above the debounce, ms: median {:.2}, 99th percentile {:.2}; the floor {:.2}, \
         {:.2}; {what}",
        part(&agent, 50),
        part(&agent, 99),
        part(&floor, 50),
        part(&floor, 99)
    );
}

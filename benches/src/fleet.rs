//! A node's agent: one process with a few threads keeps many namespaces in their declared state. It
//! measures each namespace's cost at rest: memory, descriptors and processor time. It measures how
//! long a route is gone after another writer's delete, alone and while one namespace is flooded. It
//! also checks namespaces that are deleted and recreated under their names meanwhile. In turn with
//! it a plain thread restores a route of one more namespace: the floor.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use trueup_loop::{Config, Error, Handle, Runner};
use trueup_net::{
    Address, Desired, IfName, Link, LinkKind, NextHop, NextHops, Object, Route, Scope,
};
use trueup_netlink::{Group, Multicast, Namespace, Socket, codec};
use trueup_rtnl::{DEFAULT_PROTOCOL, Rtnl};
use trueup_works::clock::resident;

use crate::kept::looped;
use crate::latency::gone;
use crate::usage::{Times, measure};
use crate::writer::{Verb, message};

/// Measures a runner of many loops, each in a network namespace of its own.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many namespaces.
    #[arg(long, default_value_t = 1_000)]
    namespaces: usize,
    /// How many threads.
    #[arg(long, default_value = "2")]
    threads: NonZeroUsize,
    /// How many routes in each.
    #[arg(long, default_value_t = 10)]
    routes: u8,
    /// How many samples of each latency.
    #[arg(long, default_value_t = 200)]
    samples: usize,
    /// How many namespaces are deleted and made anew.
    #[arg(long, default_value_t = 100)]
    anew: usize,
    /// How long the rest is, in seconds.
    #[arg(long, default_value_t = 20)]
    rest: u64,
}

/// The time limit of every wait.
const BOUND: Duration = Duration::from_secs(120);
/// The directory of named namespaces.
const NAMED: &str = "/run/netns";

pub(crate) fn main(options: &Options) -> Result<()> {
    trueup_testkit::enter()?;
    let Options { namespaces: count, threads, routes, samples, .. } = *options;
    let anew = options.anew.min(count / 2);
    fs::create_dir_all(NAMED)?;
    (0..count).try_for_each(make)?;
    println!("{count} namespaces of {routes} routes each, {threads} threads");

    let own = std::process::id();
    let before = resident(own, "VmRSS")?;
    let (end, ends) = channel();
    let (runner, handles) = (Runner::start("fleet", threads)?, Vec::new());
    let mut agent = Agent { runner, routes, handles, end, ends };
    let begin = Instant::now();
    (0..count).try_for_each(|at| agent.add(at))?;
    agent.wait_converged(0..count)?;
    println!("all in their declared state after {:.2} s", begin.elapsed().as_secs_f64());
    thread::sleep(Duration::from_secs(1));
    let each = (resident(own, "VmRSS")? - before) as f64 * 1.024 / count as f64;
    let descriptors = fs::read_dir("/proc/self/fd")?.count();
    println!("at rest {each:.0} KB and {:.1} descriptors each", descriptors as f64 / count as f64);
    let ((), used) = measure(|| thread::sleep(Duration::from_secs(options.rest)))?;
    println!("{:.3} % of a core at rest", 100.0 * used.processor / used.wall);

    agent.start_floor(count)?;
    agent.restored("all at rest", 0, count, samples)?;
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = Arc::clone(&stop);
    let flood = thread::spawn(move || flood(&is_stopped));
    agent.restored("while the first is flooded", 1, count, samples)?;
    stop.store(true, Ordering::Relaxed);
    let flooded = flood.join().map_err(|_| anyhow!("the flood panicked"))??;
    println!("{flooded} changes of the flood");

    for at in count - anew..count {
        unmount(path(at), UnmountFlags::DETACH)?;
        fs::remove_file(path(at))?;
        make(at)?;
        // As an agent that learns of the deletion does: the pass finds another namespace, and the
        // loop ends.
        agent.handles[at].hint()?;
    }
    for _ in 0..anew {
        let (at, ended) = agent.ends.recv_timeout(BOUND)?;
        ensure!(ended.is_err_and(|error| error.is_scope_ended()), "{at} ended otherwise");
        agent.add(at)?;
    }
    agent.wait_converged(count - anew..count)?;
    agent.restored("after some were made anew", 2, count, samples)?;
    agent.runner.stop(BOUND)?;
    Ok(())
}

struct Agent {
    runner: Runner,
    routes: u8,
    handles: Vec<Handle<Rtnl>>,
    end: Sender<(usize, Result<(), Error>)>,
    ends: Receiver<(usize, Result<(), Error>)>,
}

impl Agent {
    /// Adds a namespace to the agent: the next one, or one that it kept before.
    fn add(&mut self, at: usize) -> Result<()> {
        let config = Config::default().with_interval(Duration::from_secs(3_600));
        let looped = looped(Namespace::named(name(at))?, desired(self.routes)?, config);
        let end = self.end.clone();
        let handle = self.runner.add(looped, move |ended| drop(end.send((at, ended))))?;
        match self.handles.get_mut(at) {
            Some(known) => *known = handle,
            None => self.handles.push(handle),
        }
        Ok(())
    }

    fn wait_converged(&self, all: Range<usize>) -> Result<()> {
        for (at, handle) in self.handles.iter().enumerate().skip(all.start).take(all.len()) {
            let done = handle.wait_converged(handle.stats().desired, BOUND);
            done.with_context(|| format!("{}: {:?}", name(at), handle.last_error()))?;
        }
        Ok(())
    }

    /// Prints how long a route is gone after another writer's delete, in one namespace after the
    /// other, less the debounce; and on the floor, in turn. Each round has another route, as one
    /// that is deleted repeatedly is left alone for a time.
    fn restored(&self, what: &str, round: usize, floor: usize, samples: usize) -> Result<()> {
        let mut all = [Vec::new(), Vec::new()];
        for sample in 0..samples {
            // Not in the first one, in a scattered order.
            let at = 1 + sample * 7_919 % (floor - 1);
            let route = u8::try_from((sample + round) % usize::from(self.routes))?;
            all[0].push(restored(at, route)?);
            all[1].push(restored(floor, 0)?);
        }
        let [[median, slow], floor] = all.map(|times| Times::of(times).parts(1e-3));
        println!(
            "restored, above the debounce, ms: median {median:.2}, 99th percentile {slow:.2}; the floor \
             {:.2}, {:.2}; {what}",
            floor[0], floor[1]
        );
        Ok(())
    }

    /// Lets the agent set up a namespace, then hands it to a plain thread. The thread hears that a
    /// route was deleted, waits for the debounce, and makes the route again.
    fn start_floor(&mut self, namespace: usize) -> Result<()> {
        make(namespace)?;
        self.add(namespace)?;
        self.wait_converged(namespace..namespace + 1)?;
        let handle = &self.handles[namespace];
        handle.stop();
        handle.wait_ended(BOUND)?;
        self.ends.recv_timeout(BOUND)?.1?;
        let opened = Namespace::named(name(namespace))?.open()?;
        let mut listener = Multicast::open(&opened, &[Group::IPV4_ROUTE])?;
        let mut socket = Socket::open(&opened)?;
        let create = message(Verb::Create, &object(0)?)?;
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
        thread::spawn(move || keep().map_err(|error| eprintln!("the floor: {error:#}")));
        Ok(())
    }
}

/// Returns how long a route is gone after its delete, less the debounce.
fn restored(at: usize, route: u8) -> Result<Duration> {
    let namespace = Namespace::named(name(at))?.open()?;
    let mut socket = Socket::open(&namespace)?;
    let gone = gone(&namespace, &mut socket, &object(route)?, BOUND).with_context(|| name(at))?;
    Ok(gone.there.saturating_sub(Config::default().debounce()))
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
    Ok(made.join().map_err(|_| anyhow!("no namespace"))??)
}

fn desired(routes: u8) -> Result<Desired> {
    let (inside, outside): (IfName, IfName) = ("eth0".parse()?, "far0".parse()?);
    let ends = [(inside, outside), (outside, inside)]
        .map(|(name, peer)| Link::new(name, LinkKind::veth(peer)).with_up(true));
    let routes: Result<Vec<Route<IfName>>> = (0..routes).map(route).collect();
    Ok(Desired::default()
        .with_links(ends)
        .with_addresses([Address::new(inside, "10.0.0.2/24".parse()?)])
        .with_routes(routes?))
}

fn route<D>(at: u8) -> Result<Route<D>> {
    let via = NextHops::One(NextHop::via("10.0.0.1".parse()?));
    Ok(Route::new(format!("10.1.{at}.0/24").parse()?, via))
}

/// Returns the same route as the kernel has it.
fn object(at: u8) -> Result<Object> {
    let mut route = route(at)?.with_protocol(DEFAULT_PROTOCOL);
    route.scope = Some(Scope::UNIVERSE);
    Ok(Object::Route(route))
}

/// Deletes and makes a route of the first namespace, as another writer, as fast as the kernel
/// permits. Returns the number of rounds.
fn flood(stop: &AtomicBool) -> Result<u64> {
    let mut socket = Socket::open(&Namespace::named(name(0))?.open()?)?;
    let object = object(0)?;
    let (delete, create) = (message(Verb::Delete, &object)?, message(Verb::Create, &object)?);
    let mut changes = 0;
    while !stop.load(Ordering::Relaxed) {
        // The agent acts as well, so either may come too late.
        let _ = socket.request(&delete);
        let _ = socket.request(&create);
        changes += 2;
    }
    Ok(changes)
}

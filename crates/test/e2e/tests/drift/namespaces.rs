//! Ten namespaces and one process. Each namespace is made, deleted and made again with the same
//! name, at random.
//!
//! Each generation of a namespace has its own declared routes and its own loop. The loop ends by
//! itself once its namespace is gone; no process stops it. It may still run when the next
//! generation exists: a write by it would then be in the wrong namespace.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use trueup_loop::Config;
use trueup_net::{Desired, Prefix, Route, RouteType, Routes};
use trueup_rtnl::{Namespace, Rtnl};
use trueup_testkit::{Kind, ip, is_long, raw_dump};

use crate::agent::{Agent, until};
use crate::alone;
use crate::other_writer::OURS;

const NAMES: u8 = 10;

pub(crate) fn what_is_of_one_never_lands_in_its_successor() {
    alone::run("namespaces");
}

#[derive(Default)]
struct Slot {
    generation: u16,
    is_there: bool,
    /// The last one belongs to the current generation; the others have not yet noticed that their
    /// namespaces are gone.
    agents: Vec<Agent>,
}

/// Runs in a separate process.
pub(crate) fn run() {
    let mut slots: [Slot; NAMES as usize] = Default::default();
    // Count before any thread starts: a joined thread is listed a moment longer.
    let before = (descriptors(), threads().len());

    let lasts = Duration::from_secs(if is_long() { 60 } else { 6 });
    let begin = Instant::now();
    let mut numbers = Numbers(116);
    while begin.elapsed() < lasts {
        let at = numbers.below(NAMES.into()) as u8;
        let slot = &mut slots[usize::from(at)];
        match (slot.is_there, numbers.below(4)) {
            (false, _) => create(at, slot),
            (true, 0) => destroy(at, slot),
            (true, 1) => {
                destroy(at, slot);
                create(at, slot);
            }
            // Another writer deletes something, so that there is something to write.
            (true, _) => {
                let dst = routes(at, slot.generation)[0].to_string();
                let name = name(at);
                // The route may be gone already, or not exist yet.
                let words = ["-netns", &name, "route", "del", "blackhole", &dst];
                let _tried = Command::new("ip").args(words).output().unwrap();
            }
        }
        if slot.is_there {
            let (found, own) = (found(at), wanted(at, slot.generation));
            assert!(found.is_subset(&own), "{}: {found:?}, not of {own:?}", name(at));
        }
        nobody_is_elsewhere("agent");
    }

    for (at, slot) in (0..).zip(&mut slots) {
        let keep = usize::from(slot.is_there);
        ended(slot, keep);
        if slot.is_there {
            let own = wanted(at, slot.generation);
            until("each is as it was declared", || found(at) == own);
            destroy(at, slot);
            ended(slot, 0);
        }
    }
    let generations: u16 = slots.iter().map(|slot| slot.generation).sum();
    eprintln!("namespaces: {generations} of them in {lasts:?}");
    until("no descriptor is left", || descriptors() == before.0);
    until("no thread is left", || threads().len() == before.1);
    nobody_is_elsewhere("");
}

fn name(at: u8) -> String {
    format!("drift{at}")
}

/// Returns the routes unique to a generation.
fn routes(at: u8, generation: u16) -> [Prefix; 3] {
    let [high, low] = generation.to_be_bytes();
    let v4 = |first: u8| Prefix::host(Ipv4Addr::new(first, at, high, low).into());
    let v6 = Ipv6Addr::new(0x2001, 0xdb8, at.into(), generation, 0, 0, 0, 1);
    [v4(20), v4(21), Prefix::host(v6.into())]
}

fn wanted(at: u8, generation: u16) -> BTreeSet<Vec<u8>> {
    routes(at, generation).iter().map(|dst| bytes(*dst)).collect()
}

fn bytes(dst: Prefix) -> Vec<u8> {
    match dst.address() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Returns the destinations of the routes with our marker in a namespace.
fn found(at: u8) -> BTreeSet<Vec<u8>> {
    let there = Namespace::named(name(at)).unwrap();
    let rows = there.enter(|| [2, 10].map(|family| raw_dump(Kind::Route, family)));
    let rows = rows.unwrap().into_iter().flatten();
    let ours = rows.filter(|row| row.protocol() == Some(OURS));
    // RTA_DST
    ours.map(|row| row.attrs[&1].clone()).collect()
}

fn create(at: u8, slot: &mut Slot) {
    let name = name(at);
    ip(&["netns", "add", &name]);
    ip(&["-netns", &name, "link", "set", "lo", "up"]);
    slot.generation += 1;
    slot.is_there = true;
    let of_type = |dst: &Prefix| Route::of_type(RouteType::Blackhole, *dst);
    let desired = Desired::default()
        .with_routes(routes(at, slot.generation).iter().map(of_type).collect::<Routes>());
    let config = Config::default()
        .with_interval(Duration::from_millis(150))
        .with_debounce(Duration::from_millis(10));
    let scope = Namespace::named(name).unwrap();
    let agent = Agent::start(Rtnl::new(), scope, desired, config);
    // From now on the agent is bound to this namespace. Until then, its caller must ensure that it
    // is the right one.
    until("it listens", || {
        let subscribed = agent.handle().subscribed();
        subscribed.is_some_and(|subscribed| subscribed.is_active())
    });
    slot.agents.push(agent);
}

fn destroy(at: u8, slot: &mut Slot) {
    ip(&["netns", "delete", &name(at)]);
    slot.is_there = false;
}

/// Waits until all agents except the last `but` have ended, as their namespaces have.
fn ended(slot: &mut Slot, but: usize) {
    let last = slot.agents.len() - but;
    for agent in slot.agents.drain(..last) {
        agent.ends_with_its_scope();
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the threads of this process: name and network namespace.
fn threads() -> Vec<(String, String)> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let task = |task: std::io::Result<fs::DirEntry>| {
        let path = task.ok()?.path();
        // The thread may have ended meanwhile. Read the namespace first: a new thread has its
        // parent's name until it sets its own, and enters a namespace only then.
        let net = fs::read_link(path.join("ns/net")).ok()?;
        let name = fs::read_to_string(path.join("comm")).ok()?;
        Some((name.trim().to_owned(), net.to_string_lossy().into_owned()))
    };
    tasks.filter_map(task).collect()
}

/// Checks that no thread whose name begins with `name` is in another namespace.
fn nobody_is_elsewhere(name: &str) {
    let here = fs::read_link("/proc/thread-self/ns/net").unwrap();
    let here = here.to_string_lossy();
    for (thread, net) in threads() {
        assert!(!thread.starts_with(name) || net == here, "{thread} is in {net}");
    }
}

/// Numbers without a pattern, the same each time (Knuth's 64-bit linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % below
    }
}

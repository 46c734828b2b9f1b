//! How long what another writer deletes is gone: from the return of his delete to the moment at
//! which a listener of its own sees that it is there again. Beside it, in the same namespace and
//! run, what the kernel itself takes for one add.
//!
//! The loop runs on a thread of its own, converged and at rest before each sample. The kernel tells
//! of a delete before it returns from it, and of some it has much to do afterwards: then the object
//! may be there again by the time that the other writer knows that it is gone, which counts as no
//! time at all. So it is measured from his asking as well.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_benches::crowd::{self, KINDS};
use trueup_benches::writer::{self, Verb, encode};
use trueup_loop::{Config, Handle, Loop, Running};
use trueup_net::{Family, Neighbour, NeighbourState, Object};
use trueup_netlink::wire::Message;
use trueup_netlink::{Group, Multicast, Namespace, Socket, codec};
use trueup_rtnl::{DEFAULT_PROTOCOL, MemoryLedger, Options, Rtnl};

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    xflags::xflags! {
        /// Measures how long what another writer deletes is gone.
        cmd latency {
            /// How many of each kind and family are deleted, one after the other; 200 by default.
            optional --samples samples: u32
            /// How many routes are ours; 1,000 by default.
            optional --managed routes: u32
            /// How many are not; 100,000 by default.
            optional --foreign routes: u32
        }
    }
}

/// No wait is longer.
const BOUND: Duration = Duration::from_secs(30);
/// For so long nothing happens before a sample, so that the loop is at rest.
const REST: Duration = Duration::from_millis(20);

fn main() -> Result<()> {
    // Before the arguments are read: the kernel wants a process without threads.
    trueup_testkit::enter()?;
    let flags = flags::Latency::from_env_or_exit();
    let samples = flags.samples.unwrap_or(200);
    let managed = flags.managed.unwrap_or(1_000).max(2 * samples);
    let foreign = flags.foreign.unwrap_or(100_000);
    trueup_testkit::quiet_netns();
    crowd::make_links();
    writer::create(&crowd::foreign_routes(foreign))?;
    println!(
        "{managed} routes of ours, {} addresses, neighbours and rules each, among {foreign} foreign \
         routes, half of all IPv6; {samples} samples of each kind and family",
        2 * samples
    );
    let config = Config::default();
    for config in [config.with_debounce(Duration::ZERO), config] {
        let running = start(managed, 2 * samples, config)?;
        let objects = crowd::ours(2 * samples, DEFAULT_PROTOCOL)?;
        for (kind, objects) in KINDS.iter().zip(&objects) {
            for family in [Family::Inet, Family::Inet6] {
                let of_family = |object: &&Object| family_of(object) == Some(family);
                let objects: Vec<_> = objects.iter().filter(of_family).collect();
                let adds = bare(running.handle(), &objects)?;
                let gone = restored(running.handle(), &objects)?;
                row(&format!("{kind} {}", family.name()), config.debounce(), &gone, &adds);
            }
        }
        let stats = running.handle().stats();
        println!(
            "  {} whole passes, {} others, {} hints",
            stats.full_passes, stats.dirty_passes, stats.hints
        );
        running.stop(BOUND)?;
    }
    Ok(())
}

fn start(managed: u32, others: u32, config: Config) -> Result<Running<Rtnl>> {
    let desired = crowd::desired(managed, others)?;
    let (here, options) = (Namespace::current(), Options::default());
    let ledger = MemoryLedger::default();
    let it = Loop::new(Rtnl::new(), here, desired, ledger, options, config);
    let running = it.spawn("loop")?;
    let handle = running.handle();
    handle.wait_converged(handle.stats().desired, BOUND)?;
    Ok(running)
}

/// What an add takes alone: the loop is paused, and the message is sent as the loop would.
fn bare(handle: &Handle<Rtnl>, objects: &[&Object]) -> Result<Vec<Duration>> {
    handle.pause(BOUND)?;
    let mut socket = Socket::open(&Namespace::current())?;
    let mut all = Vec::new();
    for object in objects {
        socket.request(&message(Verb::Delete, object)?)?;
        let request = message(Verb::Create, object)?;
        let begin = Instant::now();
        socket.request(&request)?;
        all.push(begin.elapsed());
    }
    handle.resume()?;
    handle.wait_converged(handle.stats().desired, BOUND)?;
    all.sort_unstable();
    Ok(all)
}

/// For how long each was gone.
struct Gone {
    /// From the other writer's asking.
    asked: Vec<Duration>,
    /// From the return of his delete.
    returned: Vec<Duration>,
}

fn restored(handle: &Handle<Rtnl>, objects: &[&Object]) -> Result<Gone> {
    let mut socket = Socket::open(&Namespace::current())?;
    let (mut asked, mut returned) = (Vec::new(), Vec::new());
    for object in objects {
        handle.wait_converged(handle.stats().desired, BOUND)?;
        thread::sleep(REST);
        let mut listener = Multicast::open(&Namespace::current(), &Group::OBJECTS)?;
        let delete = message(Verb::Delete, object)?;
        let begin = Instant::now();
        socket.request(&delete)?;
        let deleted = begin.elapsed();
        let mut there = None;
        while there.is_none() {
            ensure!(begin.elapsed() < BOUND, "it does not come back: {object:?}");
            // What came while the delete was under way is announced now, and so counts as of now.
            listener.receive(Duration::from_secs(1), |event| {
                if is_new(&event, object) {
                    there = there.or(Some(begin.elapsed()));
                }
            })?;
        }
        let there = there.unwrap_or_default();
        asked.push(there);
        returned.push(there.saturating_sub(deleted));
    }
    asked.sort_unstable();
    returned.sort_unstable();
    Ok(Gone { asked, returned })
}

fn family_of(object: &Object) -> Option<Family> {
    match object {
        Object::Route(route) => Some(route.family()),
        Object::Address(address) => Some(address.family()),
        Object::Neighbour(neighbour) => Some(neighbour.family()),
        Object::Rule(rule) => Some(rule.family),
        _ => None,
    }
}

fn message(verb: Verb, object: &Object) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    encode(&mut buffer, verb, object)?;
    Ok(buffer)
}

/// Returns true if an event says that there is such an object, and that it is ours.
fn is_new(event: &Message<'_>, object: &Object) -> bool {
    let body = event.body;
    let there = match event.header.kind {
        codec::route::NEW => codec::route::decode(body).ok().flatten().map(Object::Route),
        codec::address::NEW => {
            let decoded = codec::address::decode(body).ok().flatten();
            decoded.map(Object::Address)
        }
        codec::neighbour::NEW => {
            let decoded = codec::neighbour::decode(body).ok().flatten();
            // One that is about to go is announced once more, as failed.
            let stands = |it: &Neighbour| it.state == NeighbourState::Permanent;
            decoded.filter(stands).map(Object::Neighbour)
        }
        codec::rule::NEW => {
            let decoded = codec::rule::decode(body).ok().flatten();
            decoded.map(|rule| Object::Rule(Box::new(rule)))
        }
        _ => None,
    };
    there.is_some_and(|there| there.key() == object.key())
}

fn row(kind: &str, debounce: Duration, gone: &Gone, adds: &[Duration]) {
    let micros = |at: Duration| at.as_secs_f64() * 1e6;
    let part = |all: &[Duration], share: usize| {
        let at = (all.len() * share / 100).min(all.len().saturating_sub(1));
        micros(all.get(at).copied().unwrap_or_default())
    };
    let both = |all: &[Duration]| {
        let above = part(all, 50) - micros(debounce);
        format!("{above:7.0} {:7.0}", part(all, 99) - micros(debounce))
    };
    let add = part(adds, 50);
    println!(
        "{kind:15} debounce {:3} ms; above it, us, median and 99th percentile: from the delete's return {}, from \
         the asking {}; {:6.1} times the {add:5.0} us of an add alone",
        debounce.as_millis(),
        both(&gone.returned),
        both(&gone.asked),
        (part(&gone.returned, 50) - micros(debounce)) / add,
    );
}

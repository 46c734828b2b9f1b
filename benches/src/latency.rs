//! How long an object is gone that another writer deletes: from the return of the delete to the
//! moment at which a separate listener sees the object again. Beside it, in the same namespace and
//! run, the kernel's time for one add.
//!
//! The loop runs on its own thread, converged and at rest before each sample. The kernel announces
//! a delete before the delete returns, and may have much to do in between. The object may then be
//! back by the time that the other writer knows of its deletion, which counts as zero. So the time
//! is also measured from the writer's request.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_loop::{Config, Handle};
use trueup_net::{NeighbourState, Object};
use trueup_netlink::wire::Message;
use trueup_netlink::{Group, Multicast, Namespace, Socket, codec};
use trueup_rtnl::{DEFAULT_PROTOCOL, Rtnl};

use crate::crowd::{self, KINDS};
use crate::kept::looped;
use crate::usage::Times;
use crate::writer::{Verb, message};

/// Measures how long what another writer deletes is gone.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many of each kind and family are deleted, one after the other.
    #[arg(long, default_value_t = 200)]
    samples: u32,
    /// How many routes are ours.
    #[arg(long, default_value_t = 1_000)]
    managed: u32,
    /// How many are not.
    #[arg(long, default_value_t = 100_000)]
    foreign: u32,
}

/// The time limit of every wait.
const BOUND: Duration = Duration::from_secs(30);
/// The pause before a sample, so that the loop is at rest.
const REST: Duration = Duration::from_millis(20);

pub(crate) fn main(options: &Options) -> Result<()> {
    let Options { samples, foreign, .. } = *options;
    let managed = options.managed.max(2 * samples);
    crowd::enter(foreign)?;
    println!(
        "{managed} routes of ours, {} addresses, neighbours and rules each, among {foreign} foreign \
         routes, half of all IPv6; {samples} samples of each kind and family",
        2 * samples
    );
    let config = Config::default();
    for config in [config.with_debounce(Duration::ZERO), config] {
        let desired = crowd::desired(managed, 2 * samples)?;
        let running = looped(Namespace::current(), desired, config).spawn("loop")?;
        let handle = running.handle();
        handle.wait_converged(handle.stats().desired, BOUND)?;
        for (kind, objects) in KINDS.iter().zip(crowd::ours(2 * samples, DEFAULT_PROTOCOL)?) {
            // IPv4 and IPv6 alternate.
            for (family, first) in [("IPv4", 0), ("IPv6", 1)] {
                let objects: Vec<&Object> = objects.iter().skip(first).step_by(2).collect();
                let adds = bare(handle, &objects)?;
                let gone = restored(handle, &objects)?;
                row(&format!("{kind} {family}"), config.debounce(), &gone, &adds);
            }
        }
        let stats = handle.stats();
        println!(
            "  {} whole passes, {} others, {} hints",
            stats.full_passes, stats.dirty_passes, stats.hints
        );
        running.stop(BOUND)?;
    }
    Ok(())
}

/// Measures an add alone: the loop is paused, and the message is sent as the loop would send it.
fn bare(handle: &Handle<Rtnl>, objects: &[&Object]) -> Result<Times> {
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
    Ok(Times::of(all))
}

/// Returns how long each was gone: from the return of the other writer's delete, and from its
/// request.
fn restored(handle: &Handle<Rtnl>, objects: &[&Object]) -> Result<[Times; 2]> {
    let here = Namespace::current();
    let mut socket = Socket::open(&here)?;
    let (mut asked, mut returned) = (Vec::new(), Vec::new());
    for object in objects {
        handle.wait_converged(handle.stats().desired, BOUND)?;
        thread::sleep(REST);
        let gone = gone(&here, &mut socket, object, BOUND)?;
        asked.push(gone.there);
        returned.push(gone.there.saturating_sub(gone.deleted));
    }
    Ok([returned, asked].map(Times::of))
}

/// The times, from the other writer's request on, at which an object was gone and back.
pub(crate) struct Gone {
    deleted: Duration,
    pub(crate) there: Duration,
}

/// Deletes an object as another writer, and waits until it is back.
pub(crate) fn gone(
    namespace: &Namespace,
    socket: &mut Socket,
    object: &Object,
    bound: Duration,
) -> Result<Gone> {
    let mut listener = Multicast::open(namespace, &Group::OBJECTS)?;
    let delete = message(Verb::Delete, object)?;
    let begin = Instant::now();
    socket.request(&delete)?;
    let deleted = begin.elapsed();
    let mut there = None;
    while there.is_none() {
        ensure!(begin.elapsed() < bound, "it does not come back: {object:?}");
        // Events that arrived during the delete count from now on.
        listener.receive(Duration::from_secs(1), |event| {
            if is_new(&event, object) {
                there = there.or(Some(begin.elapsed()));
            }
        })?;
    }
    Ok(Gone { deleted, there: there.unwrap_or_default() })
}

/// Returns true if an event announces that the object exists and is ours.
fn is_new(event: &Message<'_>, object: &Object) -> bool {
    match codec::decode(event) {
        // A neighbour about to go is announced once more, as failed.
        Ok(Some((Object::Neighbour(it), _))) if it.state != NeighbourState::Permanent => false,
        Ok(Some((there, is_deleted))) => !is_deleted && there.key() == object.key(),
        _ => false,
    }
}

fn row(kind: &str, debounce: Duration, gone: &[Times; 2], adds: &Times) {
    let [add, _] = adds.parts(1e-6);
    let above =
        |times: &Times| times.parts(1e-6).map(|micros| micros - debounce.as_secs_f64() * 1e6);
    let [[returned, slow], asked] = [above(&gone[0]), above(&gone[1])];
    println!(
        "{kind:15} debounce {:3} ms; above it, us, median and 99th percentile: from the delete's return \
         {returned:7.0} {slow:7.0}, from the asking {:7.0} {:7.0}; {:6.1} times the {add:5.0} us of an add alone",
        debounce.as_millis(),
        asked[0],
        asked[1],
        returned / add,
    );
}

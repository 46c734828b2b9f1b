//! A mesh of hosts. Each exports the prefix of its pods, and makes routes from the other hosts'
//! exports while those hosts are alive.
//!
//! `mesh STORE HOST...`: STORE is `embedded`, for hosts of one process, or etcd's endpoints with
//! commas between them. HOST is `NAME,PREFIX,ADDRESS`: a host in the network namespace NAME, which
//! the others reach at ADDRESS.

use std::env;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use trueup::etcd::{self, EtcdStore};
use trueup::reconcile::Hints;
use trueup::world::{Collector, Embedded, Export, Filter, Seen};
use trueup::world::{Session, Store, World};
use trueup::{Config, Desired, Loop, MemoryLedger, Namespace, NextHop, NextHops, Options, Rtnl};
use trueup::{IfName, Prefix, Route};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The prefix within which routes are taken from others.
const WITHIN: &str = "10.20.0.0/16";
/// The time that a host counts as alive without a sign.
const TTL: Duration = Duration::from_secs(5);

fn main() -> Result<(), Error> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [store, hosts @ ..] = args.as_slice() else {
        return Err("mesh STORE HOST..., each host as NAME,PREFIX,ADDRESS".into());
    };
    let store: Arc<dyn Store> = match store.as_str() {
        "embedded" => Embedded::in_memory().connect(),
        endpoints => Arc::new(EtcdStore::open(etcd::Config::new(endpoints.split(',')))?),
    };
    let (sender, ended) = mpsc::channel();
    for host in hosts {
        let (store, host, sender) = (Arc::clone(&store), host.clone(), sender.clone());
        thread::spawn(move || sender.send(run(store, &host)));
    }
    ended.recv()?
}

/// Runs a host, until it fails.
fn run(store: Arc<dyn Store>, host: &str) -> Result<(), Error> {
    let [name, prefix, address] = host.split(',').collect::<Vec<_>>()[..] else {
        return Err(format!("{host}: expected NAME,PREFIX,ADDRESS").into());
    };
    let world = World::new(store, "/mesh", name)?;
    // The session's owner has the host's name. If it begins again, it takes the session over.
    let session = Session::begin(world.clone(), name, TTL)?;
    let _keeper = session.keep(|event| eprintln!("{event:?}"))?;
    let pods = format!("{prefix} via {address}");
    session.declare(&[Export::new("route", "pods", pods)])?;

    let (sender, changes) = mpsc::channel();
    let hints = Hints::new(move || sender.send(()).unwrap_or_default());
    let collector = Collector::start(&world, &[Filter::kind("route")], Default::default(), hints)?;

    // Manages no routes until the desired ones are known.
    let (space, desired) = (Namespace::named(name)?, Desired::default());
    let (ledger, options, config) =
        (MemoryLedger::default(), Options::default(), Config::default());
    let agent = Loop::new(Rtnl::new(), space, desired, ledger, options, config);
    let agent = agent.spawn(name)?;
    let mut is_known = false;
    for () in changes {
        // Unknown holdings are no reason to delete a route.
        let Ok(known) = collector.holdings(Seen::default()) else {
            continue;
        };
        is_known |= known.is_complete();
        if is_known {
            let routes: Vec<_> = (known.resources())
                .filter(|(key, _)| key.exporter != name)
                .filter_map(|(_, it)| route(&it.value))
                .collect();
            println!("{name}: routes to {} hosts", routes.len());
            let desired = Desired::default().with_routes(routes);
            agent.handle().set_desired(desired)?;
        }
    }
    Ok(())
}

/// Parses another host's export, which may contain anything. `None` unless it is a route within
/// `WITHIN`.
fn route(data: &[u8]) -> Option<Route<IfName>> {
    let (dst, via) = std::str::from_utf8(data).ok()?.split_once(" via ")?;
    let (dst, within): (Prefix, Prefix) = (dst.parse().ok()?, WITHIN.parse().ok()?);
    let gateway = NextHop::via(via.parse().ok()?);
    let route = Route::new(dst, NextHops::One(gateway));
    within.covers(dst).then_some(route)
}

//! A routing daemon: a feed announces and withdraws prefixes, and the kernel follows. One gateway
//! can never be reached, and one prefix has another writer's route. Neither delays the others.
//!
//! `daemon [SECONDS]`, 10 by default, in a network namespace of its own. It needs no root.

use std::env;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use trueup::driver::{Event, Tried};
use trueup::net::RouteKey;
use trueup::{
    Address, Config, Desired, IfName, Link, LinkKind, Loop, MemoryLedger, Namespace, NextHop,
    NextHops, Options, Prefix, Route, Rtnl,
};

type Error = Box<dyn std::error::Error>;

/// The time between two messages of the feed.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for the kernel.
const BOUND: Duration = Duration::from_secs(10);
/// The number of prefixes in the feed.
const PREFIXES: u32 = 37;

/// A message's change to one prefix.
enum Update {
    Announce(Prefix, IpAddr),
    Withdraw(Prefix),
}

fn main() -> Result<(), Error> {
    let seconds = env::args().nth(1).map_or(Ok(10), |word| word.parse())?;
    // For the example alone: a namespace to throw away, with a route of another writer in it.
    trueup_testkit::example();
    let foreign = "route add blackhole 198.18.0.0/24 protocol static";
    trueup_testkit::ip(&foreign.split(' ').collect::<Vec<_>>());

    // The feed reports what changes, so the daemon reads all routes only twice a minute.
    let config = Config::default().with_interval(Duration::from_secs(30));
    let (here, ledger) = (Namespace::current(), MemoryLedger::default());
    let options = Options::default();
    let daemon = Loop::new(Rtnl::new(), here, at_start()?, ledger, options, config);
    // From before the first pass, so that no event is missed.
    let mut events = daemon.handle().events();
    let daemon = daemon.spawn("routes")?;
    let handle = daemon.handle();
    print_tried(&handle.wait_tried(handle.stats().desired, BOUND)?);

    let end = Instant::now() + Duration::from_secs(seconds);
    let mut messages = 0;
    while Instant::now() < end {
        let updates = message(messages)?;
        messages += 1;
        // The closure runs on the loop's thread, right before the pass.
        let revision = handle.change(move |desired| {
            if let Some(routes) = &mut desired.routes {
                for update in updates {
                    match update {
                        Update::Announce(prefix, via) => drop(routes.insert(route(prefix, via))),
                        Update::Withdraw(prefix) => drop(routes.remove(&key(prefix))),
                    }
                }
            }
        })?;
        // `wait_converged` would wait without end, because of the unreachable gateway.
        print_tried(&handle.wait_tried(revision, BOUND)?);
        while let Some(event) = events.try_next() {
            print_event(&event);
        }
        thread::sleep(PAUSE);
    }

    println!("{messages} messages; not in place at the end:");
    for exception in handle.exceptions() {
        println!("  {}, tried {} times", exception.status, exception.tries);
    }
    // The routes stay in the kernel.
    daemon.stop(BOUND)?;
    Ok(())
}

/// Two links, the gateways' subnet, and the routes of the feed's first message.
fn at_start() -> Result<Desired, Error> {
    let (up, other): (IfName, IfName) = ("up0".parse()?, "up1".parse()?);
    let pair = LinkKind::veth(other);
    let links =
        [Link::new(up, pair).with_up(true), Link::new(other, LinkKind::veth(up)).with_up(true)];
    let routes = message(0)?.into_iter().filter_map(|update| match update {
        Update::Announce(prefix, via) => Some(route(prefix, via)),
        Update::Withdraw(_) => None,
    });
    Ok(Desired::default()
        .with_links(links)
        .with_addresses([Address::new(up, "10.0.0.1/24".parse()?)])
        .with_routes(routes.collect::<Vec<_>>()))
}

/// Returns a message of the feed: ten prefixes, most of them announced through one of three
/// gateways. A real daemon reads this from its peers.
fn message(number: u32) -> Result<Vec<Update>, Error> {
    // 203.0.113.1 is in no subnet of ours, and 198.18.0.0/24 is the other writer's.
    let mut updates = vec![
        Update::Announce("198.51.100.0/24".parse()?, "203.0.113.1".parse()?),
        Update::Announce("198.18.0.0/24".parse()?, "10.0.0.2".parse()?),
    ];
    for at in 10 * number..10 * (number + 1) {
        let prefix = format!("11.0.{}.0/24", at * 7 % PREFIXES).parse()?;
        updates.push(match at % 10 {
            9 => Update::Withdraw(prefix),
            _ => Update::Announce(prefix, format!("10.0.0.{}", 2 + number % 3).parse()?),
        });
    }
    Ok(updates)
}

fn route(prefix: Prefix, via: IpAddr) -> Route<IfName> {
    Route::new(prefix, NextHops::One(NextHop::via(via)))
}

fn key(prefix: Prefix) -> RouteKey {
    Route::<IfName>::new(prefix, NextHops::None).canonical_key()
}

fn print_tried(tried: &Tried) {
    let revision = tried.revision;
    // For the state at the start, for example, the changed objects may be unknown.
    let Some(objects) = &tried.objects else {
        println!("revision {revision}: all in place: {}", tried.is_in_place());
        return;
    };
    let (all, exceptions) = (objects.len(), objects.iter().filter(|(_, it)| it.is_some()));
    let exceptions = exceptions.count();
    println!("revision {revision}: {all} objects, {exceptions} of them not in place");
}

fn print_event(event: &Event) {
    match event {
        Event::Changed { status, .. } => println!("  {status}"),
        Event::Cleared { status, .. } => println!("  {} {}: in place", status.kind, status.object),
        Event::Lost { count } => println!("  {count} events were lost: see the exceptions"),
        _ => {}
    }
}

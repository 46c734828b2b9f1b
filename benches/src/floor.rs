//! The floor: bytes encoded beforehand and sent in batches, of which only the last message is
//! acknowledged; dumps are read and ignored. A program with the same requests to the kernel cannot
//! be faster, apart from noise. A program with another order or shape of requests can.

use std::net::IpAddr;

use anyhow::Result;
use serde_json::Value;
use trueup_net::Route;
use trueup_netlink::codec;
use trueup_testkit::{index_of, ip_batch, ip_json, veth_pair, wait_until};
use trueup_works::clock::{Took, timed, timed_each};
use trueup_works::{
    ADDRESS_LINKS, CHANGES, FEW, FOREIGN, Family, GATEWAYS, PROTOCOL, Work, destination,
};

use crate::writer::Verb;
pub(crate) use requests::Requests;
use requests::{dump_routes, dump_rules};
pub(crate) use socket::Raw;

mod requests;
mod socket;

/// `AF_INET`, `AF_INET6`.
const FAMILIES: [u8; 2] = [2, 10];

/// Does a work in the calling thread's namespace.
pub(crate) fn perform(work: Work, size: usize) -> Result<Took> {
    match work {
        Work::RouteChange | Work::RouteTurn => {
            let changes = (0..CHANGES)
                .map(|at| {
                    let (place, put) = trueup_works::change(at, size);
                    let (verb, gateway) = match (work, put) {
                        (Work::RouteTurn, _) => (Verb::Replace, GATEWAYS[usize::from(!put)]),
                        (_, true) => (Verb::Create, GATEWAYS[0]),
                        (_, false) => (Verb::Delete, GATEWAYS[0]),
                    };
                    let to = destination(work.family(), place);
                    Requests::of(1, |requests, _| {
                        requests.route(verb, to, gateway.into(), PROTOCOL)
                    })
                })
                .collect::<Result<Vec<_>>>()?;
            let mut socket = Raw::open()?;
            timed_each(CHANGES, |at| socket.send(&changes[at]))
        }
        Work::GatewayObject => gateway_object(size),
        Work::RouteNoop(Family::Inet) => look(&FAMILIES[..1], true, 0),
        Work::RouteNoop(Family::Inet6) => look(&FAMILIES[1..], true, 0),
        Work::FewNoop => look(&FAMILIES[..1], true, PROTOCOL),
        Work::InternetNoop => look(&FAMILIES, true, 0),
        Work::BothNoop => Ok(timed(marked)?.1),
        Work::AddressCreate => {
            let [one, other] = ADDRESS_LINKS;
            veth_pair(one, other);
            wait_until_up(one);
            let link = index_of(one);
            let took = write(&Requests::of(size, |requests, at| {
                requests.address(link, trueup_works::address(at).into(), 64)
            })?);
            ip_batch([format!("link delete {one}")]);
            took
        }
        Work::LinkDelete => {
            Raw::open()?.send(&links(size, Verb::Create)?)?;
            write(&links(size, Verb::Delete)?)
        }
        Work::RouteGateway => write(&encode(work, size, Verb::Replace)?),
        _ if work.leaves(size) == (0, 0) => write(&encode(work, size, Verb::Delete)?),
        _ => write(&encode(work, size, Verb::Create)?),
    }
}

fn links(size: usize, verb: Verb) -> Result<Requests> {
    Requests::of(size, |requests, at| requests.link(verb, &trueup_works::link(at)))
}

/// Reads the rows with our protocol from all tables: the least cost of knowing all one's own rows.
pub(crate) fn read_by_protocol(work: Work, _: usize) -> Result<Took> {
    let families = if work == Work::FewNoop { &FAMILIES[..1] } else { &FAMILIES };
    look(families, false, PROTOCOL)
}

/// Encodes the routes and rules of a work. If it has both, rules are made last and deleted first,
/// as in a plan.
fn encode(work: Work, size: usize, verb: Verb) -> Result<Requests> {
    let mut requests = Requests::default();
    let rules = trueup_works::rules(work, size);
    let is_both = work == Work::BothCreate;
    // Beside routes, use the order in which the kernel adds them fastest.
    let mut rules: Vec<_> = if is_both { rules.rev().collect() } else { rules.collect() };
    let mut of_rules = |requests: &mut Requests| {
        let mut all = rules.drain(..);
        all.try_for_each(|(_, priority, from)| requests.rule(verb, priority, from))
    };
    if verb == Verb::Delete {
        of_rules(&mut requests)?;
    }
    if !matches!(work, Work::RuleCreate(_) | Work::RuleDelete(_)) {
        for (to, via) in trueup_works::routes(work, size)? {
            requests.route(verb, to, via, PROTOCOL)?;
        }
    }
    of_rules(&mut requests)?;
    requests.finish()
}

/// Makes all routes use one nexthop object, then gives the object another gateway, and the next
/// time the first again.
fn gateway_object(size: usize) -> Result<Took> {
    let link = index_of("up0");
    let object =
        |verb, gateway: IpAddr| Requests::of(1, |requests, _| requests.object(verb, gateway, link));
    let create =
        Requests::of(size, |requests, at| requests.route_by_object(destination(Family::Inet, at)))?;
    let [one, other] = GATEWAYS.map(IpAddr::from);
    let mut socket = Raw::open()?;
    socket.send(&object(Verb::Create, one)?)?;
    socket.send(&create)?;
    let changes = [object(Verb::Replace, other)?, object(Verb::Replace, one)?];
    let took = timed_each(CHANGES, |at| socket.send(&changes[at % 2]))?;
    // First the routes, then the object.
    socket.send(&encode(Work::RouteDelete(Family::Inet), size, Verb::Delete)?)?;
    socket.send(&object(Verb::Delete, one)?)?;
    Ok(took)
}

/// Waits until the kernel treats a link as up, at most a second after it was set up
/// (`linkwatch_event`). Before that, adding an address is cheaper, as nothing is sent for it.
pub(crate) fn wait_until_up(link: &str) {
    wait_until("the link is up", || {
        ip_json::<Value>(&["link", "show", "dev", link])[0]["operstate"] == "UP"
    });
}

/// Makes or deletes the objects present before [`Work::FewNoop`]: `size` foreign routes, and ours.
pub(crate) fn crowd(size: usize, there: bool) -> Result<()> {
    let verb = if there { Verb::Create } else { Verb::Delete };
    let via = GATEWAYS[0].into();
    Raw::open()?.send(&Requests::of(size + FEW, |requests, at| match at.checked_sub(FEW) {
        None => requests.route(verb, trueup_works::few(at), via, PROTOCOL),
        Some(at) => requests.route(verb, destination(Family::Inet, at), via, FOREIGN),
    })?)
}

/// Returns the number of routes in table main that the kernel did not make itself, and the number
/// of rules.
pub(crate) fn count() -> Result<(usize, usize)> {
    const RTPROT_KERNEL: u8 = 2;
    let (mut routes, mut rules) = (0, 0);
    let mut socket = Raw::open()?;
    for family in FAMILIES {
        routes += socket.count(&dump_routes(family, true, 0)?, |body| {
            body.get(5).is_some_and(|by| *by != RTPROT_KERNEL)
        })?;
        rules += socket.count(&dump_rules(family)?, |_| true)?;
    }
    Ok((routes, rules))
}

/// Returns requests that replace the routes on their keys with these, of any form.
pub(crate) fn replacements(routes: &[Route]) -> Result<Requests> {
    let mut message = Vec::new();
    Requests::of(routes.len(), |requests, at| {
        message.clear();
        codec::replace(&mut message, &routes[at], &codec::existing)?;
        requests.encoded(&message)
    })
}

/// Dumps all routes with the marker and all rules, and returns their number.
pub(crate) fn marked() -> Result<usize> {
    let (mut socket, mut count) = (Raw::open()?, 0);
    for family in FAMILIES {
        count += socket.count(&dump_routes(family, false, PROTOCOL)?, |_| true)?;
        count += socket.count(&dump_rules(family)?, |_| true)?;
    }
    Ok(count)
}

fn write(requests: &Requests) -> Result<Took> {
    Ok(timed(|| Raw::open()?.send(requests))?.1)
}

/// Dumps the routes of table main, or of all tables; only of a protocol, unless it is 0.
fn look(families: &[u8], main: bool, protocol: u8) -> Result<Took> {
    let dumps = families
        .iter()
        .map(|family| dump_routes(*family, main, protocol))
        .collect::<Result<Vec<_>>>()?;
    Ok(timed(|| {
        let mut socket = Raw::open()?;
        dumps.iter().map(|dump| socket.read(dump)).sum::<Result<usize>>()
    })?
    .1)
}

//! The floor: bytes encoded beforehand and sent in batches, of which the last message alone is
//! acknowledged; dumps read and not looked at. No program that asks the kernel for the same can be
//! faster by more than noise. One that asks for it in another order or shape can.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result};
use serde_json::Value;
use trueup_net::{Family, Route, Rule};
use trueup_netlink::codec;
use trueup_rtnl::DEFAULT_PROTOCOL;
use trueup_testkit::{index_of, ip_batch, ip_json, veth_pair, wait_until};

use crate::clock::{Took, timed, timed_each};
use crate::prefixes::Prefixes;
use crate::state;
use crate::works::{self, ADDRESS_LINKS, CHANGES, FEW, FOREIGN, GATEWAY_V6, GATEWAYS, Work};

pub use requests::Requests;
use requests::{Verb, Wanted, dump_routes, dump_rules};
pub use socket::Raw;

mod requests;
mod socket;

/// The two families.
const FAMILIES: [Family; 2] = [Family::Inet, Family::Inet6];

/// How the rows of a no-op are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// By table, and by protocol where there are foreign rows: the least that answers the question.
    Narrowly,
    /// By protocol alone, whatever table: what it takes to know of every row of one's own.
    ByProtocol,
}

/// Does a work in the calling thread's namespace.
///
/// # Errors
///
/// When the kernel refuses anything.
pub fn perform(work: Work, size: usize, asking: Asking) -> Result<Took> {
    match work {
        Work::RouteCreate(family) => write(&routes(family, size, Verb::Create, gateway(family))?),
        Work::RouteGateway => {
            let gateway = GATEWAYS[1].into();
            write(&routes(Family::Inet, size, Verb::Replace, gateway)?)
        }
        Work::RouteDelete(family) => write(&routes(family, size, Verb::Delete, gateway(family))?),
        Work::RouteNoop(family) => look(&[family], asking, None),
        Work::RouteChange | Work::RouteTurn => {
            let changes = (0..CHANGES).map(|at| {
                let (place, put) = works::change(at, size);
                let (verb, gateway) = match (work, put) {
                    (Work::RouteTurn, _) => (Verb::Replace, GATEWAYS[usize::from(!put)]),
                    (_, true) => (Verb::Create, GATEWAYS[0]),
                    (_, false) => (Verb::Delete, GATEWAYS[0]),
                };
                Requests::of(1, |requests, _| {
                    let destination = works::destination(Family::Inet, place);
                    requests.route(verb, destination, gateway.into(), DEFAULT_PROTOCOL)
                })
            });
            let changes: Vec<Requests> = changes.collect::<Result<_>>()?;
            let mut socket = Raw::open()?;
            timed_each(CHANGES, |at| socket.send(&changes[at]))
        }
        Work::GatewayObject => gateway_object(size),
        Work::FewNoop => look(&[Family::Inet], asking, Some(DEFAULT_PROTOCOL)),
        Work::InternetNoop => look(&FAMILIES, asking, None),
        Work::InternetCreate => write(&internet(size, Verb::Create)?),
        Work::InternetDelete => write(&internet(size, Verb::Delete)?),
        Work::RuleCreate(family) => write(&rules(family, size, Verb::Create)?),
        Work::RuleDelete(family) => write(&rules(family, size, Verb::Delete)?),
        Work::AddressCreate => {
            let [one, other] = ADDRESS_LINKS;
            veth_pair(one, other);
            wait_until_up(one);
            let link = index_of(one);
            let requests = Requests::of(size, |requests, at| {
                requests.address(link, works::address(at).into(), 64)
            })?;
            let took = write(&requests);
            ip_batch([format!("link delete {one}")]);
            took
        }
        Work::LinkDelete => {
            let all =
                |verb| Requests::of(size, |requests, at| requests.link(verb, &works::link(at)));
            Raw::open()?.send(&all(Verb::Create)?)?;
            write(&all(Verb::Delete)?)
        }
    }
}

/// All routes point at one nexthop object, which is then given another gateway, and the next time
/// the first again.
fn gateway_object(size: usize) -> Result<Took> {
    const OBJECT: u32 = 1;
    let link = index_of("up0");
    let object = |verb, gateway: Ipv4Addr| {
        Requests::of(1, |requests, _| {
            requests.object(verb, OBJECT, gateway.into(), link, DEFAULT_PROTOCOL)
        })
    };
    let create = Requests::of(size, |requests, at| {
        let destination = works::destination(Family::Inet, at);
        requests.route_by_object(Verb::Create, destination, OBJECT, DEFAULT_PROTOCOL)
    })?;
    let [one, other] = GATEWAYS;
    let mut socket = Raw::open()?;
    socket.send(&object(Verb::Create, one)?)?;
    socket.send(&create)?;
    let changes = [object(Verb::Replace, other)?, object(Verb::Replace, one)?];
    let took = timed_each(CHANGES, |at| socket.send(&changes[at % 2]))?;
    // The routes, and then it.
    socket.send(&routes(Family::Inet, size, Verb::Delete, one.into())?)?;
    socket.send(&object(Verb::Delete, one)?)?;
    Ok(took)
}

/// Waits until a link that was set up is so in the kernel's own eyes, which takes it up to a second
/// (`linkwatch_event`). Until then an address is cheaper to add, as nothing is sent for it.
pub fn wait_until_up(link: &str) {
    wait_until("the link is up", || {
        ip_json::<Value>(&["link", "show", "dev", link])[0]["operstate"] == "UP"
    });
}

/// Makes or deletes what is there before [`Work::FewNoop`]: so many foreign routes, and ours.
///
/// # Errors
///
/// When the kernel refuses anything.
pub fn crowd(size: usize, there: bool) -> Result<()> {
    let verb = if there { Verb::Create } else { Verb::Delete };
    let gateway = GATEWAYS[0].into();
    let requests = Requests::of(size + FEW, |requests, at| match at.checked_sub(FEW) {
        None => requests.route(verb, works::few(at), gateway, DEFAULT_PROTOCOL),
        Some(at) => {
            let destination = works::destination(Family::Inet, at);
            requests.route(verb, destination, gateway, FOREIGN)
        }
    })?;
    Raw::open()?.send(&requests)
}

/// How many routes there are in table main that the kernel did not make itself, and how many rules.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn count() -> Result<(usize, usize)> {
    const RTPROT_KERNEL: u8 = 2;
    let (mut routes, mut rules) = (0, 0);
    let mut socket = Raw::open()?;
    for family in FAMILIES.map(number) {
        let main = Wanted { main: true, protocol: None };
        let ours = |body: &[u8]| body.get(5).is_some_and(|by| *by != RTPROT_KERNEL);
        routes += socket.count(&dump_routes(family, main)?, ours)?;
        rules += socket.count(&dump_rules(family)?, |_| true)?;
    }
    Ok((routes, rules))
}

/// The internet's routes and rules beside them, in the order of a plan: rules come last and go
/// first.
///
/// # Errors
///
/// When a message cannot be encoded.
pub fn encode(prefixes: &Prefixes, rules: usize, create: bool) -> Result<Requests> {
    let verb = if create { Verb::Create } else { Verb::Delete };
    let mut rules: Vec<Rule> = state::rules(rules).collect();
    if create {
        // The order in which the kernel is quick to add them.
        rules.reverse();
    }
    let push_rules = |requests: &mut Requests| -> Result<()> {
        for rule in &rules {
            let from = rule.from.context("a rule with a source")?;
            requests.rule(verb, rule.priority, from.ip(), DEFAULT_PROTOCOL)?;
        }
        Ok(())
    };
    let mut requests = Requests::default();
    if !create {
        push_rules(&mut requests)?;
    }
    push_internet(&mut requests, prefixes, verb)?;
    if create {
        push_rules(&mut requests)?;
    }
    requests.finish()
}

/// Sends them all, and gives their number.
///
/// # Errors
///
/// When any of them is refused.
pub fn send(requests: &Requests) -> Result<usize> {
    Raw::open()?.send(requests)?;
    Ok(requests.len())
}

/// Requests that put routes, of any form, in the place of those on their keys.
///
/// # Errors
///
/// When a route cannot be encoded.
pub fn replacements(routes: &[Route]) -> Result<Requests> {
    let mut message = Vec::new();
    Requests::of(routes.len(), |requests, at| {
        message.clear();
        codec::route::replace(&mut message, &routes[at], &codec::existing)?;
        requests.encoded(&message)
    })
}

/// Dumps all routes of the marker and all rules, and gives their number.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn read() -> Result<usize> {
    let mut socket = Raw::open()?;
    let mut count = 0;
    let ours = Wanted { main: false, protocol: Some(DEFAULT_PROTOCOL) };
    for family in FAMILIES.map(number) {
        count += socket.count(&dump_routes(family, ours)?, |_| true)?;
        count += socket.count(&dump_rules(family)?, |_| true)?;
    }
    Ok(count)
}

fn write(requests: &Requests) -> Result<Took> {
    let ((), took) = timed(|| Raw::open()?.send(requests))?;
    Ok(took)
}

fn look(families: &[Family], asking: Asking, of: Option<u8>) -> Result<Took> {
    let wanted = match asking {
        Asking::Narrowly => Wanted { main: true, protocol: of },
        Asking::ByProtocol => Wanted { main: false, protocol: Some(DEFAULT_PROTOCOL) },
    };
    let dumps = families.iter().map(|family| dump_routes(number(*family), wanted));
    let dumps: Vec<Vec<u8>> = dumps.collect::<Result<_>>()?;
    let (_, took) = timed(|| {
        let mut socket = Raw::open()?;
        let mut bytes = 0;
        for dump in &dumps {
            bytes += socket.read(dump)?;
        }
        Ok(bytes)
    })?;
    Ok(took)
}

fn routes(family: Family, size: usize, verb: Verb, gateway: IpAddr) -> Result<Requests> {
    Requests::of(size, |requests, at| {
        let destination = works::destination(family, at);
        requests.route(verb, destination, gateway, DEFAULT_PROTOCOL)
    })
}

fn rules(family: Family, size: usize, verb: Verb) -> Result<Requests> {
    Requests::of(size, |requests, at| {
        let (priority, source) = (works::priority(at), works::source(family, at));
        requests.rule(verb, priority, source, DEFAULT_PROTOCOL)
    })
}

fn internet(size: usize, verb: Verb) -> Result<Requests> {
    let mut requests = Requests::default();
    push_internet(&mut requests, &Prefixes::internet(None, size)?, verb)?;
    requests.finish()
}

fn push_internet(requests: &mut Requests, prefixes: &Prefixes, verb: Verb) -> Result<()> {
    state::routes(prefixes).try_for_each(|(prefix, via)| {
        let destination = (prefix.address(), prefix.len());
        requests.route(verb, destination, via, DEFAULT_PROTOCOL)
    })
}

fn gateway(family: Family) -> IpAddr {
    match family {
        Family::Inet => GATEWAYS[0].into(),
        Family::Inet6 => GATEWAY_V6.into(),
    }
}

/// `AF_INET`, `AF_INET6`.
fn number(family: Family) -> u8 {
    requests::family(gateway(family))
}

//! trueup's side: each work as one pass of the library over what is desired.

use std::net::IpAddr;

use anyhow::{Result, ensure};
use trueup::net::{Family, NexthopMode, Routes, RuleAction, table};
use trueup::{
    Address, Desired, Link, LinkKind, MemoryLedger, Namespace, NextHop, NextHops, Options,
    PassInput, Report as _, Route, Rtnl, Rule, Source as _,
};
use trueup_testkit::ip_batch;

use crate::change;
use crate::clock::{Took, timed};
use crate::prefixes::Prefixes;
use crate::state::{self, hop_out_of_up0, route};
use crate::works::{self, ADDRESS_LINKS, FEW, GATEWAY_V6, GATEWAYS, Work};

/// Does a work in the calling thread's namespace.
///
/// # Errors
///
/// When the pass fails, or did something else than the work is.
pub fn perform(work: Work, size: usize) -> Result<Took> {
    let mut ledger = MemoryLedger::default();
    match work {
        Work::AddressCreate => {
            let [one, other] = ADDRESS_LINKS;
            ip_batch([format!("link add {one} type veth peer name {other}")]);
        }
        Work::RouteChange | Work::RouteTurn => {
            return change::routes(work, desired(work, size)?, size);
        }
        Work::GatewayObject => return change::gateway(desired(work, size)?),
        // What proves links to be ours is the ledger of who made them, so the same process does.
        Work::LinkDelete => {
            pass(&desired_links(size)?, &mut ledger, Expected::Ops)?;
        }
        _ => {}
    }
    let desired = desired(work, size)?;
    let expected = match work {
        Work::RouteNoop(_) | Work::FewNoop | Work::InternetNoop => Expected::Nothing,
        _ => Expected::Ops,
    };
    let ((), took) = timed(|| pass(&desired, &mut ledger, expected))?;
    if work == Work::AddressCreate {
        ip_batch([format!("link delete {}", ADDRESS_LINKS[0])]);
    }
    Ok(took)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Ops,
    Nothing,
}

fn pass(desired: &Desired, ledger: &mut MemoryLedger, expected: Expected) -> Result<()> {
    let here = Namespace::current();
    let mut source = Rtnl::new();
    let mut report =
        source.reconcile(PassInput::new(&here, desired, ledger, &Options::default()))?;
    let any = report.ops().next().is_some();
    ensure!(any == (expected == Expected::Ops), "ops: {any}");
    // What the turn before set off in the kernel may come between the rows of a dump: that is
    // looked at again, as a loop would.
    for _ in 0..10 {
        if report.converged() || report.doubts().is_empty() {
            break;
        }
        report = source.reconcile(PassInput::new(&here, desired, ledger, &Options::default()))?;
    }
    let (failed, doubts) = (report.failed().next(), report.doubts());
    ensure!(report.converged(), "not converged: {failed:?} {doubts:?}");
    Ok(())
}

/// What a pass that does the work is given. All that is built of the library's types is built here.
fn desired(work: Work, size: usize) -> Result<Desired> {
    let routes = |routes: &mut dyn Iterator<Item = Result<Route<_>>>| -> Result<Desired> {
        Ok(Desired::default().with_routes(routes.collect::<Result<Routes>>()?))
    };
    let rules = |rules: &mut dyn Iterator<Item = Result<Rule>>| -> Result<Desired> {
        Ok(Desired::default().with_rules(rules.collect::<Result<Vec<_>>>()?))
    };
    match work {
        Work::RouteCreate(family) | Work::RouteNoop(family) => {
            let gateway: IpAddr = match family {
                Family::Inet => GATEWAYS[0].into(),
                Family::Inet6 => GATEWAY_V6.into(),
            };
            routes(&mut (0..size).map(|at| route(works::destination(family, at), gateway)))
        }
        Work::RouteChange | Work::RouteTurn => desired(Work::RouteNoop(Family::Inet), size),
        Work::GatewayObject => {
            let hops = hop_out_of_up0(GATEWAYS[0])?;
            let led = |route: Route<_>| route.with_nexthops(hops.clone());
            let mut all = (0..size)
                .map(|at| route(works::destination(Family::Inet, at), GATEWAYS[0].into()).map(led));
            Ok(routes(&mut all)?.with_nexthops(NexthopMode::Objects))
        }
        Work::RouteGateway => routes(
            &mut (0..size)
                .map(|at| route(works::destination(Family::Inet, at), GATEWAYS[1].into())),
        ),
        Work::FewNoop => routes(&mut (0..FEW).map(|at| route(works::few(at), GATEWAYS[0].into()))),
        Work::RouteDelete(_) | Work::InternetDelete => routes(&mut std::iter::empty()),
        Work::InternetCreate | Work::InternetNoop => {
            let prefixes = Prefixes::internet(None, size)?;
            let hops = |via| NextHops::One(NextHop::via(via));
            routes(&mut state::routes(&prefixes).map(|(dst, via)| Ok(Route::new(dst, hops(via)))))
        }
        Work::RuleCreate(family) => rules(&mut (0..size).map(|at| rule(family, at))),
        Work::RuleDelete(_) => rules(&mut std::iter::empty()),
        Work::AddressCreate => addresses(size),
        Work::LinkDelete => Ok(Desired::default().with_links([])),
    }
}

fn rule(family: Family, at: usize) -> Result<Rule> {
    let action = RuleAction::Lookup(table::MAIN);
    let mut rule = Rule::new(family, works::priority(at), action);
    rule.from = Some(works::source(family, at).into());
    Ok(rule)
}

fn addresses(size: usize) -> Result<Desired> {
    let [dev, _] = ADDRESS_LINKS;
    let links = ADDRESS_LINKS.iter().map(|name| Ok(Link::must_exist(name.parse()?).with_up(true)));
    let addresses = (0..size).map(|at| {
        let address = format!("{}/64", works::address(at));
        Ok(Address::new(dev.parse()?, address.parse()?))
    });
    Ok(Desired::default()
        .with_links(links.collect::<Result<Vec<_>>>()?)
        .with_addresses(addresses.collect::<Result<Vec<_>>>()?))
}

fn desired_links(size: usize) -> Result<Desired> {
    let links = (0..size).map(|at| Ok(Link::new(works::link(at).parse()?, LinkKind::Ifb)));
    Ok(Desired::default().with_links(links.collect::<Result<Vec<_>>>()?))
}

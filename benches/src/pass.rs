//! trueup's side: each work as one pass of the library over a desired state, as changes handed to a
//! loop, or as a run of the command.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use trueup_file::{Settings, to_json, to_toml};
use trueup_net::{
    Address, Desired, Family, IfName, Link, LinkKind, NextHop, NextHops, NexthopMode, Prefix,
    Route, Routes, Rule, RuleAction, table,
};
use trueup_netlink::Namespace;
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Options, Rtnl};
use trueup_testkit::ip_batch;
use trueup_works::clock::{Took, timed, timed_command, timed_each};
use trueup_works::{ADDRESS_LINKS, CHANGES, Destination, GATEWAYS, Program, Work};

use crate::kept::Kept;
use trueup_testkit::Scratch;

/// The number of changes before those that count: the first ones prepare caches.
const BEFORE: usize = 10;

/// Does a work in the calling thread's namespace.
pub(crate) fn perform(work: Work, size: usize) -> Result<Took> {
    let desired = desired(work, size)?;
    let mut ledger = MemoryLedger::default();
    let [one, other] = ADDRESS_LINKS;
    match work {
        Work::AddressCreate => ip_batch([format!("link add {one} type veth peer name {other}")]),
        Work::RouteChange | Work::RouteTurn => return change(work, desired, size),
        Work::GatewayObject => return change_gateway(desired),
        // The ledger proves that links are ours, so the same process makes and deletes them.
        Work::LinkDelete => {
            let links = (0..size)
                .map(|at| Ok(Link::new(trueup_works::link(at).parse()?, LinkKind::Ifb)))
                .collect::<Result<Vec<_>>>()?;
            pass(&Desired::default().with_links(links), &mut ledger, true)?;
        }
        _ => {}
    }
    let ((), took) = timed(|| pass(&desired, &mut ledger, !work.is_noop()))?;
    if work == Work::AddressCreate {
        ip_batch([format!("link delete {one}")]);
    }
    Ok(took)
}

fn pass(desired: &Desired, ledger: &mut MemoryLedger, changes: bool) -> Result<()> {
    let (here, options) = (Namespace::current(), Options::default());
    let mut source = Rtnl::new();
    let mut report = source.reconcile(PassInput::new(&here, desired, ledger, &options))?;
    let any = report.ops().next().is_some();
    ensure!(any == changes, "ops: {any}");
    // Late changes by the kernel from the turn before may fall between the rows of a dump: repeat
    // the pass, as a loop would.
    for _ in 0..10 {
        if report.converged() || report.doubts().is_empty() {
            break;
        }
        report = source.reconcile(PassInput::new(&here, desired, ledger, &options))?;
    }
    let (failed, doubts) = (report.failed().next(), report.doubts());
    ensure!(report.converged(), "not converged: {failed:?} {doubts:?}");
    Ok(())
}

/// Returns the desired state for a work. All the library's types are built here.
fn desired(work: Work, size: usize) -> Result<Desired> {
    let all = Desired::default();
    Ok(match work {
        Work::AddressCreate => {
            let links =
                ADDRESS_LINKS.iter().map(|name| Ok(Link::must_exist(name.parse()?).with_up(true)));
            let addresses = (0..size).map(|at| {
                let address = format!("{}/64", trueup_works::address(at));
                Ok(Address::new(ADDRESS_LINKS[0].parse()?, address.parse()?))
            });
            all.with_links(links.collect::<Result<Vec<_>>>()?)
                .with_addresses(addresses.collect::<Result<Vec<_>>>()?)
        }
        Work::LinkDelete => all.with_links([]),
        Work::RuleCreate(_) | Work::RuleDelete(_) => all.with_rules(rules(work, size)),
        Work::BothCreate | Work::BothNoop | Work::BothDelete => {
            all.with_routes(routes(work, size, plain)?).with_rules(rules(work, size))
        }
        Work::GatewayObject => {
            all.with_routes(routes(work, size, out_of_up0)?).with_nexthops(NexthopMode::Objects)
        }
        _ => all.with_routes(routes(work, size, plain)?),
    })
}

fn routes(work: Work, size: usize, via: fn(IpAddr) -> Result<NextHops<IfName>>) -> Result<Routes> {
    let nothing = work.leaves(size) == (0, 0) && work != Work::GatewayObject;
    let all = trueup_works::routes(work, size)?.take(if nothing { 0 } else { usize::MAX });
    all.map(|(to, gateway)| Ok(Route::new(prefix(to)?, via(gateway)?))).collect()
}

fn plain(gateway: IpAddr) -> Result<NextHops<IfName>> {
    Ok(NextHops::One(NextHop::via(gateway)))
}

fn rules(work: Work, size: usize) -> Vec<Rule> {
    let wanted = if work.leaves(size) == (0, 0) { 0 } else { usize::MAX };
    let all = trueup_works::rules(work, size).take(wanted);
    all.map(|(family, priority, source)| {
        let family = match family {
            trueup_works::Family::Inet => Family::Inet,
            trueup_works::Family::Inet6 => Family::Inet6,
        };
        let mut rule = Rule::new(family, priority, RuleAction::Lookup(table::MAIN));
        rule.from = Some(source.into());
        rule
    })
    .collect()
}

/// Returns the destination in the library's type.
pub(crate) fn prefix((address, length): Destination) -> Result<Prefix> {
    Prefix::new(address, length).context("a prefix")
}

/// Returns a next hop through a gateway, with the device, as a nexthop object needs it.
fn out_of_up0(gateway: IpAddr) -> Result<NextHops<IfName>> {
    Ok(NextHops::One(NextHop::via(gateway).with_dev("up0".parse()?)))
}

/// Removes, changes or restores one route at a time. Measures the time from handing a change in to
/// knowing that the kernel has it.
fn change(work: Work, desired: Desired, size: usize) -> Result<Took> {
    let turns = work == Work::RouteTurn;
    let kept = Kept::start(desired)?;
    let took = changes(|at| {
        let (place, put) = trueup_works::change(at, size);
        let gateway = GATEWAYS[usize::from(turns && !put)].into();
        let to = prefix(trueup_works::destination(work.family(), place))?;
        let route = Route::new(to, NextHops::One(NextHop::via(gateway)));
        kept.wait_converged(kept.change(move |routes| {
            if put || turns {
                drop(routes.insert(route));
            } else {
                drop(routes.remove(&route.canonical_key()));
            }
        })?)
    })?;
    kept.0.stop(crate::kept::BOUND)?;
    Ok(took)
}

/// Changes the gateway of all routes at once, through their one nexthop object, and at the end
/// deletes them.
fn change_gateway(desired: Desired) -> Result<Took> {
    let kept = Kept::start(desired)?;
    let took = changes(|at| {
        let [from, to] = [at, at + 1].map(|at| out_of_up0(GATEWAYS[at % 2].into()));
        let (from, to) = (from?, to?);
        kept.wait_converged(kept.change(move |routes| routes.replace_nexthops(&from, &to))?)
    })?;
    kept.end()?;
    Ok(took)
}

fn changes(change: impl Fn(usize) -> Result<()>) -> Result<Took> {
    (0..BEFORE).try_for_each(&change)?;
    timed_each(CHANGES, change)
}

/// Returns the command as programs, if it was built beside this one: a run over a file of desired
/// state, which it reads and checks within the measured time.
pub(crate) fn commands() -> Vec<Program> {
    if command().is_none_or(|command| !command.is_file()) {
        return Vec::new();
    }
    let noop = vec![(Work::InternetNoop, Work::InternetNoop.largest())];
    let all = [Work::InternetCreate, Work::InternetNoop, Work::InternetDelete]
        .map(|work| (work, work.largest()))
        .to_vec();
    vec![
        Program { name: "apply-toml", works: all.clone(), run: |w, n| run("apply", "toml", w, n) },
        Program { name: "apply-json", works: all, run: |w, n| run("apply", "json", w, n) },
        Program { name: "plan-toml", works: noop.clone(), run: |w, n| run("plan", "toml", w, n) },
        Program { name: "plan-json", works: noop, run: |w, n| run("plan", "json", w, n) },
    ]
}

fn command() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.with_file_name("trueup"))
}

fn run(verb: &str, format: &str, work: Work, size: usize) -> Result<Took> {
    let scratch = Scratch::make("command")?;
    let file = scratch.join(format!("internet.{format}"));
    let (settings, desired) = (Settings::default(), desired(work, size)?);
    let text =
        if format == "toml" { to_toml(&settings, &desired) } else { to_json(&settings, &desired) };
    fs::write(&file, text)?;
    let mut command = Command::new(command().context("the command")?);
    command.arg(verb).arg(&file).arg("--state").arg(scratch.join("state"));
    timed_command(command.stdout(Stdio::null()))
}

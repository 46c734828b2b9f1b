//! `cargo xtask bench --work kinds`: one object among many, of each kind. It is declared, changed
//! and withdrawn, and restored after another writer has deleted it. Each figure covers everything
//! until the source is at rest: the pass, and the announcements of its own writes. The floor is the
//! same message to the kernel, and its announcement read.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;
use ipnetwork::IpNetwork;
use trueup_net::{
    Address, Collection, Desired, Dev, Family, IfName, Keyed, Link, LinkKind, Neighbour, NextHop,
    NextHops, Object, Prefix, Route, Rule, RuleAction,
};
use trueup_netlink::{Group, Multicast, Namespace, Socket};
use trueup_reconcile::{Drained, Extent, Hints, PassInput, PassLimits, Report as _, Source as _};
use trueup_rtnl::{DEFAULT_PROTOCOL, MemoryLedger, Options as Rules, Report, Rtnl};
use trueup_testkit::{Snapshot, index_of, ip_batch, quiet_netns};
use trueup_works::clock::processor_of_thread;

use crate::row::{Row, table};
use crate::text::{Table, grouped, seconds};
use crate::writer::{Verb, message, write};

/// Measures one change of each kind among many objects, and one restoration.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure this kind alone; may be repeated.
    #[arg(long)]
    kind: Vec<Kind>,
    /// Among how many objects, with commas between the numbers; 1000,10000,100000 by default. Of
    /// links there are at most 1,000.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// How many times each act is measured.
    #[arg(long, default_value_t = 100)]
    times: usize,
    /// `--sizes 1000 --times 10`.
    #[arg(long)]
    quick: bool,
    /// Write the processor times into `performance.md` in the folder `--docs`.
    #[arg(long, requires = "docs")]
    write: bool,
    /// The folder of the documentation: set by xtask.
    #[arg(long)]
    docs: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Route,
    Neighbour,
    Rule,
    Address,
    Link,
}

/// The most links: the kernel takes seconds for more.
const LINKS: usize = 1_000;
/// The most addresses on one device: the kernel searches a list for each new one.
const ON_ONE: usize = 1_000;
/// The base of ratios: the same message, and its announcement.
const FLOOR: &str = "floor";
const BEGIN: &str = "<!-- begin: written by `cargo xtask bench --work kinds --write` -->\n";
const END: &str = "<!-- end of kinds -->\n";
/// The time limit for an announcement.
const BOUND: Duration = Duration::from_secs(10);

pub(crate) fn main(options: &Options) -> Result<()> {
    trueup_testkit::enter()?;
    let sizes = match &options.sizes[..] {
        [] if options.quick => &[1_000][..],
        [] => &[1_000, 10_000, 100_000],
        sizes => sizes,
    };
    let times = if options.quick { 10 } else { options.times };
    let mut rows = Vec::new();
    for kind in Kind::value_variants() {
        if !options.kind.is_empty() && !options.kind.contains(kind) {
            continue;
        }
        for size in sizes {
            if *kind == Kind::Link && *size > LINKS {
                continue;
            }
            let of_kind = measure(*kind, *size, times)
                .with_context(|| format!("{kind:?} among {}", grouped(*size)))?;
            for row in of_kind {
                row.print()?;
                rows.push(row);
            }
        }
    }
    eprintln!("{}", table(&rows, FLOOR));
    if let Some(docs) = options.docs.as_ref().filter(|_| options.write) {
        let path = docs.join("performance.md");
        let page = fs::read_to_string(&path)?;
        fs::write(&path, with_table(&page, &rows)?)?;
    }
    Ok(())
}

/// Returns the page with its table of processor times replaced.
fn with_table(page: &str, rows: &[Row]) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).context("no mark where the table begins")?;
    let (_, after) = rest.split_once(END).context("no mark where the table ends")?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", processor(rows)))
}

/// Returns a table of processor times: a row for each act, with floor and trueup at each size.
fn processor(rows: &[Row]) -> String {
    let sizes: BTreeSet<usize> = rows.iter().map(|row| row.size).collect();
    let heads: Vec<String> =
        sizes.iter().map(|size| format!("among {}: floor, trueup", grouped(*size))).collect();
    let head: Vec<&str> = ["work"].into_iter().chain(heads.iter().map(String::as_str)).collect();
    let mut table = Table::new(&head, "---");
    let mut done = BTreeSet::new();
    for row in rows.iter().filter(|row| done.insert(row.work.clone())) {
        let cells = sizes.iter().map(|size| {
            let of = |program: &str| {
                let same = |it: &&Row| (&it.work, it.size) == (&row.work, *size);
                rows.iter().filter(same).find(|it| it.program == program)
            };
            match (of(FLOOR), of("trueup")) {
                (Some(floor), Some(own)) => {
                    format!("{}, {}", seconds(floor.cpu_ns), seconds(own.cpu_ns))
                }
                _ => String::new(),
            }
        });
        table.row([row.title.clone()].into_iter().chain(cells));
    }
    table.0
}

/// An act on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Add,
    Change,
    Remove,
    Restore,
}

const ACTS: [Act; 4] = [Act::Add, Act::Change, Act::Remove, Act::Restore];

impl Act {
    fn words(self) -> &'static str {
        match self {
            Act::Add => "added",
            Act::Change => "changed",
            Act::Remove => "removed",
            Act::Restore => "restored after another writer deleted it",
        }
    }
}

fn measure(kind: Kind, size: usize, times: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut world = World::new(kind, size)?;
    for act in ACTS {
        let mut floor = Taken::default();
        let mut own = Taken::default();
        for at in 0..times {
            // The objects of the declaration are numbered from 0. Others come and go behind them.
            let number = if act == Act::Restore { at * 7 % size } else { size + at };
            floor.add(world.floor(act, number)?);
            own.add(world.pass(act, number)?);
        }
        let named = format!("kinds-{kind:?}-{act:?}").to_lowercase();
        let title = format!("one {} {}", format!("{kind:?}").to_lowercase(), act.words());
        for (program, taken) in [(FLOOR, floor), ("trueup", own)] {
            let mut row = Row::new(program, named.clone(), title.clone())
                .with_times(taken.walls, size)
                .with_processor(taken.processor, times);
            row.objects = 1;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Wall times, one for each repetition, and the processor time of all.
#[derive(Default)]
struct Taken {
    walls: Vec<Duration>,
    processor: Duration,
}

impl Taken {
    fn add(&mut self, (wall, processor): (Duration, Duration)) {
        self.walls.push(wall);
        self.processor += processor;
    }
}

/// A namespace in which the declaration is in place, and the source at rest.
struct World {
    kind: Kind,
    namespace: Namespace,
    source: Rtnl,
    ledger: MemoryLedger,
    desired: Desired,
    other: Socket,
    events: Multicast,
}

impl World {
    fn new(kind: Kind, size: usize) -> Result<World> {
        quiet_netns();
        for device in 0..devices(kind, size) {
            ip_batch([
                format!("link add d{device} type veth peer name p{device}"),
                format!("link set d{device} up"),
                format!("link set p{device} up"),
            ]);
        }
        if matches!(kind, Kind::Route) {
            ip_batch(["address add 10.0.0.1/24 dev d0"]);
        }
        let desired = desired(kind, size)?;
        if kind != Kind::Link {
            let there: Result<Vec<Object>> = (0..size).map(|at| written(kind, at, 1)).collect();
            write(Verb::Create, &there?)?;
        }
        Snapshot::settled();
        let namespace = Namespace::current();
        let mut source = Rtnl::new();
        ensure!(source.subscribe(&namespace, Hints::new(|| {})).is_active());
        let groups = [
            Group::LINK,
            Group::NEIGHBOUR,
            Group::IPV4_ADDRESS,
            Group::IPV6_ADDRESS,
            Group::IPV4_ROUTE,
            Group::IPV4_RULE,
        ];
        let mut world = World {
            kind,
            source,
            ledger: MemoryLedger::default(),
            desired,
            other: Socket::open(&namespace)?,
            events: Multicast::open(&namespace, &groups)?,
            namespace,
        };
        for _ in 0..3 {
            let report = world.reconcile(Extent::Everything)?;
            ensure!(report.converged(), "{} ops are left", report.ops().count());
        }
        Snapshot::settled();
        world.rest()?;
        Ok(world)
    }

    fn reconcile(&mut self, extent: Extent) -> Result<Report> {
        let options = Rules::default();
        let input = PassInput::new(&self.namespace, &self.desired, &mut self.ledger, &options);
        Ok(self.source.reconcile(input.with_limits(PassLimits::default().with_extent(extent)))?)
    }

    /// Takes in announcements until there are none.
    fn rest(&mut self) -> Result<()> {
        while self.source.drain()? != Drained::Nothing {
            let report = self.reconcile(Extent::Dirty)?;
            ensure!(report.converged(), "{} ops are left", report.ops().count());
        }
        Ok(())
    }

    /// Sends the message of an act alone and reads its announcement. Leaves everything as before.
    fn floor(&mut self, act: Act, number: usize) -> Result<(Duration, Duration)> {
        // The source's reaction to these announcements is not measured.
        let kind = self.kind;
        let is_declared = act == Act::Restore;
        let create = message(Verb::Create, &bare(kind, number, is_declared)?)?;
        if act == Act::Remove {
            // The object to withdraw is ours, so the floor uses another of the same form.
            self.other.request(&create)?;
        }
        // The index of a link is known once it exists.
        let delete = || message(Verb::Delete, &bare(kind, number, is_declared)?);
        let request = match act {
            Act::Remove => delete()?,
            Act::Restore => {
                self.other.request(&delete()?)?;
                create
            }
            Act::Add | Act::Change => create,
        };
        self.silence()?;
        let taken = timed(|| {
            self.other.request(&request)?;
            ensure!(self.events.receive(BOUND, |_| ())? > 0, "no announcement");
            Ok(())
        })?;
        if matches!(act, Act::Add | Act::Change) {
            self.other.request(&delete()?)?;
        }
        self.silence()?;
        self.rest()?;
        Ok(taken)
    }

    fn silence(&mut self) -> Result<()> {
        loop {
            match self.events.receive(Duration::ZERO, |_| ()) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                // The declaration's own announcements may be more than the queue holds.
                Err(error) if error.is_loss() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does an act, and runs passes until the source is at rest.
    fn pass(&mut self, act: Act, number: usize) -> Result<(Duration, Duration)> {
        if act == Act::Restore {
            let object = bare(self.kind, number, true)?;
            self.other.request(&message(Verb::Delete, &object)?)?;
        } else {
            let value = match act {
                Act::Add => Some(1),
                Act::Change => Some(2),
                Act::Remove | Act::Restore => None,
            };
            declare(&mut self.desired, self.kind, number, value)?;
        }
        let mut count = 0;
        let is_restored = act == Act::Restore;
        let taken = timed(|| {
            if is_restored {
                ensure!(self.source.drain()? != Drained::Nothing, "nothing was announced");
            }
            let report = self.reconcile(Extent::Dirty)?;
            ensure!(report.converged(), "{} ops are left", report.ops().count());
            count = report.ops().count();
            self.rest()
        })?;
        ensure!((1..=2).contains(&count), "{count} ops instead of one");
        Ok(taken)
    }
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<(Duration, Duration)> {
    let (begin, used) = (Instant::now(), processor_of_thread()?);
    work()?;
    Ok((begin.elapsed(), processor_of_thread()?.saturating_sub(used)))
}

fn devices(kind: Kind, size: usize) -> usize {
    match kind {
        Kind::Address => size / ON_ONE + 1,
        Kind::Link => 0,
        Kind::Route | Kind::Neighbour | Kind::Rule => 1,
    }
}

fn device(kind: Kind, number: usize) -> Result<IfName> {
    let at = if kind == Kind::Address { number / ON_ONE } else { 0 };
    Ok(format!("d{at}").parse()?)
}

fn ip(number: usize) -> IpAddr {
    Ipv4Addr::from((20 << 24) + number as u32).into()
}

fn neighbour<D>(dev: D, number: usize, value: u8) -> Result<Neighbour<D>> {
    Ok(Neighbour::new(dev, ip(number), format!("02:00:00:00:00:{value:02x}").parse()?))
}

fn address<D>(dev: D, number: usize, value: u8) -> Address<D> {
    // The kernel makes a secondary of a second address in a subnet.
    let address = Address::new(dev, IpNetwork::from(ip(number)));
    if value == 1 { address } else { address.with_metric(value.into()) }
}

fn rule(number: usize, value: u8) -> Rule {
    let action = RuleAction::Lookup(100 + u32::from(value));
    Rule::new(Family::Inet, 1_000 + number as u32, action)
}

fn route<D>(number: usize, value: u8) -> Route<D> {
    let via = IpAddr::from([10, 0, 0, 1 + value]);
    Route::new(Prefix::host(ip(number)), NextHops::One(NextHop::via(via)))
}

fn link(number: usize, value: u8) -> Result<Link<IfName>> {
    let link = Link::new(format!("b{number}").parse()?, LinkKind::Bridge(Default::default()));
    Ok(link.with_mtu(1_400 + u32::from(value)))
}

fn desired(kind: Kind, size: usize) -> Result<Desired> {
    let mut desired = Desired::default();
    let all = 0..size;
    match kind {
        Kind::Route => desired.routes = Some(all.map(|at| route(at, 1)).collect()),
        Kind::Rule => desired.rules = Some(all.map(|at| rule(at, 1)).collect()),
        Kind::Neighbour => {
            let all = all.map(|at| neighbour(device(kind, at)?, at, 1));
            desired.neighbours = Some(all.collect::<Result<Collection<_>>>()?);
        }
        Kind::Address => {
            let all = all.map(|at| Ok(address(device(kind, at)?, at, 1)));
            desired.addresses = Some(all.collect::<Result<Collection<_>>>()?);
        }
        Kind::Link => {
            desired.links = Some(all.map(|at| link(at, 1)).collect::<Result<Collection<_>>>()?);
        }
    }
    Ok(desired)
}

/// Declares an object, or withdraws it.
fn declare(desired: &mut Desired, kind: Kind, number: usize, value: Option<u8>) -> Result<()> {
    fn set<A: Keyed>(objects: &mut Option<Collection<A>>, object: A, is_there: bool) {
        let objects = objects.get_or_insert_default();
        if is_there {
            // A rule's action is part of its key.
            objects.insert(object);
        } else {
            objects.remove(&object.canonical_key());
        }
    }
    let (is_there, value) = (value.is_some(), value.unwrap_or(2));
    match kind {
        Kind::Route => {
            let (routes, route) = (desired.routes.get_or_insert_default(), route(number, value));
            if is_there {
                routes.insert(route);
            } else {
                routes.remove(&route.canonical_key());
            }
        }
        Kind::Rule => {
            if value == 2 && is_there {
                set(&mut desired.rules, rule(number, 1), false);
            }
            set(&mut desired.rules, rule(number, value), is_there);
        }
        Kind::Neighbour => {
            let object = neighbour(device(kind, number)?, number, value)?;
            set(&mut desired.neighbours, object, is_there);
        }
        Kind::Address => {
            let object = address(device(kind, number)?, number, value);
            set(&mut desired.addresses, object, is_there);
        }
        Kind::Link => set(&mut desired.links, link(number, value)?, is_there),
    }
    Ok(())
}

/// Returns an object as it is in the kernel.
fn written(kind: Kind, number: usize, value: u8) -> Result<Object> {
    let dev = || -> Result<Dev> { Ok(Dev::index(index_of(&device(kind, number)?.to_string()))) };
    Ok(match kind {
        Kind::Route => {
            Object::Route(route(number, value).canonical().with_protocol(DEFAULT_PROTOCOL))
        }
        Kind::Rule => rule(number, value).with_protocol(DEFAULT_PROTOCOL).into(),
        Kind::Neighbour => neighbour(dev()?, number, value)?.with_protocol(DEFAULT_PROTOCOL).into(),
        Kind::Address => address(dev()?, number, value).with_protocol(DEFAULT_PROTOCOL).into(),
        Kind::Link => {
            let link = link(number, value)?.try_map_dev(|_| anyhow::Ok(Dev::index(0)))?;
            let name = link.name.to_string();
            let has_index = trueup_testkit::ip_json::<serde_json::Value>(&["link", "show"])
                .as_array()
                .is_some_and(|all| all.iter().any(|it| it["ifname"] == name.as_str()));
            let index = if has_index { index_of(&name) } else { 0 };
            link.with_index(index).into()
        }
    })
}

/// Returns the object for a bare message: a declared object, or one of another writer.
fn bare(kind: Kind, number: usize, is_declared: bool) -> Result<Object> {
    if is_declared {
        return written(kind, number, 1);
    }
    // Another writer's, beside the numbers of all others.
    const BESIDE: usize = 1 << 20;
    Ok(match kind {
        Kind::Route => {
            let dst = Ipv4Addr::from((60 << 24) + (number % BESIDE) as u32);
            let via = NextHop::via(IpAddr::from([10, 0, 0, 9]));
            let route = Route::new(Prefix::host(dst.into()), NextHops::One(via));
            Object::Route(route.canonical().with_protocol(4))
        }
        Kind::Rule => rule(BESIDE + number, 1).with_protocol(4).into(),
        Kind::Neighbour => {
            let dev = Dev::index(index_of("d0"));
            let dst = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, number as u16);
            Neighbour::new(dev, dst.into(), "02:00:00:00:00:09".parse()?).into()
        }
        Kind::Address => {
            let dev = Dev::index(index_of("d0"));
            let address = Ipv4Addr::from((60 << 24) + (number % BESIDE) as u32);
            Address::new(dev, IpNetwork::from(IpAddr::from(address))).into()
        }
        Kind::Link => written(kind, BESIDE + number, 1)?,
    })
}

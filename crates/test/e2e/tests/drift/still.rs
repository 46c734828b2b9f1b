//! With nothing to do, beside busy writers: the agent sends no message that changes anything.

use std::thread;
use std::time::{Duration, Instant};

use trueup_loop::Config;
use trueup_net::{
    Address, AddressFlags, Desired, Dev, Family, Neighbour, Object, Routes, Rule, RuleAction,
};
use trueup_rtnl::{Namespace, Rtnl};
use trueup_testkit::crash::Points;
use trueup_testkit::{Snapshot, index_of, ip_batch, is_long, uplinks};

use crate::agent::Agent;
use crate::other_writer::{Do, HIS, OtherWriter, route, v4, v6, wanted};

/// The other writer's writes a second, at most.
const A_SECOND: u32 = 1_000;

pub(crate) fn a_busy_namespace_costs_no_message() {
    uplinks(1);
    ip_batch(["link add his0 type veth peer name his1", "link set his0 up", "link set his1 up"]);
    // The links' own announcements are over.
    Snapshot::settled();
    let desired = Desired::default()
        .with_routes((0..100).flat_map(|at| [v4(at), v6(at)]).map(wanted).collect::<Routes>())
        .with_addresses([address("up0".parse().unwrap(), 200, Family::Inet)])
        .with_rules([Rule::new(Family::Inet, 700, RuleAction::Lookup(100))])
        .with_neighbours([neighbour("up0".parse().unwrap(), 200, Family::Inet6)]);
    // The points record everything sent.
    let points = Points::counted();
    let through = points.namespace(Namespace::current());
    let config = Config::default().with_interval(Duration::from_secs(1)).with_interval_factor(0);
    let agent = Agent::start(Rtnl::new(), through, desired, config);
    agent.converges();

    let device = Dev::index(index_of("his0"));
    let objects: Vec<Object> = (0..100).flat_map(|at| his(device, at)).collect();
    let mut other_writer = OtherWriter::open();
    let before = (agent.handle().stats(), changes(&points));
    let begin = Instant::now();
    let lasts = Duration::from_secs(if is_long() { 60 } else { 4 });
    let mut count = 0;
    for (verb, object) in [Do::Create, Do::Delete]
        .into_iter()
        .flat_map(|verb| objects.iter().map(move |object| (verb, object)))
        .cycle()
    {
        if begin.elapsed() > lasts {
            break;
        }
        other_writer.write([(verb, object)]);
        count += 1;
        let due = Duration::from_secs(1) * count / A_SECOND;
        thread::sleep(due.saturating_sub(begin.elapsed()));
    }
    let after = agent.handle().stats();
    let sent = changes(&points);
    let sent = &sent[before.1.len()..];
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(after.ops, before.0.ops, "no op, not even one that was not tried");
    assert!(after.full_passes > before.0.full_passes, "it does look");
    assert_eq!(after.overruns, before.0.overruns);
    let hints = after.hints - before.0.hints;
    assert_eq!(hints, 0, "nothing foreign makes a hint");
    eprintln!(
        "still: {count} foreign writes, {} whole passes, {} others",
        after.full_passes - before.0.full_passes,
        after.dirty_passes - before.0.dirty_passes
    );
    agent.converges();
    agent.stop();
}

/// Returns the changes sent so far, in words.
fn changes(points: &Points) -> Vec<String> {
    let mut sent = points.passed();
    let verbs = ["create", "update", "delete"].map(|verb| format!("before send: {verb}"));
    sent.retain(|what| verbs.iter().any(|verb| what.starts_with(verb)));
    sent
}

/// Returns the other writer's `at`-th object of each kind.
fn his(device: Dev, at: u32) -> Vec<Object> {
    let mut all = vec![route(v4(1_000 + at), HIS), route(v6(1_000 + at), HIS)];
    for family in [Family::Inet, Family::Inet6] {
        let mut rule = Rule::new(family, 1_000 + at, RuleAction::Lookup(100));
        rule.protocol = HIS;
        let mut neighbour = neighbour(device, at, family);
        neighbour.protocol = HIS;
        all.push(Object::Rule(Box::new(rule)));
        all.push(Object::Neighbour(neighbour.canonical()));
    }
    let mut address = address(device, at, Family::Inet);
    address.protocol = HIS;
    all.push(Object::Address(address.canonical(None)));
    all
}

fn address<D>(device: D, at: u32, family: Family) -> Address<D> {
    let text = match family {
        Family::Inet => format!("10.99.{at}.1/24"),
        Family::Inet6 => format!("fd99:{at:x}::1/64"),
    };
    let mut address = Address::new(device, text.parse().unwrap());
    if family == Family::Inet6 {
        address.flags = AddressFlags::NODAD;
    }
    address
}

fn neighbour<D>(device: D, at: u32, family: Family) -> Neighbour<D> {
    let text = match family {
        Family::Inet => format!("10.98.{at}.9"),
        Family::Inet6 => format!("fd98:{at:x}::9"),
    };
    let lladdr = "02:00:00:00:00:98".parse().unwrap();
    Neighbour::new(device, text.parse().unwrap(), lladdr)
}

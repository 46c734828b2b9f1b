//! Single addresses, neighbours and rules of many, in a source with a subscription: a change of one
//! reads no other, and what is uncertain is read first.

use std::sync::{Arc, Once};

use trueup_net::{Desired, Keyed as _, Neighbour, Rule, RuleAction};
use trueup_net::{Family, IfName};
use trueup_reconcile::{Drained, Extent, Report as _, Source as _};
use trueup_rtnl::{Namespace, Report};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::{Kind, Snapshot, ip, ip_batch, uplinks};

use crate::changes::{Agent, commands};
use crate::support::{address, describe, name, nothing, via};

const EPERM: i32 = 1;
/// Objects of each kind.
const MANY: u8 = 200;

fn neighbour(number: u8, lladdr: u8) -> Neighbour<IfName> {
    let lladdr = format!("02:00:00:00:00:{lladdr:02x}");
    let dst = match number % 2 {
        0 => format!("10.9.0.{number}"),
        _ => format!("fd00:9::{number:x}"),
    };
    Neighbour::new(name("up0"), dst.parse().unwrap(), lladdr.parse().unwrap())
}

fn rule(number: u8, table: u32) -> Rule {
    let family = if number.is_multiple_of(2) { Family::Inet } else { Family::Inet6 };
    Rule::new(family, 1000 + u32::from(number), RuleAction::Lookup(table))
}

fn addressed(number: u8) -> String {
    match number % 2 {
        0 => format!("172.20.{number}.1/24"),
        _ => format!("fd00:{number:x}::1/64"),
    }
}

fn many() -> Desired {
    nothing()
        .with_addresses((0..MANY).map(|it| address("up0", &addressed(it))).collect::<Vec<_>>())
        .with_neighbours((0..MANY).map(|it| neighbour(it, 1)).collect::<Vec<_>>())
        .with_rules((0..MANY).map(|it| rule(it, 100)).collect::<Vec<_>>())
}

/// An agent with many objects of each kind in place. Its links have come up.
struct Single {
    agent: Agent,
    faults: Faults,
}

impl Single {
    fn settled() -> Single {
        Single::declaring(many())
    }

    fn declaring(desired: Desired) -> Single {
        uplinks(1);
        Snapshot::settled();
        let faults = Faults::over(Namespace::current());
        let mut single = Single { agent: Agent::declaring(faults.namespace(), desired), faults };
        single.rest();
        single
    }

    /// Takes in the announcements so far.
    fn rest(&mut self) {
        Snapshot::settled();
        for extent in [Extent::Dirty, Extent::Dirty] {
            self.agent.source.drain().unwrap();
            let report = self.agent.pass(extent);
            assert!(report.converged(), "{}", describe(&report));
        }
    }

    /// Runs a pass over what is dirty, during which every dump is refused.
    fn pass_without_a_dump(&mut self) -> Report {
        self.agent.source.drain().unwrap();
        for kind in [Kind::Link, Kind::Address, Kind::Neighbour, Kind::Rule] {
            self.faults.add(At::EveryDump(kind), Fault::Refuse(EPERM));
        }
        let report = self.agent.try_pass(Extent::Dirty);
        self.faults.clear();
        report.unwrap()
    }

    /// Runs such a pass, which must converge with this number of ops, and a full one after it,
    /// which must find nothing to do.
    fn converges(&mut self, ops: usize) {
        let report = self.pass_without_a_dump();
        assert!(report.converged(), "{}", describe(&report));
        assert_eq!(commands(&report).len(), ops, "{}", describe(&report));
        self.is_in_place();
    }

    fn is_in_place(&mut self) {
        let whole = self.agent.pass(Extent::Everything);
        assert!(whole.converged(), "{}", describe(&whole));
        assert_eq!(whole.ops().count(), 0, "{}", describe(&whole));
        self.rest();
    }
}

fn shown(of: &[&str], what: &str) -> usize {
    ip(of).lines().filter(|line| line.contains(what)).count()
}

fn neighbours(what: &str) -> usize {
    shown(&["neigh", "show", "dev", "up0"], what)
}

pub(crate) fn one_declared_change_among_many_is_one_message_and_no_dump() {
    let mut single = Single::settled();
    for number in [MANY, MANY + 1] {
        // Added, changed and removed.
        single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(number, 1));
        single.converges(1);
        single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(number, 2));
        single.converges(1);
        assert_eq!(neighbours("02:00:00:00:00:02"), 1);
        let key = neighbour(number, 2).canonical_key();
        single.agent.desired.neighbours.as_mut().unwrap().remove(&key);
        single.converges(1);
        assert_eq!(neighbours("02:00:00:00:00:02"), 0);

        single.agent.desired.rules.as_mut().unwrap().insert(rule(number, 100));
        single.converges(1);
        let rules = single.agent.desired.rules.as_mut().unwrap();
        rules.remove(&rule(number, 100).canonical_key());
        rules.insert(rule(number, 101));
        single.converges(2);
        let rules = single.agent.desired.rules.as_mut().unwrap();
        rules.remove(&rule(number, 101).canonical_key());
        single.converges(1);

        let addresses = single.agent.desired.addresses.as_mut().unwrap();
        addresses.insert(address("up0", &addressed(number)));
        single.converges(1);
        assert_eq!(shown(&["address", "show", "dev", "up0"], &addressed(number)), 1);
    }
}

pub(crate) fn an_object_that_another_writer_removed_is_back_without_a_dump() {
    let mut single = Single::settled();
    for number in [50, 51] {
        let neighbour = neighbour(number, 1).dst.to_string();
        ip(&["neigh", "delete", &neighbour, "dev", "up0"]);
        single.converges(1);
        let family = if number == 50 { "-4" } else { "-6" };
        ip(&[family, "rule", "delete", "priority", &format!("{}", 1000 + u32::from(number))]);
        single.converges(1);
        ip(&["address", "delete", &addressed(number), "dev", "up0"]);
        single.converges(1);
    }
}

pub(crate) fn an_object_that_another_writer_changed_is_back_without_a_dump() {
    let mut single = Single::settled();
    for number in [50, 51] {
        let dst = neighbour(number, 1).dst.to_string();
        ip(&["neigh", "replace", &dst, "lladdr", "02:00:00:00:00:07", "dev", "up0"]);
        assert_eq!(neighbours("02:00:00:00:00:07"), 1);
        single.converges(1);
        assert_eq!(neighbours("02:00:00:00:00:07"), 0);
    }
    // A rule with our protocol that nobody declares.
    ip(&["rule", "add", "priority", "900", "table", "100", "protocol", "116"]);
    single.converges(1);
    assert_eq!(shown(&["rule", "show"], "900:"), 0);
}

pub(crate) fn a_writers_object_on_a_new_key_is_a_conflict_and_stays() {
    let mut single = Single::settled();
    let theirs = neighbour(MANY, 9).dst.to_string();
    ip(&["neigh", "add", &theirs, "lladdr", "02:00:00:00:00:09", "dev", "up0"]);
    ip(&["address", "add", "10.77.0.1/24", "dev", "up0", "metric", "77"]);
    single.rest();
    single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(MANY, 1));
    single.agent.desired.addresses.as_mut().unwrap().insert(address("up0", "10.77.0.1/24"));
    for extent in [Extent::Dirty, Extent::Dirty, Extent::Everything] {
        single.agent.source.drain().unwrap();
        let report = single.agent.pass(extent);
        // The address serves as it is.
        assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
        assert_eq!(neighbours("02:00:00:00:00:09"), 1);
        assert_eq!(shown(&["address", "show", "dev", "up0"], "10.77.0.1/24 metric 77"), 1);
    }
    // Another change goes on beside the conflicts, and does not touch them.
    single.agent.desired.rules.as_mut().unwrap().insert(rule(MANY, 100));
    let report = single.pass_without_a_dump();
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    assert_eq!(neighbours("02:00:00:00:00:09"), 1);
    // What is gone is made.
    ip(&["neigh", "delete", &theirs, "dev", "up0"]);
    ip(&["address", "delete", "10.77.0.1/24", "dev", "up0"]);
    single.is_in_place_after_a_full_pass();
}

/// Another writer takes over our neighbour just before its declaration changes, or after it has
/// changed it with our protocol. The kernel announces it while nothing was planned yet.
pub(crate) fn a_neighbour_that_another_writer_took_over_is_not_changed() {
    let mut single = Single::settled();
    let [first, second] = [50, 52].map(|number| neighbour(number, 1));
    for dst in [first.dst, second.dst].map(|dst| dst.to_string()) {
        ip(&["neigh", "replace", &dst, "lladdr", "02:00:00:00:00:08", "dev", "up0"]);
        let theirs = ["lladdr", "02:00:00:00:00:09", "dev", "up0", "protocol", "static"];
        ip(&[&["neigh", "replace", &dst][..], &theirs].concat());
    }
    let declared = single.agent.desired.neighbours.as_mut().unwrap();
    declared.remove(&first.canonical_key());
    for extent in [Extent::Dirty, Extent::Dirty, Extent::Everything] {
        single.agent.source.drain().unwrap();
        let report = single.agent.pass(extent);
        assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
        assert_eq!(neighbours("02:00:00:00:00:09"), 2, "{}", describe(&report));
    }
}

/// An equal rule of another writer serves in the place of ours. If it is adopted, it is written.
pub(crate) fn a_rule_that_serves_is_adopted() {
    uplinks(1);
    ip(&["rule", "add", "priority", "1050", "table", "100", "protocol", "static"]);
    let faults = Faults::over(Namespace::current());
    Snapshot::settled();
    let mut single = Single { agent: Agent::declaring(faults.namespace(), many()), faults };
    single.rest();
    assert_eq!(shown(&["rule", "show"], "1050:"), 1);
    let rules = single.agent.desired.rules.as_mut().unwrap();
    rules.adopt(rule(50, 100).canonical_key());
    single.rest();
    let rules = single.agent.desired.rules.as_mut().unwrap();
    rules.remove(&rule(50, 100).canonical_key());
    single.rest();
    assert_eq!(shown(&["rule", "show"], "1050:"), 0, "it was ours");
    single.is_in_place();
}

/// Another writer's objects beside ours come and go without a read.
pub(crate) fn another_writers_objects_beside_ours_cost_no_dump() {
    let mut single = Single::settled();
    let dst = neighbour(240, 1).dst.to_string();
    for protocol in ["static", "zebra"] {
        let object = [&dst, "lladdr", "02:00:00:00:00:09", "dev", "up0", "protocol", protocol];
        ip(&[&["neigh", "replace"][..], &object].concat());
        ip(&["rule", "add", "priority", "900", "table", "100", "protocol", protocol]);
        single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(MANY, 1));
        single.agent.desired.rules.as_mut().unwrap().insert(rule(MANY, 100));
        let report = single.pass_without_a_dump();
        assert_eq!(commands(&report).len(), 2, "{}", describe(&report));
        let key = neighbour(MANY, 1).canonical_key();
        single.agent.desired.neighbours.as_mut().unwrap().remove(&key);
        single.agent.desired.rules.as_mut().unwrap().remove(&rule(MANY, 100).canonical_key());
        ip(&["rule", "delete", "priority", "900"]);
        let report = single.pass_without_a_dump();
        assert_eq!(commands(&report).len(), 2, "{}", describe(&report));
    }
    single.is_in_place();
}

/// A missing device switches nothing else to reads, also once other objects have changed.
pub(crate) fn what_waits_for_a_device_costs_other_objects_no_dump() {
    let mut single = Single::settled();
    let mut waiting = neighbour(MANY, 1);
    waiting.dev = name("gone0");
    single.agent.desired.neighbours.as_mut().unwrap().insert(waiting);
    single.agent.source.drain().unwrap();
    assert!(!single.agent.pass(Extent::Everything).converged());
    for number in [MANY, MANY + 1] {
        // A new address wakes what waits.
        let addresses = single.agent.desired.addresses.as_mut().unwrap();
        addresses.insert(address("up0", &addressed(number)));
        let report = single.pass_without_a_dump();
        assert!(!report.converged(), "one still waits: {}", describe(&report));
        assert_eq!(shown(&["address", "show", "dev", "up0"], &addressed(number)), 1);
        Snapshot::settled();
    }
    ip(&["link", "add", "gone0", "type", "veth", "peer", "name", "gone1"]);
    ip(&["link", "set", "gone0", "up"]);
    single.is_in_place_after_a_full_pass();
    assert_eq!(shown(&["neigh", "show", "dev", "gone0"], "02:00:00:00:00:01"), 1);
}

/// A neighbour that is declared on a missing device stays where it is until the device exists.
pub(crate) fn a_neighbour_stays_until_its_new_device_exists() {
    let mut single = Single::settled();
    let (here, mut moved) = (neighbour(50, 1), neighbour(50, 1));
    moved.dev = name("gone0");
    let declared = single.agent.desired.neighbours.as_mut().unwrap();
    declared.remove(&here.canonical_key());
    declared.insert(moved);
    let theirs = ["lladdr", "02:00:00:00:00:09", "dev", "up0", "protocol", "static"];
    for at in 0..4 {
        single.agent.source.drain().unwrap();
        let report = single.agent.pass(Extent::Dirty);
        assert!(!report.converged(), "{}", describe(&report));
        assert_eq!(neighbours(&format!("{} ", here.dst)), 1, "{}", describe(&report));
        // The next one reads all of the device.
        let on_ours = neighbour(52 + at, 1).dst.to_string();
        ip(&[&["neigh", "replace", &on_ours][..], &theirs].concat());
    }
}

/// Another writer removes a rule and makes it again before our message: it was no loss.
pub(crate) fn a_rule_that_came_back_by_itself_is_no_loss() {
    let mut single = Single::settled();
    let words = ["priority", "1050", "table", "100", "protocol", "116"];
    for _ in 0..8 {
        ip(&[&["rule", "delete"][..], &words].concat());
        let back = move || drop(ip(&[&["rule", "add"][..], &words].concat()));
        single.faults.add(At::Change(1), Fault::Writer(Arc::new(back)));
        single.agent.source.drain().unwrap();
        let report = single.agent.pass(Extent::Dirty);
        single.faults.clear();
        assert!(report.converged(), "{}", describe(&report));
        assert_eq!(shown(&["rule", "show"], "1050:"), 1);
    }
    single.is_in_place();
}

/// A route through a subnet that is in place does not wait for a new address in it.
pub(crate) fn a_route_does_not_wait_for_an_address_that_it_does_not_need() {
    let mut single = Single::declaring(many().with_routes([via("10.60.0.0/24", "172.20.50.9")]));
    single.agent.desired.addresses.as_mut().unwrap().insert(address("up0", "172.20.50.2/24"));
    single.agent.desired.routes.as_mut().unwrap().insert(via("10.61.0.0/24", "172.20.50.9"));
    single.faults.add(At::Change(1), Fault::Refuse(EPERM));
    single.agent.source.drain().unwrap();
    let report = single.agent.pass(Extent::Dirty);
    assert_eq!(report.failed().count(), 1, "{}", describe(&report));
    assert_eq!(shown(&["route", "show"], "10.61.0.0/24"), 1, "{}", describe(&report));
    single.faults.clear();
    single.is_in_place_after_a_full_pass();
}

// fact 72
pub(crate) fn a_neighbour_that_silently_became_anothers_is_not_changed() {
    let mut single = Single::settled();
    let [removed, changed] = [50, 52].map(|number| neighbour(number, 1));
    for dst in [removed.dst, changed.dst].map(|dst| dst.to_string()) {
        let same = ["lladdr", "02:00:00:00:00:01", "dev", "up0", "protocol", "static"];
        ip(&[&["neigh", "replace", &dst][..], &same].concat());
    }
    assert_eq!(single.agent.source.drain().unwrap(), Drained::Nothing);
    let declared = single.agent.desired.neighbours.as_mut().unwrap();
    declared.remove(&removed.canonical_key());
    declared.insert(neighbour(52, 2));
    for extent in [Extent::Dirty, Extent::Dirty, Extent::Everything] {
        let report = single.agent.pass(extent);
        assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
        assert_eq!(neighbours("proto static"), 2, "{}", describe(&report));
        assert_eq!(neighbours("02:00:00:00:00:02"), 0, "{}", describe(&report));
    }
}

/// The last address of a device takes its neighbours along, so it stays for another writer's.
pub(crate) fn what_was_kept_for_another_writers_neighbour_goes_after_it() {
    ip_batch([
        "link add held0 type veth peer name held1",
        "link set held0 up",
        "link set held1 up",
    ]);
    let declared = nothing().with_addresses([address("held0", "10.77.0.1/24")]);
    let mut single = Single::declaring(declared);
    let theirs = ["10.77.0.7", "dev", "held0"];
    let add = ["lladdr", "02:00:00:00:00:09", "nud", "permanent", "protocol", "static"];
    ip(&[&["neigh", "add"][..], &theirs, &add].concat());
    single.rest();
    single.agent.desired.addresses = Some([].into());
    let report = single.agent.pass(Extent::Dirty);
    assert!(!report.converged(), "{}", describe(&report));
    assert_eq!(shown(&["address", "show", "dev", "held0"], "10.77.0.1/24"), 1);
    ip(&[&["neigh", "delete"][..], &theirs].concat());
    single.rest();
    assert_eq!(shown(&["address", "show", "dev", "held0"], "10.77.0.1/24"), 0);
}

/// Without announcements nothing shows that the kernel itself refuses to keep a neighbour.
pub(crate) fn what_goes_while_no_announcement_arrives_is_made_again() {
    let mut single = Single::settled();
    let dst = neighbour(50, 1).dst.to_string();
    let delete = move || drop(ip(&["neigh", "delete", &dst, "dev", "up0"]));
    delete();
    single.faults.add(At::Announcements, Fault::Lose);
    let once = Once::new();
    let delete_ours = move || {
        if neighbours(&format!("{} ", neighbour(50, 1).dst)) == 1 {
            once.call_once(&delete);
        }
    };
    single.faults.add(At::EveryDump(Kind::Neighbour), Fault::Writer(Arc::new(delete_ours)));
    single.agent.pass(Extent::Everything);
    single.faults.clear();
    let report = single.agent.pass(Extent::Everything);
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(neighbours(&format!("{} ", neighbour(50, 1).dst)), 1);
}

impl Single {
    fn is_in_place_after_a_full_pass(&mut self) {
        let report = self.agent.pass(Extent::Everything);
        assert!(report.converged(), "{}", describe(&report));
        self.is_in_place();
    }
}

pub(crate) fn a_writers_object_that_served_is_not_changed_with_the_declaration() {
    uplinks(1);
    let dst = neighbour(50, 1).dst.to_string();
    ip(&["neigh", "add", &dst, "lladdr", "02:00:00:00:00:01", "dev", "up0"]);
    ip(&["rule", "add", "priority", "1050", "table", "100"]);
    let faults = Faults::over(Namespace::current());
    Snapshot::settled();
    let mut single = Single { agent: Agent::declaring(faults.namespace(), many()), faults };
    single.rest();
    single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(50, 2));
    let rules = single.agent.desired.rules.as_mut().unwrap();
    rules.remove(&rule(50, 100).canonical_key());
    for extent in [Extent::Dirty, Extent::Everything] {
        single.agent.source.drain().unwrap();
        let report = single.agent.pass(extent);
        assert_eq!(report.conflicts().len(), 1, "{}", describe(&report));
        assert_eq!(neighbours("02:00:00:00:00:02"), 0);
        let theirs = format!("{dst} lladdr 02:00:00:00:00:01");
        assert_eq!(neighbours(&theirs), 1);
        assert_eq!(shown(&["rule", "show"], "1050:"), 1);
    }
}

pub(crate) fn one_refused_object_is_left_and_holds_up_no_other() {
    let mut single = Single::settled();
    for number in MANY..MANY + 3 {
        single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(number, 1));
    }
    single.faults.add(At::Change(2), Fault::Refuse(EPERM));
    let report = single.pass_without_a_dump();
    assert_eq!(
        (report.applied().count(), report.failed().count()),
        (2, 1),
        "{}",
        describe(&report)
    );
    assert!(!report.converged());
    // A later change is planned without the one that failed.
    single.agent.desired.rules.as_mut().unwrap().insert(rule(MANY, 100));
    let report = single.pass_without_a_dump();
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    assert!(!report.converged(), "one is still missing");
    single.is_in_place_after_a_full_pass();
}

pub(crate) fn after_a_loss_of_announcements_everything_is_read() {
    let mut single = Single::settled();
    let dst = neighbour(50, 1).dst.to_string();
    single.faults.add(At::Announcements, Fault::Overrun);
    ip(&["neigh", "delete", &dst, "dev", "up0"]);
    assert_eq!(single.agent.source.drain().unwrap(), Drained::Lost);
    single.faults.clear();
    single.faults.add(At::EveryDump(Kind::Neighbour), Fault::Refuse(EPERM));
    assert!(single.agent.try_pass(Extent::Dirty).is_err(), "it reads");
    single.faults.clear();
    let report = single.agent.pass(Extent::Dirty);
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    single.is_in_place();
}

/// The kernel announces a deleted neighbour, and an IPv6 address, without the writer's port.
pub(crate) fn own_writes_that_are_announced_without_their_port_are_no_news() {
    let mut single = Single::settled();
    let number = MANY + 1;
    single.agent.desired.neighbours.as_mut().unwrap().insert(neighbour(number, 1));
    single.agent.desired.addresses.as_mut().unwrap().insert(address("up0", &addressed(number)));
    let report = single.pass_without_a_dump();
    assert_eq!(commands(&report).len(), 2, "{}", describe(&report));
    // The kernel announces the address from a work queue, perhaps after the pass.
    single.rest();
    single.agent.desired.neighbours.as_mut().unwrap().remove(&neighbour(number, 1).canonical_key());
    let report = single.pass_without_a_dump();
    assert_eq!(commands(&report).len(), 1, "{}", describe(&report));
    Snapshot::settled();
    assert_eq!(single.agent.source.drain().unwrap(), Drained::Nothing);
    single.is_in_place();
}

pub(crate) fn a_rule_goes_without_those_of_its_priority_that_have_more_selectors() {
    let from = |network: &str| {
        Rule::new(Family::Inet, 77, RuleAction::Lookup(100)).with_from(network.parse().unwrap())
    };
    let plain = Rule::new(Family::Inet, 77, RuleAction::Lookup(100));
    let all = ["10.1.0.0/16", "10.2.0.0/16"].map(from);
    let mut single = Single::declaring(many());
    // The kernel refuses the plain rule as existing while there is one with more selectors.
    for rules in [&all[..1], &all[1..], &[plain.clone()][..]] {
        single.agent.desired.rules.as_mut().unwrap().extend(rules.to_vec());
        let report = single.agent.pass(Extent::Dirty);
        assert!(report.converged(), "{}", describe(&report));
        single.is_in_place();
    }
    single.agent.desired.rules.as_mut().unwrap().remove(&plain.canonical_key());
    let report = single.agent.pass(Extent::Dirty);
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(shown(&["rule", "show"], "77:"), 2);
    single.is_in_place();
    ip_batch(["rule delete priority 77 from 10.1.0.0/16"]);
    single.agent.source.drain().unwrap();
    let report = single.agent.pass(Extent::Dirty);
    assert!(report.converged(), "{}", describe(&report));
    assert_eq!(shown(&["rule", "show"], "77:"), 2);
}

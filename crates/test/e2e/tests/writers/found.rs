//! Situations found by the properties, one for each test.

use trueup_e2e::desired::{name, nothing};
use trueup_net::{Address, Desired, Link, LinkKind, Neighbour, VxlanAttrs};
use trueup_reconcile::{Ledger as _, Report as _};
use trueup_rtnl::{Options, Report};
use trueup_testkit::{Kind, Snapshot, ip, ip_batch, uplinks};

use crate::ours::Ours;

fn converge(ours: &mut Ours, desired: &Desired) -> Report {
    let (report, message) = ours.pass(desired);
    let report = report.unwrap();
    assert!(report.converged(), "{}", message.join("\n"));
    report
}

fn taking() -> Ours {
    let options = Options::default().with_take(true);
    Ours::new(options, false)
}

/// If a pair is recreated, its other end is deleted, and a link of another kind with that name is
/// ours as well.
pub(crate) fn a_link_under_the_name_of_an_end_that_goes_is_ours() {
    let mut ours = Ours::new(Options::default(), false);
    let up = |dev: &str, kind| Link::new(name(dev), kind).with_up(true);
    let pair = |one: &str, other: &str| {
        let peer = name(other);
        up(one, LinkKind::veth(peer))
    };
    let vxlan = LinkKind::Vxlan(VxlanAttrs::new(1).with_port(4789));
    let links = |links| nothing().with_links(links);
    let before = Snapshot::settled();
    converge(&mut ours, &links(vec![pair("v0", "v1")]));
    converge(&mut ours, &links(vec![pair("v0", "v2"), up("v1", vxlan)]));
    converge(&mut ours, &nothing());
    before.assert_same(&Snapshot::settled());
    assert!(ours.ledger.owned().unwrap().is_empty());
}

/// If a neighbour is replaced without a protocol, the kernel keeps the old one.
pub(crate) fn a_neighbour_without_a_protocol_is_given_back_without() {
    uplinks(1);
    ip_batch(["neighbour add 10.200.0.9 lladdr 02:00:00:00:00:01 dev up0 nud permanent"]);
    let his = Snapshot::settled();
    let dst = "10.200.0.9".parse().unwrap();
    let lladdr = "02:00:00:00:00:02".parse().unwrap();
    let desired = nothing().with_neighbours([Neighbour::new(name("up0"), dst, lladdr)]);
    let mut ours = taking();
    converge(&mut ours, &desired);
    assert_eq!(Snapshot::take().without_protocol(116).of(Kind::Neighbour).count(), 0);
    let given = converge(&mut ours, &nothing());
    assert_eq!(given.findings().count(), 1);
    his.assert_same(&Snapshot::settled());
    assert_eq!(converge(&mut ours, &nothing()).ops().count(), 0);
}

/// If the other writer removed an object while we had overridden it, we do not restore it.
pub(crate) fn what_he_removed_while_it_was_taken_is_not_given_back() {
    uplinks(1);
    let before = Snapshot::settled();
    ip(&["address", "add", "10.9.0.1/24", "dev", "up0"]);
    let mut one = Address::new(name("up0"), "10.9.0.1/24".parse().unwrap());
    one.lifetimes.valid = 5000;
    one.lifetimes.preferred = 4000;
    let desired = nothing().with_addresses([one]);
    let mut ours = taking();
    let taken = converge(&mut ours, &desired);
    assert_eq!(taken.findings().count(), 1);
    ip(&["address", "delete", "10.9.0.1/24", "dev", "up0"]);
    converge(&mut ours, &desired);
    converge(&mut ours, &nothing());
    before.assert_same(&Snapshot::settled());
}

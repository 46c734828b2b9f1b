use std::net::IpAddr;

use crate::{Family, IfName, Lifetimes, Link, LinkKind, Rule, RuleAction, VlanAttrs, VxlanAttrs};

use super::Check;

fn link(kind: LinkKind<IfName>) -> Link<IfName> {
    Link::new("a".parse().unwrap(), kind)
}

/// Asserts that `taken` passes the check and `refused` does not.
fn bounded(taken: impl Check, refused: impl Check) {
    assert_eq!(taken.check(), Ok(()));
    assert!(refused.check().is_err());
}

#[test]
fn what_is_bounded_is_taken_to_the_last_and_no_further() {
    let vxlan = |id| link(LinkKind::Vxlan(VxlanAttrs::new(id)));
    bounded(vxlan(16_777_215), vxlan(16_777_216));
    let vxlan = |remote: &str| {
        link(LinkKind::Vxlan(VxlanAttrs::new(7).with_remote(remote.parse::<IpAddr>().unwrap())))
    };
    bounded(vxlan("192.0.2.1"), vxlan("0.0.0.0"));
    bounded(vxlan("2001:db8::1"), vxlan("::"));
    let vlan = |id| link(LinkKind::Vlan(VlanAttrs::new("b".parse().unwrap(), id)));
    bounded(vlan(4094), vlan(4095));
    let alias = |length| link(LinkKind::Dummy).with_alias(vec![b'x'; length]);
    bounded(alias(255), alias(256));

    let goto = |target| Rule::new(Family::Inet, 100, RuleAction::Goto(target));
    bounded(goto(101), goto(100));
    let rule = || Rule::new(Family::Inet, 100, RuleAction::Lookup(254));
    let mut ports = [rule(), rule(), rule(), rule()];
    ports[0].sport = Some((1..=65534).into());
    ports[1].sport = Some((0..=65534).into());
    ports[2].sport = Some((7..=7).into());
    ports[3].sport = Some((1..=65535).into());
    let [all, from_zero, one, beyond] = ports;
    bounded(all, from_zero);
    bounded(one, beyond);

    let address = |valid, preferred| {
        let mut address =
            crate::Address::new("a".parse::<IfName>().unwrap(), "fd00::1/64".parse().unwrap());
        address.lifetimes = Lifetimes { valid, preferred };
        address
    };
    bounded(address(9, 9), address(9, 10));
    bounded(address(1, 0), address(0, 0));
}

use trueup_net::{
    Action, Address, Dev, Link, LinkKind, Nexthop, NexthopTarget, Object, Op, Reason,
};

use super::*;

#[test]
fn a_plan_exceeds_its_part_where_it_takes_others_along() {
    let device = Dev::index(2);
    let link = Object::from(Link::new("i0".parse().unwrap(), LinkKind::Ifb));
    let [ipv4, ipv6] = ["10.0.0.1/24", "fd00::1/64"]
        .map(|text| Object::from(Address::new(device, text.parse().unwrap())));
    let nexthop = Object::from(Nexthop::new(7, NexthopTarget::Blackhole(Family::Inet)));
    assert_eq!(exceeds(&link), [true; 3]);
    assert_eq!(exceeds(&ipv4), [false, false, true]);
    assert_eq!(exceeds(&ipv6), [false, true, true]);
    // Its routes go with it.
    assert_eq!(exceeds(&nexthop), [false, false, true]);
}

/// Returns true for each of an object's creation, change and deletion that exceeds its part.
fn exceeds(object: &Object) -> [bool; 3] {
    [Action::Create, Action::Update, Action::Delete].map(|action| {
        let mut plan = Plan::default();
        plan.ops.push(Op::new(action, object.clone(), Reason::Missing));
        exceeds_part(&plan)
    })
}

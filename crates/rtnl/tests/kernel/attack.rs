//! What a pass could cost a stranger behind its back, one way a test.

use trueup_diff::{Desired, Neighbour};
use trueup_reconcile::Report as _;
use trueup_rtnl::LastApplied;
use trueup_testkit::{Snapshot, ip_batch, uplinks};

use crate::support::{address, converge, name, told};

/// Where the kernel keeps the marker, an object without it is not the one that we made: a stranger
/// deleted that, and declared the same.
pub(crate) fn what_a_stranger_made_again_is_his() {
    uplinks(1);
    let all = Desired {
        addresses: Some(vec![
            address("up0", "10.9.0.1/24"),
            address("up0", "fd00:9::1/64"),
        ]),
        neighbours: Some(vec![Neighbour::new(
            name("up0"),
            "10.200.0.9".parse().unwrap(),
            "02:00:00:00:00:09".parse().unwrap(),
        )]),
        ..Desired::default()
    };
    let first = converge(&all, &LastApplied::default());
    ip_batch([
        "address delete 10.9.0.1/24 dev up0",
        "address add 10.9.0.1/24 dev up0",
        "address delete fd00:9::1/64 dev up0",
        "address add fd00:9::1/64 dev up0 nodad",
        "neighbour delete 10.200.0.9 dev up0",
        "neighbour add 10.200.0.9 lladdr 02:00:00:00:00:09 dev up0 nud permanent",
    ]);
    let his = Snapshot::settled();
    let second = converge(&all, first.last_applied());
    assert_eq!(second.ops().count(), 0, "{}", told(&second));
    let none = Desired {
        addresses: Some(vec![]),
        neighbours: Some(vec![]),
        ..Desired::default()
    };
    let third = converge(&none, second.last_applied());
    assert_eq!(third.ops().count(), 0, "{}", told(&third));
    his.assert_same(&Snapshot::settled());
}

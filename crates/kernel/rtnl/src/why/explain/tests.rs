use std::time::Duration;

use super::*;
use trueup_loop::{Config, Loop, LoopView};
use trueup_net::{Address, Desired, Hold, IpNetwork, Link};
use trueup_netlink::Namespace;
use trueup_reconcile::{Claim, Ledger as _, MemoryLedger, PassInput, Report as _, Source as _};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::mask;
use trueup_testkit::model::Kernel;

use crate::{Options, Rtnl};

/// An older kernel, which stores no marker on addresses, and the ledger after a pass that made a
/// link and an address.
fn older() -> (Namespace, MemoryLedger) {
    let kernel = mask(Kernel::new().namespace(), &[trueup_testkit::Kind::Address]);
    let name: IfName = "v0".parse().unwrap();
    let peer = "v1".parse().unwrap();
    let network: IpNetwork = "10.1.0.1/24".parse().unwrap();
    let desired = Desired::default()
        .with_links([Link::new(name, LinkKind::veth(peer))])
        .with_addresses([Address::new(name, network)]);
    let mut ledger = MemoryLedger::default();
    let options = Options::default();
    let report = Rtnl::new().reconcile(PassInput::new(&kernel, &desired, &mut ledger, &options));
    assert!(report.unwrap().converged());
    (kernel, ledger)
}

fn address() -> Query {
    Query::Address { address: [10, 1, 0, 1].into(), len: None, dev: None }
}

fn why(kernel: &Namespace, ledger: &MemoryLedger, query: &Query) -> Explanation {
    let options = Options::default();
    let why = Rtnl::new().why(kernel, None, ledger, &options, query);
    why.unwrap()
}

/// Returns the same ledger, as if the pass had been cut short before it looked at its results.
fn cut_short(ledger: &MemoryLedger) -> MemoryLedger {
    let mut open = MemoryLedger::default();
    let claims = ledger.owned().unwrap().into_iter();
    let intents = claims.map(|(key, record)| (key, Claim::Ours(record)));
    open.begin(intents.collect()).unwrap();
    open
}

#[test]
fn where_no_marker_is_stored_the_ledger_alone_is_proof() {
    let (kernel, ledger) = older();
    let explained = why(&kernel, &ledger, &address()).objects.remove(0);
    assert_eq!(explained.present[0].1, Whose::Recorded);
    assert_eq!(explained.entry.unwrap().origin, Origin::MadeOrAdopted);
    assert_eq!(explained.next, [Step::Unmanaged]);
    let forgotten = MemoryLedger::default();
    let explained = why(&kernel, &forgotten, &address()).objects.remove(0);
    assert_eq!(explained.present[0].1, Whose::Unmarked);
    assert_eq!(explained.entry, None);
}

#[test]
fn a_running_loop_explains_what_it_holds_back() {
    const EBUSY: i32 = 16;
    const LONG: Duration = Duration::from_secs(60);
    let faults = Faults::over(Kernel::new().namespace());
    faults.add(At::EveryChange, Fault::Refuse(EBUSY));
    let name: IfName = "d0".parse().unwrap();
    let link = Link::new(name, LinkKind::Dummy);
    let desired = Desired::default().with_links([link]);
    let (scope, ledger) = (faults.namespace(), MemoryLedger::default());
    let options = Options::default();
    let config = Config::default().with_backoff(LONG, LONG).with_interval(LONG);
    let running =
        Loop::new(Rtnl::new(), scope, desired, ledger, options, config).spawn("rtnl").unwrap();
    let handle = running.handle();
    handle.force(LONG).unwrap();
    handle.pause(LONG).unwrap();
    let explanation = handle
        .ask(
            move |view: LoopView<'_, Rtnl>| {
                let LoopView { source, scope, desired, ledger, options, limits, .. } = view;
                let query = Query::Link { name };
                source.why_within(scope, Some(desired), ledger, options, &query, &limits)
            },
            LONG,
        )
        .unwrap()
        .unwrap();
    let [Step::Op { op, .. }] = &explanation.objects[0].next[..] else { panic!("{explanation:?}") };
    assert!(matches!(op.hold, Some(Hold::Backoff(_))), "{op:?}");
    running.stop(LONG).unwrap();
}

#[test]
fn an_open_intent_is_answered_by_what_is_there() {
    let (kernel, ledger) = older();
    let link = Query::Link { name: "v1".parse().unwrap() };
    for query in [&address(), &link] {
        let explanation = why(&kernel, &cut_short(&ledger), query);
        assert_eq!(explanation, why(&kernel, &ledger, query));
        assert_eq!(explanation.objects[0].present[0].1, Whose::Recorded);
    }
}

#[test]
fn an_intent_of_which_nothing_can_be_read_stays_open() {
    let (kernel, ledger) = older();
    let faults = Faults::over(kernel);
    let every = At::EveryDump(trueup_testkit::Kind::Address);
    // The first is the loopback device's.
    faults.add(every, Fault::LoseRow(2));
    faults.add(every, Fault::Interrupt);
    let explanation = why(&faults.namespace(), &cut_short(&ledger), &address());
    assert_eq!(explanation.doubts.len(), 1);
    let explained = &explanation.objects[0];
    assert_eq!(explained.present, []);
    assert!(explained.entry.as_ref().unwrap().is_open);
}

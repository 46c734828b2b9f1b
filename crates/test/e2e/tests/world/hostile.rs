//! A host that tries to harm the others through the exchange.

use rustix::process::Signal;
use trueup::world::{Export, Session, Store as _, World, Write};
use trueup_contracts::etcd::Cluster;
use trueup_etcd::EtcdStore;
use trueup_testkit::{Changes, Kind, ip, wait_until};

use crate::host::{Host, Pair, etcd, export, export_via};

const ONE: &str = "10.20.1.0/24";
const ALL: &str = "10.0.0.0/8";
/// The address of a store's member, in the uplink's subnet.
const MEMBER: &str = "10.200.0.77";
const MARKER: &str = "118";

/// In any order: the export, the address, or the loss of the store comes first.
pub(crate) fn what_covers_the_store_or_an_own_address_is_refused_and_withdrawn() {
    let mut cluster = etcd();
    let a = Host::new("a", 1, &cluster);
    let b = Host::in_main("b", 2, &cluster, MEMBER);
    let later = "10.30.0.0/24";
    a.declare(&(export("steal", MEMBER) + &export("pods", ONE) + &export("later", later)));
    b.declare(&b.collect(ALL));
    let (mut on_a, mut on_b) = (a.watch(), b.watch());
    b.wait_for_route(ONE, true);
    b.wait_for_route(later, true);
    b.wait_for_metric("trueup_world_refused", |it| it == 1.0);
    b.wait_for_metric("trueup_converged", |it| it == 1.0);
    assert!(!b.has_route(MEMBER), "{}", b.routes());
    let why = b.run(&["why", "route", MEMBER, "--file", "f.toml"]);
    let reason = format!("refused, as {MEMBER}/32 covers {MEMBER}, an address of the store");
    assert!(why.out.contains(&reason), "{why:?}");

    ip(&["address", "add", "10.30.0.5/24", "dev", "up0", "noprefixroute"]);
    b.wait_for_route(later, false);
    b.wait_for_metric("trueup_world_refused", |it| it == 2.0);
    ip(&["address", "del", "10.30.0.5/24", "dev", "up0"]);
    b.wait_for_route(later, true);

    // An earlier version accepted it, and the store has been away since.
    on_b.terminate(Signal::TERM);
    cluster.kill(0).unwrap();
    let stuck = ["route", "add", MEMBER, "via", "10.200.0.8", "proto", MARKER];
    ip(&stuck);
    assert!(b.has_route(MEMBER));
    let mut on_b = b.watch();
    b.wait_for_route(MEMBER, false);
    assert!(b.has_route(ONE) && b.has_route(later), "{}", b.routes());
    b.wait_for_metric("trueup_world_known", |it| it == 0.0);
    on_b.terminate(Signal::TERM);
    on_a.terminate(Signal::TERM);
}

pub(crate) fn what_the_kernel_refuses_keeps_no_collector_from_converging() {
    let cluster = etcd();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    let nowhere = "10.20.2.0/24";
    a.declare(&(export("pods", ONE) + &export_via("nowhere", nowhere, "192.0.2.9")));
    b.declare(&b.collect(ALL));
    let (mut on_a, mut on_b) = (a.watch(), b.watch());
    b.wait_for_route(ONE, true);
    b.wait_for_metric("trueup_world_collected", |it| it == 2.0);
    b.wait_for_metric("trueup_converged", |it| it == 1.0);
    wait_until("it is said", || b.log().contains(&format!("route {nowhere}")));
    assert!(!b.has_route(nowhere));
    // The agent keeps trying.
    ip(&["route", "add", "192.0.2.0/24", "dev", "up0"]);
    b.wait_for_route(nowhere, true);
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
}

fn write(cluster: &Cluster, write: Write) {
    let store = EtcdStore::open(cluster.config()).unwrap();
    store.commit(&[], &[write]).unwrap();
}

/// A host can write its own keys, so it can omit the lease from a session.
pub(crate) fn a_dead_host_s_route_that_stays_is_not_converged() {
    let mut pair = Pair::start(ONE, "", "");
    pair.b.wait_for_metric("trueup_converged", |it| it == 1.0);
    let key = b"/trueup/hosts/a/session".to_vec();
    let session = Write::Put {
        key: key.clone(),
        value: br#"{"owner":"a","session":"1"}"#.to_vec(),
        lease: None,
    };
    pair.on_a.0.kill().unwrap();
    pair.on_a.0.wait().unwrap();
    write(&pair.cluster, session);
    pair.b.wait_for_metric("trueup_converged", |it| it == 0.0);
    let said = "host a has a session and has not declared its exports: 1 export that it deleted";
    wait_until("it says so", || pair.b.log().contains(said));
    assert!(pair.b.has_route(ONE), "what is not known stays");
    write(&pair.cluster, Write::Delete(key));
    pair.b.wait_for_route(ONE, false);
    pair.b.wait_for_metric("trueup_converged", |it| it == 1.0);
    pair.on_b.terminate(Signal::TERM);
}

pub(crate) fn an_export_that_changes_all_the_time_costs_few_changes_of_routes() {
    let cluster = etcd();
    let (a, b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    b.declare(&b.collect(ALL));
    let mut on_b = b.watch();
    b.wait_for_metric("trueup_world_known", |it| it == 1.0);
    let store = std::sync::Arc::new(EtcdStore::open(cluster.config()).unwrap());
    let world = World::new(store, "/trueup", "m").unwrap();
    let session = Session::begin(world, "m", std::time::Duration::from_secs(600)).unwrap();
    let flapping = "10.20.9.0/24";
    let put = |gateway: &str| {
        let data = format!("{{ \"dst\": \"{flapping}\", \"via\": \"{gateway}\" }}");
        session.declare(&[Export::new("route", "x", data)]).unwrap();
    };
    let mut changes = Changes::watch();
    let gateways = ["10.200.0.8", "10.200.0.9"];
    let mut turns = 0;
    let mut flap = || {
        turns += 1;
        put(gateways[turns % 2]);
    };
    wait_until("damped", || {
        flap();
        b.metrics().get("trueup_world_damped") == Some(&1.0)
    });
    (0..1_000).for_each(|_| flap());
    // Another host's export is not delayed.
    a.declare(&export("pods", ONE));
    let mut on_a = a.watch();
    b.wait_for_route(ONE, true);
    b.wait_for_metric("trueup_converged", |it| it == 1.0);
    put("10.200.0.7");
    let last = format!("{flapping} via 10.200.0.7 ");
    wait_until("the last one is taken", || b.routes().contains(&last));
    b.wait_for_metric("trueup_world_damped", |it| it == 0.0);
    let all = changes.take();
    let routes = all.iter().filter(|it| it.kind == Kind::Route).count();
    assert!(routes < 60, "{routes} changes of routes after {turns} exports");
    on_a.terminate(Signal::TERM);
    on_b.terminate(Signal::TERM);
}

//! Networks that are cut silently.

use std::time::{Duration, Instant};

use trueup_contracts::etcd::ClusterOptions;
use trueup_world::{ErrorKind, Revision, Store};

use crate::help::{SOON, change, end, open, open_with, set, set_at_last, watch_at_last};
use crate::net::cluster;

/// Lets clients ping often.
fn often(options: ClusterOptions) -> ClusterOptions {
    options.with_arguments(["--grpc-keepalive-min-time=500ms"])
}

/// No byte says that the connection is gone.
pub(crate) fn a_half_open_connection_is_noticed_by_keep_alives() {
    let (net, cluster) = cluster(3, often);
    let second = Duration::from_secs(1);
    let config = cluster.config().with_keep_alive(second, 5 * second);
    let host = net.host(1);
    let store = host.inside(|| open_with(config));
    let newest = set_at_last(&store, "/a", "1");
    let mut watch = watch_at_last(&store, newest);
    watch.next(second).unwrap();
    host.cut();
    // TCP alone would take a quarter of an hour.
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
    let error = store.read(b"/", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // Meanwhile other clients write.
    set_at_last(&open(cluster.config()), "/a", "2");
    host.heal();
    let mut watch = watch_at_last(&store, newest);
    assert!(change(&mut watch).ends_with(" /a=2"));
}

/// etcd closes connections that ping too often.
pub(crate) fn keep_alives_are_not_too_many_for_etcd() {
    let cluster = crate::help::one_with(&["--grpc-keepalive-min-time=500ms"]);
    // The ratio is that of the defaults: 6 s to 5 s.
    let interval = Duration::from_millis(600);
    let store = open(cluster.config().with_keep_alive(interval, SOON));
    let mut watch = store.watch(b"/", Revision(1)).unwrap();
    watch.next(SOON).unwrap();
    assert_eq!(watch.next(12 * interval).unwrap(), None);
    set(&store, "/a", "1");
    assert_eq!(change(&mut watch), "2: /a=1");
}

/// Its clients reach it, but nothing new does.
pub(crate) fn a_watch_of_a_member_without_the_others_ends() {
    let (net, cluster) = cluster(3, |options| options);
    let used = (cluster.wait_for_leader().unwrap() + 1) % 3;
    let (others, alone) = (open_with(cluster.config()), open_with(cluster.config_of(&[used])));
    let newest = set_at_last(&alone, "/a", "1");
    let mut watch = watch_at_last(&alone, newest);
    net.cut_peers(used);
    let error = end(&mut watch);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no leader"), "{error}");
    set_at_last(&others, "/a", "2");
    assert!(alone.read(b"/", None).unwrap_err().is_retryable());
    net.heal_peers(used);
    let mut watch = watch_at_last(&alone, newest);
    assert!(change(&mut watch).ends_with(" /a=2"));
}

pub(crate) fn compaction_while_cut_off_is_reported() {
    let (net, cluster) = cluster(3, often);
    let second = Duration::from_secs(1);
    let config = cluster.config().with_keep_alive(second, 5 * second);
    let host = net.host(1);
    let store = host.inside(|| open_with(config));
    let other = open(cluster.config());
    let newest = set_at_last(&other, "/a", "1");
    let lease = other.grant(10 * second).unwrap();
    other.commit(&[], &[crate::help::put("/mine", "1", Some(lease))]).unwrap();
    let mut watch = watch_at_last(&store, newest);
    host.cut();
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
    // The key of the host that was cut off goes with its lease.
    let mut watch = watch_at_last(&other, newest);
    while !change(&mut watch).ends_with(" -/mine") {}
    set_at_last(&other, "/a", "2");
    let compacted = set_at_last(&other, "/a", "3");
    cluster.compact(compacted).unwrap();
    host.heal();
    let begun = Instant::now();
    let error = loop {
        match store.watch(b"/", newest) {
            Ok(mut watch) => break end(&mut watch),
            Err(error) => assert!(error.is_retryable() && begun.elapsed() < SOON, "{error}"),
        }
    };
    assert_eq!(error.kind(), ErrorKind::Compacted);
    // The current state is read again. Deletions show as missing keys.
    let now = other.read(b"/", None).unwrap();
    assert_eq!(now.1.len(), 1);
    assert_eq!(&*now.1[0].value, b"3");
    assert_eq!(other.renew(lease).unwrap_err().kind(), ErrorKind::LeaseEnded);
}

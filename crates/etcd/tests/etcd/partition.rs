//! Networks that are cut without a word.

use std::time::{Duration, Instant};

use trueup_world::{ErrorKind, Revision, Store};

use crate::help::{SOON, change, end, open, set, set_at_last};
use crate::net::cluster;

/// Of keep-alives, and how long an answer may take.
const INTERVAL: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_secs(3);

/// No byte says that the connection is gone.
pub(crate) fn a_half_open_connection_is_noticed_by_keep_alives() {
    let (net, cluster) = cluster(3, &["--grpc-keepalive-min-time=500ms"]);
    let config = cluster.config().with_keep_alive(INTERVAL, ANSWER);
    let host = net.host(1);
    let store = host.inside(|| open(config));
    assert_eq!(set(&store, "/a", "1"), Revision(2));
    let mut watch = store.watch(b"/", Revision(2)).unwrap();
    watch.next(INTERVAL).unwrap();
    host.cut();
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
    let error = store.read(b"/", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // Meanwhile others write.
    set(&open(cluster.config()), "/a", "2");
    host.heal();
    let begun = Instant::now();
    let mut watch = loop {
        match store.watch(b"/", Revision(2)) {
            Ok(watch) => break watch,
            Err(error) => assert!(error.is_retryable() && begun.elapsed() < SOON, "{error}"),
        }
    };
    assert_eq!(change(&mut watch), "3: /a=2");
}

/// etcd closes connections that ask too often for a sign of life.
pub(crate) fn keep_alives_are_not_too_many_for_etcd() {
    let cluster = crate::help::one_with(&["--grpc-keepalive-min-time=500ms"]);
    // In the same proportion as what is used unless set: 6 s to 5 s.
    let interval = Duration::from_millis(600);
    let store = open(cluster.config().with_keep_alive(interval, SOON));
    let mut watch = store.watch(b"/", Revision(1)).unwrap();
    watch.next(SOON).unwrap();
    assert_eq!(watch.next(12 * interval).unwrap(), None);
    set(&store, "/a", "1");
    assert_eq!(change(&mut watch), "2: /a=1");
}

/// Its clients reach it, and nothing new does.
pub(crate) fn a_watch_of_a_member_without_the_others_ends() {
    let (net, cluster) = cluster(3, &[]);
    let used = (cluster.wait_for_leader().unwrap() + 1) % 3;
    let (others, alone) = (open(cluster.config()), open(cluster.config_of(&[used])));
    let newest = set(&alone, "/a", "1");
    let mut watch = alone.watch(b"/", newest).unwrap();
    net.cut_peers(used);
    let error = end(&mut watch);
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no leader"), "{error}");
    set_at_last(&others, "/a", "2");
    assert!(alone.read(b"/", None).unwrap_err().is_retryable());
    net.heal_peers(used);
    let begun = Instant::now();
    let mut watch = loop {
        match alone.watch(b"/", newest) {
            Ok(watch) => break watch,
            Err(error) => assert!(error.is_retryable() && begun.elapsed() < SOON, "{error}"),
        }
    };
    assert!(change(&mut watch).ends_with(" /a=2"));
}

pub(crate) fn compaction_while_cut_off_is_told() {
    let (net, cluster) = cluster(3, &["--grpc-keepalive-min-time=500ms"]);
    let config = cluster.config().with_keep_alive(INTERVAL, ANSWER);
    let host = net.host(1);
    let store = host.inside(|| open(config));
    let lease = store.grant(Duration::from_secs(5)).unwrap();
    let newest = set(&store, "/a", "1");
    let mine = crate::help::put("/mine", "1", Some(lease));
    store.commit(&mine).unwrap();
    let mut watch = store.watch(b"/", newest).unwrap();
    host.cut();
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
    let other = open(cluster.config());
    // With its lease the key of the one that was cut off goes.
    let mut watch = other.watch(b"/mine", newest).unwrap();
    while !change(&mut watch).ends_with(" -/mine") {}
    set(&other, "/a", "2");
    let compacted = set(&other, "/a", "3");
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
    // What it holds by now is read anew, deletions by their absence.
    let now = store.read(b"/", None).unwrap();
    assert_eq!(now.entries.len(), 1);
    assert_eq!(&*now.entries[0].value, b"3");
    assert_eq!(
        store.renew(lease).unwrap_err().kind(),
        ErrorKind::LeaseEnded
    );
}

//! How long a dead host's keys stay.

use std::thread;
use std::time::{Duration, Instant};

use trueup_etcd::testing::{Cluster, ClusterOptions};
use trueup_testkit::wait_until;
use trueup_world::Store;

use crate::help::{open_with, put};

/// etcd#9395, #15247: leases begin anew when the leader changes, for their time to live and an
/// election timeout (1 s) more. So a dead host's keys stay for twice the time to live at most, an
/// election, and that second.
pub(crate) fn a_dead_host_s_keys_go_after_a_leader_change() {
    let ttl = Duration::from_secs(3);
    let mut cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let store = open_with(cluster.config());
    // The leader ends with the host, and shortly before the lease would.
    for wait in [Duration::ZERO, ttl * 4 / 5] {
        let mut died = Instant::now();
        wait_until("the key is there", || {
            let Ok(lease) = store.grant(ttl) else {
                return false;
            };
            died = Instant::now();
            store.commit(&put("/a", "1", Some(lease))).is_ok()
        });
        let leader = cluster.wait_for_leader().unwrap();
        thread::sleep(wait);
        cluster.kill(leader).unwrap();
        let killed = died.elapsed();
        wait_until("the key is gone", || {
            let now = store.read(b"/a", None);
            now.is_ok_and(|now| now.entries.is_empty())
        });
        let gone = died.elapsed();
        println!("leader killed after {killed:.1?}: keys gone after {gone:.1?}");
        // On a busy machine the lease may have ended before the leader did.
        if killed < ttl {
            assert!(
                gone >= killed + ttl,
                "{gone:?}: the lease did not begin anew"
            );
        }
        cluster.restart(leader).unwrap();
        cluster.wait_for_leader().unwrap();
    }
}

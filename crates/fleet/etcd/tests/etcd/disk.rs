//! A full disk: the system refuses writes, and not the store's own limit.

use std::fs::{self, File};
use std::io::Write;
use std::process::Command;

use trueup_contracts::etcd::{Cluster, ClusterOptions};
use trueup_testkit::wait_until;
use trueup_world::Store;

use crate::help::{open, open_with, set_at_last};

/// etcd takes 64 MB at once for each of two parts of its log. The rest is for its database.
const SIZE: &str = "size=176m";

/// The member ends, because etcd ends if it cannot write. The others go on. Once there is space,
/// the member restarts, and has everything that was written meanwhile.
pub(crate) fn a_member_whose_disk_is_full_loses_nothing() {
    let mut cluster = Cluster::start(&ClusterOptions::local(3)).unwrap();
    let store = open_with(cluster.config());
    let member = cluster.wait_for_leader().unwrap();
    let data = cluster.folder().join(format!("m{member}"));
    // Its data moves to a disk of its own, in the mount namespace of this test.
    cluster.kill(member).unwrap();
    let kept = cluster.folder().join("kept");
    fs::rename(&data, &kept).unwrap();
    fs::create_dir(&data).unwrap();
    run("mount", &["-t", "tmpfs", "-o", SIZE, "tmpfs", &data.to_string_lossy()]);
    let inside = kept.join("member");
    run("cp", &["-a", &inside.to_string_lossy(), &data.to_string_lossy()]);
    cluster.restart(member).unwrap();
    let alone = open_with(cluster.config_of(&[member]));
    wait_until("the member serves", || alone.read(b"/none", None).is_ok());
    let ballast = data.join("ballast");
    fill(&ballast);
    // Its log goes on in space that it already has. Its database cannot grow.
    let mut written = Vec::new();
    wait_until("the member ends", || {
        let (key, value) = (format!("/{}", written.len()), "x".repeat(100_000));
        set_at_last(&store, &key, &value);
        written.push(key);
        !cluster.is_running(member)
    });
    println!("the member ended after {} writes of 100 kB", written.len());
    let newest = set_at_last(&store, "/last", "1");
    fs::remove_file(&ballast).unwrap();
    cluster.restart(member).unwrap();
    let read = |members: &[usize]| {
        let store = open(cluster.config_of(members));
        let mut snapshot = None;
        wait_until("a member has all", || {
            snapshot = store.read(b"/", Some(newest)).ok();
            snapshot.is_some()
        });
        snapshot.unwrap()
    };
    let snapshot = read(&[member]);
    assert_eq!(snapshot, read(&[(member + 1) % 3]));
    let keys: Vec<_> = snapshot.1.iter().map(|entry| &entry.key[..]).collect();
    assert!(written.iter().all(|key| keys.contains(&key.as_bytes())));
    cluster.kill(member).unwrap();
    run("umount", &[&data.to_string_lossy()]);
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

/// Writes a file until the disk is full.
fn fill(file: &std::path::Path) {
    let mut file = File::create(file).unwrap();
    for size in [1 << 20, 4096] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

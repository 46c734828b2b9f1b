//! A prefix taken by another host while its owner is away, and grants that prevent this.

use std::fs;

use rustix::process::Signal;
use trueup::world::{Store as _, Write};
use trueup_contracts::etcd::Cluster;
use trueup_etcd::EtcdStore;
use trueup_testkit::wait_until;

use crate::host::{Host, etcd, export_via};

const ALL: &str = "10.20.0.0/16";
const OF_A: &str = "10.20.1.0/24";
const A: &str = "10.200.0.8";
const M: &str = "10.200.0.9";

/// Waits until the log contains these words.
#[track_caller]
fn wait_for_log(host: &Host, words: &str) {
    wait_until(words, || host.log().contains(words));
}

pub(crate) fn the_owner_of_a_prefix_is_told_who_took_it_while_it_was_away() {
    let cluster = etcd();
    let (a, m, c) =
        (Host::new("a", 1, &cluster), Host::new("m", 2, &cluster), Host::new("c", 3, &cluster));
    a.declare(&export_via("pods", OF_A, A));
    m.declare(&export_via("x", OF_A, M));
    c.declare(&c.collect(ALL));
    // A collection from any host causes a warning, once.
    let planned = c.run(&["plan", "f.toml"]);
    assert!(planned.err.contains("warning: [[collect]] from any host"), "{planned:?}");
    let mut on_c = c.watch();
    let mut on_m = m.watch();
    c.wait_for_route(OF_A, true);
    // The owner comes back.
    let mut on_a = a.watch();
    a.wait_for_metric("trueup_world_taken", |it| it == 1.0);
    a.wait_for_metric("trueup_world_contested", |it| it == 1.0);
    wait_for_log(&a, "is taken by host m");
    // This is not a's failure: otherwise each host could keep all others from converging.
    a.wait_for_metric("trueup_converged", |it| it == 1.0);
    let why = a.run(&["why", "route", OF_A, "--file", "f.toml"]);
    assert!(why.out.contains("is taken by host m"), "{why:?}");
    let doctor = a.run(&["world", "doctor", "f.toml"]);
    assert_eq!(doctor.code, 2, "{doctor:?}");
    let expected = "is taken by host m, which exported it first or with a lower metric: `x` of \
                    host m, revision ";
    assert!(doctor.out.contains(expected), "{doctor:?}");
    let why = c.run(&["why", "route", OF_A, "--file", "f.toml"]);
    assert!(why.out.contains("exported by host m as `x`"), "{why:?}");
    // The other host learns that the owner waits.
    m.wait_for_metric("trueup_world_contested", |it| it == 1.0);
    m.wait_for_metric("trueup_world_taken", |it| it == 0.0);
    wait_for_log(&m, "is exported by host a as well");

    m.declare(&export_via("x", "10.20.1.128/25", M));
    wait_for_log(&a, "loses the part 10.20.1.128/25 to host m");
    m.declare(&export_via("x", "10.20.9.0/24", M));
    a.wait_for_metric("trueup_world_contested", |it| it == 0.0);
    wait_for_log(&a, "is no longer contested by host m");
    assert_eq!(c.log().matches("warning: [[collect]]").count(), 1, "{}", c.log());
    for running in [&mut on_a, &mut on_m, &mut on_c] {
        running.terminate(Signal::TERM);
    }
}

/// Writes the list of grants as a user with the operator's rights, but without the key.
fn write(cluster: &Cluster, value: Option<Vec<u8>>) {
    let key = b"/trueup/cluster/grants".to_vec();
    let write = match value {
        Some(value) => Write::Put { key, value, lease: None },
        None => Write::Delete(key),
    };
    let store = EtcdStore::open(cluster.config()).unwrap();
    store.commit(&[], &[write]).unwrap();
}

pub(crate) fn with_grants_a_hostile_export_is_refused_and_an_old_list_is_too() {
    let cluster = etcd();
    let (a, m, mut c) =
        (Host::new("a", 1, &cluster), Host::new("m", 2, &cluster), Host::new("c", 3, &cluster));
    let key = c.run(&["world", "grants", "key", "key"]);
    assert_eq!(key.code, 0, "{key:?}");
    c.settings = format!("grants_key = \"{}\"", key.out.trim());
    c.declare(&c.collect(ALL));
    let sign = |serial: u32, prefix: &str| {
        let list = format!(
            "{{ \"serial\": {serial}, \"grants\": \
             [{{ \"host\": \"a\", \"prefixes\": [\"{prefix}\"] }}] }}"
        );
        c.agent.write("list", &list);
        let signed = c.run(&["world", "grants", "sign", "--key", "key", "list"]);
        assert_eq!(signed.code, 0, "{signed:?}");
        c.agent.write("signed", &signed.out);
        signed.out.into_bytes()
    };
    // m claims a's prefix, then a part of it, then a larger one.
    m.declare(
        &(export_via("x", OF_A, M)
            + &export_via("part", "10.20.1.128/25", M)
            + &export_via("all", ALL, M)),
    );
    let mut on_m = m.watch();
    m.wait_for_metric("trueup_world_exported", |it| it == 1.0);
    a.declare(&export_via("pods", OF_A, A));
    let mut on_a = a.watch();
    a.wait_for_metric("trueup_world_exported", |it| it == 1.0);

    // Without a list no export is taken, and nothing is known.
    let mut on_c = c.watch();
    wait_for_log(&c, "the store has no grants");
    c.wait_for_metric("trueup_world_known", |it| it == 0.0);
    assert_eq!(c.routes(), "");
    let planned = c.run(&["plan", "f.toml"]);
    planned.assert_refused(&["the store has no grants"]);

    let first = sign(1, OF_A);
    let put = c.run(&["world", "grants", "put", "f.toml", "signed"]);
    assert_eq!(put.code, 0, "{put:?}");
    c.wait_for_route(OF_A, true);
    assert!(c.routes().contains(&format!("{OF_A} via {A} ")), "{}", c.routes());
    c.wait_for_metric("trueup_world_refused", |it| it == 3.0);
    c.wait_for_metric("trueup_world_overlaps", |it| it == 0.0);
    c.wait_for_metric("trueup_converged", |it| it == 1.0);
    let collected = c.run(&["world", "collect", "f.toml"]);
    assert!(collected.out.contains("10.20.1.128/25 is not granted to host m"), "{collected:?}");
    let shown = c.run(&["world", "grants", "show", "f.toml"]);
    assert_eq!(shown.out, "a: 10.20.1.0/24 (list 1)\n", "{shown:?}");

    // A list signed with another key changes nothing, and is reported.
    write(&cluster, Some(b"no list".to_vec()));
    c.wait_for_metric("trueup_world_known", |it| it == 0.0);
    assert!(c.has_route(OF_A), "what was collected stays");
    // The same holds if the file is reloaded meanwhile.
    c.declare(&(c.collect(ALL) + "limit = 99\n"));
    wait_for_log(&c, "the new file is in force");
    c.wait_for_metric("trueup_world_retained", |it| it == 1.0);
    assert!(c.has_route(OF_A), "what was collected stays");

    // Sign a newer list; then put the first one back, also over a restart.
    sign(2, "10.20.0.0/16");
    let put = c.run(&["world", "grants", "put", "f.toml", "signed"]);
    assert_eq!(put.code, 0, "{put:?}");
    c.wait_for_metric("trueup_world_known", |it| it == 1.0);
    write(&cluster, Some(first));
    wait_for_log(&c, "an older list was put back");
    c.wait_for_metric("trueup_world_known", |it| it == 0.0);
    on_c.terminate(Signal::TERM);
    let planned = c.run(&["plan", "f.toml"]);
    planned.assert_refused(&["an older list was put back"]);
    let mut on_c = c.watch();
    wait_for_log(&c, "an older list was put back");
    assert!(c.has_route(OF_A), "not knowing deletes nothing");
    let doctor = c.run(&["world", "doctor", "f.toml"]);
    assert_eq!(doctor.code, 2, "{doctor:?}");
    assert!(doctor.out.contains("an older list was put back"), "{doctor:?}");

    // If others can read the secret key, it signs nothing.
    let key = c.agent.directory().join("key");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let signed = c.run(&["world", "grants", "sign", "--key", "key", "list"]);
    signed.assert_refused(&["set its mode to 0600"]);
    for running in [&mut on_a, &mut on_m, &mut on_c] {
        running.terminate(Signal::TERM);
    }
}

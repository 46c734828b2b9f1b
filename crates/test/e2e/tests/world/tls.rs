//! Hosts that use TLS with etcd.

use rustix::process::Signal;
use trueup_contracts::etcd::{Authority, Cluster, ClusterOptions};
use trueup_testkit::{ip, uplinks, wait_until};

use crate::host::{Host, export};

/// Returns the keys of `[world]`, with or without the clients' certificate.
fn settings(cluster: &Cluster, authority: &Authority, has_certificate: bool) -> String {
    let folder = cluster.folder().display();
    let authority = authority.file().display();
    let certificate = match has_certificate {
        true => {
            format!("cert_file = \"{folder}/client.pem\"\nkey_file = \"{folder}/client.key\"\n")
        }
        false => String::new(),
    };
    format!("ca_file = \"{authority}\"\n{certificate}")
}

pub(crate) fn hosts_speak_tls_and_a_wrong_authority_is_named_with_its_file() {
    ip(&["link", "set", "lo", "up"]);
    uplinks(1);
    let cluster = Cluster::start(&ClusterOptions::local(1).with_tls()).unwrap();
    let right = cluster.authority().unwrap();
    let (mut a, mut b) = (Host::new("a", 1, &cluster), Host::new("b", 2, &cluster));
    a.settings = settings(&cluster, right, true);
    b.settings = settings(&cluster, right, true);
    a.declare(&export("pods", "10.20.1.0/24"));
    b.declare(&b.collect("10.20.0.0/16"));
    let (mut on_a, mut on_b) = (a.watch(), b.watch());
    b.wait_for_route("10.20.1.0/24", true);
    on_b.terminate(Signal::TERM);

    let wrong = Authority::new(cluster.folder(), "other").unwrap();
    b.settings = settings(&cluster, &wrong, true);
    b.declare(&b.collect("10.20.0.0/16"));
    let remedy = "other.pem is not that of the authority which signed";
    for command in [&["world", "ls", "f.toml"][..], &["plan", "f.toml"]] {
        b.run(command).assert_refused(&["ca_file", remedy]);
    }
    let mut on_b = b.watch();
    wait_until("it says so", || b.log().contains(remedy));
    assert!(b.has_route("10.20.1.0/24"), "not to know deletes nothing");
    on_b.terminate(Signal::TERM);

    b.settings = settings(&cluster, right, false);
    b.declare(&b.collect("10.20.0.0/16"));
    b.run(&["world", "ls", "f.toml"]).assert_refused(&["cert_file", "key_file"]);
    on_a.terminate(Signal::TERM);
}

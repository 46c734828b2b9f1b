//! Access control and TLS.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use trueup_contracts::etcd::{Authority, Cluster, ClusterOptions, write_secret};
use trueup_etcd::{Administrator, Config, EtcdStore, Exposure};
use trueup_testkit::wait_until;
use trueup_world::{Access, ErrorKind, Revision, Store};

use crate::help::{
    SOON, assert_kind, change, end, one, one_with, open, open_with, put, set, set_at_last,
    watch_at_last,
};

/// The time after which a token of three seconds has expired, as etcd checks once a second. A
/// shorter token would end between two requests on a busy machine.
const EXPIRED: Duration = Duration::from_millis(4500);

/// Makes the configuration of a user whose password is in a file of the cluster's folder.
pub(crate) fn user(cluster: &Cluster, name: &str, password: &str) -> Config {
    let file = cluster.folder().join(format!("{name}.password"));
    write_secret(&file, &format!("{password}\n")).unwrap();
    cluster.config().with_user(name, file)
}

fn access(read: &[&str], write: &[&str]) -> Access {
    let prefixes = |prefixes: &[&str]| {
        let bytes = prefixes.iter().map(|prefix| prefix.as_bytes().to_vec());
        bytes.collect()
    };
    Access { read: prefixes(read), write: prefixes(write) }
}

pub(crate) fn a_user_does_only_what_its_role_allows() {
    let mut cluster = one();
    let access = access(&["/t/a/", "/t/any/"], &["/t/a/", "/t/in/"]);
    cluster.add_user("a", "secret", &access).unwrap();
    let early = open(user(&cluster, "a", "secret"));
    assert_kind(early.read(b"/t/a/", None), ErrorKind::Denied);
    cluster.enable_access_control().unwrap();
    let a = open(user(&cluster, "a", "secret"));
    set(&a, "/t/a/x", "1");
    set(&a, "/t/in/x", "1");
    assert_eq!(a.read(b"/t/a/", None).unwrap().1.len(), 1);
    assert!(a.read(b"/t/any/", None).unwrap().1.is_empty());
    let mut watch = a.watch(b"/t/a/", Revision(1)).unwrap();
    assert!(change(&mut watch).ends_with(" /t/a/x=1"));
    for key in ["/t/b/x", "/t/any/x", "/t"] {
        assert_kind(a.commit(&[], &[put(key, "1", None)]), ErrorKind::Denied);
    }
    for prefix in ["", "/t/", "/t/in/", "/t/b/"] {
        assert_kind(a.read(prefix.as_bytes(), None), ErrorKind::Denied);
        let watch = a.watch(prefix.as_bytes(), Revision(1));
        assert_kind(watch.map(drop), ErrorKind::Denied);
    }
    let anonymous = open(cluster.config());
    assert_kind(anonymous.read(b"/t/a/", None), ErrorKind::Denied);
    let wrong = open(user(&cluster, "a", "wrong"));
    assert_kind(wrong.commit(&[], &[put("/t/a/x", "2", None)]), ErrorKind::Denied);
}

pub(crate) fn a_token_that_expired_is_renewed() {
    let mut cluster = one_with(&["--auth-token-ttl=3"]);
    cluster.add_user("a", "secret", &access(&["/a"], &["/a"])).unwrap();
    cluster.enable_access_control().unwrap();
    let store = open(user(&cluster, "a", "secret"));
    let lease = store.grant(Duration::from_secs(60)).unwrap();
    store.commit(&[], &[put("/a", "0", Some(lease))]).unwrap();
    let mut early = store.watch(b"/a", Revision(1)).unwrap();
    for round in 1..3 {
        thread::sleep(EXPIRED);
        // Each first call has an expired token.
        if round == 1 {
            set(&store, "/a", "1");
        } else {
            let mut watch = store.watch(b"/a", Revision(2)).unwrap();
            assert_eq!(change(&mut watch), "3: /a=1");
        }
        store.renew(lease).unwrap();
    }
    assert_eq!(change(&mut early), "2: /a=0");
    assert_eq!(change(&mut early), "3: /a=1");
}

pub(crate) fn a_changed_password_is_read_again() {
    let mut cluster = one_with(&["--auth-token-ttl=3"]);
    cluster.add_user("a", "secret", &access(&["/a"], &["/a"])).unwrap();
    cluster.enable_access_control().unwrap();
    let store = open(user(&cluster, "a", "secret"));
    set(&store, "/a", "1");
    cluster.change_password("a", "changed").unwrap();
    thread::sleep(EXPIRED);
    assert_kind(store.commit(&[], &[put("/a", "2", None)]), ErrorKind::Denied);
    user(&cluster, "a", "changed");
    set(&store, "/a", "3");
    // When a role changes, older tokens are no longer valid.
    let added = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let access = access(&["/b"], &["/b"]);
            let done = (0..20)
                .try_for_each(|user| cluster.add_user(&format!("b{user}"), "secret", &access));
            added.store(true, Ordering::Relaxed);
            done.unwrap();
        });
        while !added.load(Ordering::Relaxed) {
            set(&store, "/a", "4");
        }
    });
}

/// Connects to nothing, not even at this host's own addresses, because any user may listen there.
pub(crate) fn a_password_is_not_sent_in_clear_unless_allowed() {
    let thief = TcpListener::bind("127.0.0.1:0").unwrap();
    thief.set_nonblocking(true).unwrap();
    let file = std::env::temp_dir().join(format!("trueup-clear-{}", std::process::id()));
    write_secret(&file, "secret").unwrap();
    let without = Config::new([format!("http://{}", thief.local_addr().unwrap())])
        .with_timeout(Duration::from_secs(1));
    let config = without.clone().with_user("a", &file);
    for error in [
        EtcdStore::open(config.clone()).map(drop).unwrap_err(),
        Administrator::connect(config.clone()).map(drop).unwrap_err(),
        // It sends the passwords of new users.
        Administrator::connect(without).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("allow_clear_password"), "{error}");
    }
    let connected = thief.accept().unwrap_err();
    assert_eq!(connected.kind(), std::io::ErrorKind::WouldBlock);
    // It would have been sent.
    let allowed = EtcdStore::open(config.with_clear_password(true)).unwrap();
    assert_kind(allowed.read(b"/", None), ErrorKind::Unavailable);
    thief.accept().unwrap();
    fs::remove_file(file).unwrap();
}

pub(crate) fn what_clients_without_user_and_certificate_may_do_is_found() {
    let probe = |config: Config| Exposure::probe(config.with_timeout(SOON));
    let mut cluster = one();
    let found = probe(cluster.config()).unwrap();
    assert!(found.keys && found.leases && found.members, "{found:?}");
    cluster.enable_access_control().unwrap();
    // etcd 3.4 checks the user for requests about keys, and for no others.
    let found = probe(cluster.admin_config()).unwrap();
    assert!(!found.keys && found.leases && found.members, "{found:?}");
    let cluster = Cluster::start(&ClusterOptions::local(1).with_tls()).unwrap();
    let error = probe(cluster.config().with_connect_timeout(SOON)).unwrap_err();
    assert!(error.is_retryable(), "{error}");
}

pub(crate) fn clients_without_a_certificate_are_refused() {
    let cluster = Cluster::start(&ClusterOptions::local(1).with_tls()).unwrap();
    let authority = cluster.authority().unwrap();
    set(&open(cluster.config()), "/a", "1");
    let mut without = cluster.config();
    (without.cert_file, without.key_file) = (None, None);
    let without = open(without);
    assert!(without.read(b"/", None).unwrap_err().is_retryable());
    // Another authority: neither side trusts the other.
    let other = Authority::new(cluster.folder(), "other").unwrap();
    let files = other.issue("another", &[]).unwrap();
    let untrusting = cluster.config().with_ca_file(other.file());
    let error = open(untrusting).commit(&[], &[put("/a", "2", None)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("certificate"), "{error}");
    let untrusted = cluster.config().with_ca_file(authority.file());
    let untrusted = untrusted.with_cert_files(files.certificate, files.key);
    let untrusted = open(untrusted);
    assert!(untrusted.commit(&[], &[put("/a", "2", None)]).is_err());
    let now = open(cluster.config()).read(b"/", None).unwrap();
    assert_eq!(now.0, Revision(2));
}

pub(crate) fn replaced_certificates_are_read_again() {
    let options = ClusterOptions::local(1).with_tls();
    let mut cluster = Cluster::start(&options).unwrap();
    let store = open(cluster.config());
    assert_eq!(set(&store, "/a", "1"), Revision(2));
    let mut watch = store.watch(b"/", Revision(2)).unwrap();
    // Another authority with all its certificates, under the names of the former ones.
    let authority = Authority::new(cluster.folder(), "ca").unwrap();
    authority.issue("server", &[options.places[0].address]).unwrap();
    authority.issue("client", &[]).unwrap();
    cluster.kill(0).unwrap();
    cluster.restart(0).unwrap();
    assert_eq!(end(&mut watch).kind(), ErrorKind::Unavailable);
    cluster.wait_for_leader().unwrap();
    assert_eq!(set_at_last(&store, "/a", "2"), Revision(3));
    let mut watch = store.watch(b"/", Revision(2)).unwrap();
    assert_eq!(change(&mut watch), "3: /a=2");
    let written = store.commit(&[], &[put("/a", "3", None)]).unwrap();
    assert_eq!(written, Some(Revision(4)));
}

/// First both authorities are trusted, then the other one issues all certificates, then the former
/// one is no longer trusted. Each time the members restart one by one, and the hosts keep running.
pub(crate) fn another_authority_takes_over_while_both_are_trusted() {
    let options = ClusterOptions::local(3).with_tls();
    let mut cluster = Cluster::start(&options).unwrap();
    let folder = cluster.folder().to_owned();
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    // Moved there whole, as it may be in use.
    let trust = |authorities: &str| {
        fs::write(folder.join("ca.new"), authorities).unwrap();
        fs::rename(folder.join("ca.new"), folder.join("ca.pem")).unwrap();
    };
    let former = ["client.pem", "client.key"].map(text);
    let authority = Authority::new(&folder, "next").unwrap();
    let store = open_with(cluster.config());
    let begun = set_at_last(&store, "/a", "begun");
    let steps: [(&str, &dyn Fn()); 3] = [
        ("both", &|| trust(&(text("ca.pem") + &text("next.pem")))),
        ("issued", &|| {
            let address = options.places[0].address;
            authority.issue("server", &[address]).unwrap();
            authority.issue("client", &[]).unwrap();
        }),
        ("one", &|| trust(&text("next.pem"))),
    ];
    let mut expected = Vec::new();
    for (name, step) in steps {
        step();
        for member in 0..3 {
            cluster.kill(member).unwrap();
            cluster.restart(member).unwrap();
            let one = open_with(cluster.config_of(&[member]));
            wait_until("the member serves", || one.read(b"/none", None).is_ok());
            let value = format!("{name} {member}");
            let at = set_at_last(&store, "/a", &value);
            expected.push(format!("{at}: /a={value}"));
        }
    }
    let mut watch = watch_at_last(&store, begun);
    let mut seen: Vec<_> = std::iter::repeat_with(|| change(&mut watch))
        .take_while(|seen| Some(seen) != expected.last())
        .collect();
    seen.push(expected[8].clone());
    // A write is sent until it is known to be there, and so may be written twice.
    assert!(expected.iter().all(|change| seen.contains(change)), "{seen:?}");
    // The former authority's certificates are no longer accepted.
    let files = ["former.pem", "former.key"].map(|name| folder.join(name));
    files.iter().zip(&former).for_each(|(file, text)| write_secret(file, text).unwrap());
    let config = cluster.config().with_cert_files(&files[0], &files[1]);
    assert_kind(open_with(config).read(b"/", None), ErrorKind::Unavailable);
}

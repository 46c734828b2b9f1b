//! The roles of hosts, as an administrator makes them, and attempts to exceed them with a host's
//! credentials.

use trueup_contracts::etcd::Cluster;
use trueup_etcd::{Administrator, EtcdStore};
use trueup_world::{Access, ErrorKind, Export, Filter, Revision, Store, World};

use crate::access::user;
use crate::help::{assert_kind, one, open, put};

const PREFIX: &str = "/trueup";

/// Starts a cluster with the hosts a, b and c, each with a user of its name. a may export to c.
fn hosts() -> Cluster {
    let mut cluster = one();
    for (host, recipients) in [("a", &["c".to_owned()][..]), ("b", &[]), ("c", &[])] {
        let access = Access::of_host(PREFIX, host, recipients).unwrap();
        cluster.add_user(host, host, &access).unwrap();
    }
    cluster.enable_access_control().unwrap();
    cluster
}

fn store(cluster: &Cluster, host: &str) -> EtcdStore {
    open(user(cluster, host, host))
}

fn world(cluster: &Cluster, host: &str) -> World {
    World::new(std::sync::Arc::new(store(cluster, host)), PREFIX, host).unwrap()
}

/// etcd itself refuses it, whatever code the client runs.
pub(crate) fn a_host_does_nothing_in_the_name_of_another() {
    let cluster = hosts();
    let (a, b) = (world(&cluster, "a"), world(&cluster, "b"));
    let to_any = Export::new("route", "pods", "a").persist();
    let to_c = Export::new("route", "secret", "a").persist().to("c");
    assert!(a.put_export(&to_any).unwrap());
    assert!(!a.put_export(&to_any).unwrap());
    assert!(a.put_export(&to_c).unwrap());
    // Only a grant of the recipient lets a host export to it.
    let to_a = Export::new("route", "pods", "b").persist().to("a");
    assert_kind(b.put_export(&to_a), ErrorKind::Denied);

    // b's credentials, without b's code.
    let raw = store(&cluster, "b");
    for key in [
        "/trueup/resources/*/a/route/pods",
        "/trueup/resources/c/a/route/secret",
        "/trueup/resources/c/b/route/pods",
        "/trueup/hosts/a/session",
        "/trueup/hosts/a/generation",
        "/trueup/private/a/recipients/c",
        "/trueup/cluster/size",
        "/trueup/cluster/deploys/1",
        "/elsewhere",
    ] {
        assert_kind(raw.commit(&[], &[put(key, "b", None)]), ErrorKind::Denied);
    }
    for prefix in
        ["/trueup/resources/c/", "/trueup/resources/", "/trueup/private/a/", "/trueup/", ""]
    {
        assert_kind(raw.read(prefix.as_bytes(), None), ErrorKind::Denied);
        let watch = raw.watch(prefix.as_bytes(), Revision(1));
        assert_kind(watch.map(drop), ErrorKind::Denied);
    }
    // A host cannot change rights, including those of other users.
    let administrator = Administrator::connect(user(&cluster, "b", "b"));
    assert_kind(administrator.map(drop), ErrorKind::Denied);

    let names = |host: &str| {
        let collected = world(&cluster, host).collect(&[Filter::all()]).unwrap();
        let names = collected.resources.into_keys().map(|key| key.name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("b"), [b"pods"]);
    assert_eq!(names("c"), [&b"pods"[..], b"secret"]);
}

pub(crate) fn a_role_is_made_once_and_follows_what_is_granted() {
    let mut cluster = one();
    let administrator = Administrator::connect(cluster.admin_config()).unwrap();
    assert!(!administrator.is_enforced());
    let role = |recipients: &[String]| {
        let access = Access::of_host(PREFIX, "a", recipients).unwrap();
        administrator.set_role("a", &access).unwrap()
    };
    assert!(role(&["c".to_owned()]));
    assert!(!role(&["c".to_owned()]));
    assert!(administrator.add_user("a", "a").unwrap());
    let again = administrator.add_user("a", "other").unwrap();
    assert!(!again);
    assert!(administrator.add_role("a", "a").unwrap());
    assert!(!administrator.add_role("a", "a").unwrap());
    // An earlier user root with an unknown password must not lock the administrator out.
    administrator.add_user("root", "forgotten").unwrap();
    assert_kind(administrator.enforce(""), ErrorKind::Invalid);
    cluster.enable_access_control().unwrap();

    let a = world(&cluster, "a");
    let to_c = Export::new("route", "pods", "a").persist().to("c");
    a.put_export(&to_c).unwrap();
    let administrator = Administrator::connect(cluster.admin_config()).unwrap();
    assert!(administrator.is_enforced());
    assert!(!administrator.enforce("other").unwrap());
    let access = Access::of_host(PREFIX, "a", &[]).unwrap();
    let taken = administrator.set_role("a", &access).unwrap();
    assert!(taken);
    let to_c = Export::new("route", "more", "a").persist().to("c");
    assert_kind(a.put_export(&to_c), ErrorKind::Denied);

    let operator = Access::of_operator(PREFIX).unwrap();
    administrator.set_role("operators", &operator).unwrap();
    administrator.add_user("o", "o").unwrap();
    administrator.add_role("o", "operators").unwrap();
    let operator = world(&cluster, "o");
    assert!(operator.set_ideal_size(Some(3)).unwrap());
    let export = Export::new("route", "pods", "o").persist();
    assert_kind(operator.put_export(&export), ErrorKind::Denied);
    assert_kind(a.set_ideal_size(None), ErrorKind::Denied);
}

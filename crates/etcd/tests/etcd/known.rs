use std::time::{Duration, Instant};
use trueup_etcd::EtcdStore;
use trueup_etcd::testing::{Cluster, ClusterOptions};
use trueup_world::*;

pub(crate) fn a_smoke() {
    let t = Instant::now();
    let cluster = Cluster::start(&ClusterOptions::local(1)).unwrap();
    println!("one {:?}", t.elapsed());
    let three = Cluster::start(&ClusterOptions::local(3)).unwrap();
    println!("three {:?}", t.elapsed());
    let (_net, netted) = crate::net::three(&[]);
    println!("netted {:?}", t.elapsed());
    for c in [&cluster, &three, &netted] {
        let store = EtcdStore::open(c.config()).unwrap();
        let t = Instant::now();
        let lease = store.grant(Duration::from_secs(5)).unwrap();
        let w = store.commit(&Transaction {
            compares: vec![],
            writes: vec![Write::Put {
                key: b"/a".to_vec(),
                value: b"1".to_vec(),
                lease: Some(lease),
            }],
        });
        println!("{w:?} {:?}", t.elapsed());
        let mut watch = store.watch(b"/", Revision(1)).unwrap();
        for _ in 0..2 {
            println!("{:?}", watch.next(Duration::from_secs(2)));
        }
        println!("{:?} {:?}", store.renew(lease), store.renew(lease));
        store.revoke(lease).unwrap();
        println!("{:?} {:?}", store.renew(lease), store.revoke(lease));
        println!("{:?}", watch.next(Duration::from_secs(2)));
        println!("{:?}", store.read(b"/", None));
        println!("{:?}", store.members());
        println!("{:?}", t.elapsed());
    }
}

//! The store on real etcd, as processes in namespaces: needs the program `etcd` (Debian's package
//! etcd-server).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod known;
mod net;

trueup_testkit::kernel_tests![known::a_smoke,];

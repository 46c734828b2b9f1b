//! Router advertisements by radvd, at the link's other end.

use trueup_testkit::{ip, wait_until};

use crate::beside::{Beside, OURS, third_writer};
use crate::host::{Daemon, Host};
use rustix::process::Signal;

const CONFIG: &str = "interface d1 {
  AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;
  prefix fd00:1::/64 { AdvOnLink on; AdvAutonomous on; };
};
";

fn defaults() -> String {
    ip(&["-6", "route", "show", "default"])
}

pub(crate) fn our_default_route_with_a_metric_stands_beside_theirs() {
    let ours = format!("{OURS}[[route]]\ndst = \"::/0\"\nvia = \"fd00:77::9\"\nmetric = 100\n");
    let host = Host::new();
    third_writer();
    let file = host.write("radvd.conf", CONFIG);
    let router = ["ip", "netns", "exec", "far", "radvd", "-n", "-m", "stderr", "-C", &file];
    let router = Daemon::start(&[&router[..], &["-p", "/run/radvd.pid"]].concat());
    wait_until("it is heard of", || defaults().contains("proto ra"));
    let mut beside = Beside::new(&ours).refreshed();
    beside.shows_peace(|| {
        router.signal(Signal::HUP);
    });
    let defaults = defaults();
    assert!(defaults.contains("proto ra") && defaults.contains("metric 100"), "{defaults}");
    beside.end();
}

//! The example with rtnetlink under tokio, on the running kernel.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use trueup_testkit::{Snapshot, fresh_netns, ip};

#[allow(dead_code)]
#[path = "../examples/tokio.rs"]
mod example;

fn rtnetlink_dumps_and_applies_what_the_diff_plans() {
    fresh_netns();
    example::main().unwrap();
    assert!(ip(&["link", "show", "br0"]).contains("UP"));
    assert!(ip(&["address", "show", "dev", "br0"]).contains("10.1.0.1/24"));
    assert!(ip(&["route", "show", "proto", "116"]).starts_with("10.2.0.0/16 via 10.1.0.9 dev br0"));
    // A second pass has nothing to do: it would fail to create what exists.
    let before = Snapshot::settled();
    example::main().unwrap();
    before.assert_same(&Snapshot::settled());
}

trueup_testkit::kernel_tests![rtnetlink_dumps_and_applies_what_the_diff_plans];

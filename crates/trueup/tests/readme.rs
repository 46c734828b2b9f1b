//! The program that the README shows, word for word, against the kernel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, though without #[test]"
)]

use std::env;
use std::process::Command;

use trueup_testkit::{Kind, Snapshot, bridge, ip};

trueup_testkit::kernel_tests![the_example_converges, the_readme_shows_it];

fn the_example_converges() {
    bridge("br0", &[]);
    ip(&["address", "add", "10.1.0.1/24", "dev", "br0"]);
    let before = Snapshot::settled();
    // `cargo test` builds the examples beside the tests; with `--test readme` it does not.
    let test = env::current_exe().unwrap();
    let example = test
        .parent()
        .unwrap()
        .with_file_name("examples")
        .join("route");
    let output = Command::new(example)
        .output()
        .expect("the example, by `cargo build -p trueup --examples`");
    assert_eq!(output.stdout, b"converged: true\n", "{output:?}");
    let after = Snapshot::settled();
    assert_eq!(after.routes_with_protocol(116).len(), 1);
    assert_eq!(
        after.of(Kind::Route).count(),
        before.of(Kind::Route).count() + 1
    );
    before.assert_same(&after.without_protocol(116));
}

fn the_readme_shows_it() {
    let example = include_str!("../examples/route.rs");
    let program = example.split_once("\n\n").unwrap().1;
    assert!(
        include_str!("../../../README.md").contains(program),
        "README.md shows another one"
    );
}

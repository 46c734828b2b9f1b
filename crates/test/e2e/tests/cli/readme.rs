//! Runs the program shown in the README, word for word, on the kernel, and the other examples.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

use trueup_e2e::page::root;
use trueup_e2e::picture;
use trueup_testkit::{Kind, Snapshot, bridge, ip, quiet_netns};

use crate::agent::{Running, TRUEUP};

pub(crate) fn the_example_keeps_its_route() {
    bridge("br0", &[]);
    ip(&["address", "add", "10.1.0.1/24", "dev", "br0"]);
    let before = Snapshot::settled();
    let mut child = Running::of(&mut Command::new(env!("CARGO_BIN_EXE_example-keep")));
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let made = "+ route 10.2.0.0/16 via 10.1.0.9 proto 116 table 254   (missing)";
    assert_eq!(lines.next().unwrap().unwrap(), made);
    ip(&["route", "delete", "10.2.0.0/16"]);
    assert_eq!(lines.next().unwrap().unwrap(), made);
    let after = Snapshot::settled();
    assert_eq!(after.routes_with_protocol(116).len(), 1);
    assert_eq!(after.of(Kind::Route).count(), before.of(Kind::Route).count() + 1);
    before.assert_same(&after.without_protocol(116));
}

pub(crate) fn the_example_of_the_loop_measures() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-latency")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("to the source: median"), "{text}");
}

pub(crate) fn the_example_of_a_daemon_goes_on_beside_what_cannot_be() {
    let output = Command::new(env!("CARGO_BIN_EXE_example-daemon")).arg("1").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let (changes, exceptions) = text.split_once("not in place at the end:\n").unwrap();
    assert!(changes.contains(" objects, 2 of them not in place"), "{text}");
    let exceptions: Vec<&str> = exceptions.lines().collect();
    let [conflict, unreachable] = exceptions[..] else { panic!("not two exceptions: {text}") };
    let (foreign, failed) = (": conflict: foreign ", "failed");
    assert!(conflict.contains("198.18.0.0/24 ") && conflict.contains(foreign));
    assert!(unreachable.contains("198.51.100.0/24 ") && unreachable.contains(failed));
}

pub(crate) fn the_readme_shows_it() {
    let example = include_str!("../../../../agent/trueup/examples/keep.rs");
    let program = example.split_once("\n\n").unwrap().1;
    assert!(
        include_str!("../../../../../README.md").contains(program),
        "README.md shows another one"
    );
}

pub(crate) fn the_pictures_are_what_is_printed() {
    for (name, draw) in picture::ALL {
        quiet_netns();
        let path = root().join("docs").join(name);
        let kept = std::fs::read_to_string(&path).unwrap();
        let drawn = draw(Path::new(TRUEUP));
        let differing = kept.lines().zip(drawn.lines()).find(|(kept, drawn)| kept != drawn);
        assert_eq!(differing, None, "docs/{name}: run `cargo xtask pictures`");
        assert_eq!(kept.lines().count(), drawn.lines().count(), "docs/{name}");
    }
}
